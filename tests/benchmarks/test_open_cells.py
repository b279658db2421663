"""The benchmark of open cells runs, on few of them."""

from __future__ import annotations

from benchmarks.open_cells import measured


def test_the_cost_of_open_cells_is_measured() -> None:
    cost = measured(100, changed=20)
    assert cost.cells == 100
    assert 0 < cost.p50 <= cost.p99
    assert cost.stored > 0
    assert cost.restart > 0

"""The cost model finds the costs of what it is fitted to, and its experiments run, on little data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from benchmarks.cost_model import (
    FITTED,
    MicroBatch,
    costs_table,
    measured,
    opened,
    prediction_table,
    rate_table,
    sustained,
    write_input,
)
from benchmarks.cost_of_shards import Cost, growth, shards_table
from benchmarks.cost_of_shards import measured as measured_shards
from benchmarks.fitting import Model, fit
from dataflow_model.runners.sharded.commits.progress import read_counters

if TYPE_CHECKING:
    from pathlib import Path

COSTS = {
    "micro-batch": 5e-3,
    "file read": 1e-3,
    "file written": 2e-3,
    "further stage": 1e-3,
    "element": 3e-7,
    "changed cell": 8e-6,
    "pane": 4e-7,
}
SYNTHETIC = Model(COSTS, dict.fromkeys(COSTS, 0.0), 1.0, 0.0)
FACTORS = [micro_batch.factors() for micro_batch in FITTED]


def test_the_costs_of_synthetic_times_are_found_exactly() -> None:
    fitted = fit(FACTORS, [SYNTHETIC.predict(factors) for factors in FACTORS])
    assert fitted.costs == pytest.approx(COSTS, rel=1e-6)
    assert fitted.r_squared == pytest.approx(1)
    assert fitted.worst < 1e-9


def test_noisy_times_give_costs_within_four_standard_errors() -> None:
    noise = np.random.default_rng(1).normal(1, 0.05, len(FACTORS))
    fitted = fit(FACTORS, [SYNTHETIC.predict(factors) * by for factors, by in zip(FACTORS, noise, strict=True)])
    for name, cost in COSTS.items():
        assert abs(fitted.costs[name] - cost) < 4 * fitted.errors[name] < 4 * cost
    assert 0.9 < fitted.r_squared < 1
    assert 0.02 < fitted.worst < 0.2


def test_a_cost_that_would_be_negative_is_left_out() -> None:
    fitted = fit([{"start": 1, "row": rows} for rows in (1, 2, 3)], [3.0, 2.0, 2.0])
    assert fitted.costs["row"] == 0
    assert fitted.errors["row"] == 0
    assert 2 < fitted.costs["start"] < 3


@pytest.mark.parametrize(
    "micro_batch",
    [MicroBatch(100, 20), MicroBatch(100, 20, stages=3, per_pane=5), MicroBatch(60, 20, files=3, stages=2, per_pane=1)],
    ids=["without panes", "a pane per cell", "a pane per element"],
)
def test_the_factors_of_a_micro_batch_are_what_its_run_counts(micro_batch: MicroBatch, tmp_path: Path) -> None:
    with opened(micro_batch, tmp_path) as stream:
        write_input(micro_batch, tmp_path, 0)
        stream.step()
        counts = read_counters(stream.checkpoint.common_part, stream.program.staged.plan)
        written = list((tmp_path / "out").glob("part-*"))
    factors = micro_batch.factors()
    sums = [counts[f"sums {stage}"] for stage in range(micro_batch.stages)]
    assert len(stream.program.staged.stages) == micro_batch.stages
    assert factors["element"] == sum(counted.get("elements_in", 0) for counted in sums)
    assert factors["pane"] == sum(counted.get("panes_early", 0) for counted in sums)
    assert factors["file written"] == len(written)


def test_the_table_of_costs_has_a_row_for_each_factor() -> None:
    lines = list(costs_table([fit(FACTORS, [SYNTHETIC.predict(factors) for factors in FACTORS]), SYNTHETIC]))
    assert "| file read | 1,000 ± 0 | 1,000 ± 0 |" in lines
    assert "| element | 0.30 ± 0.00 | 0.30 ± 0.00 |" in lines
    assert len(lines) == 2 + len(COSTS) + 2


def test_the_cost_of_micro_batches_is_measured() -> None:
    micro_batch = MicroBatch(100, 10, files=2, stages=2, per_pane=1)
    [sample] = measured([micro_batch], rounds=2, repeats=1)
    assert sample.micro_batch == micro_batch
    assert sample.processor > 0
    assert sample.elapsed > 0


def test_the_cost_of_a_micro_batch_with_several_shards_is_measured() -> None:
    cost = measured_shards(3, micro_batches=1)
    assert cost.shards == 3
    assert len(cost.stages) == 2
    assert min(cost.decide, cost.read, *cost.stages, cost.write, cost.publish) > 0
    assert cost.parallel == pytest.approx(cost.read + sum(cost.stages) + cost.write)
    *_, row = shards_table([cost])
    assert row.startswith("| 3 |")


def test_a_predicted_duration_is_the_sum_of_the_times_of_the_driver_and_of_one_core() -> None:
    driver, core = growth([Cost(n, n * 1e-3, 1e-2, (n * 1e-3, n * 1e-3), 1e-2, n * 2e-3) for n in (1, 10, 100)])
    assert (driver, core) == pytest.approx((3e-3, 2e-3))
    lines = list(prediction_table(SYNTHETIC, driver, core))
    thousand_cores = next(line for line in lines if line.startswith("| 100,000 | 1,000 |"))
    cells = [float(cell.replace(",", "")) for cell in thousand_cores.strip("| ").split("|")]
    assert cells[2] == 999 * 3
    assert cells[5] == pytest.approx(sum(cells[2:5]), abs=2)
    assert cells[6] == pytest.approx(100_000 * 1_000 / cells[5] * 1_000, rel=1e-3)


def test_a_sustained_micro_batch_reads_what_arrives_while_it_runs() -> None:
    per_element = SYNTHETIC.predict({"element": 1.1, "changed cell": 0.2, "pane": 0.2})
    whole = SYNTHETIC.predict({"micro-batch": 1, "file read": 1, "file written": 1, "further stage": 1})
    seconds = sustained(SYNTHETIC, 1e-3, 2e-3, 10, 1_000_000)
    assert seconds == pytest.approx(whole + 9 * 3e-3 + per_element * 1_000_000 * seconds / 10)


def test_cores_that_need_more_than_a_second_for_what_arrives_in_one_fall_behind() -> None:
    assert sustained(SYNTHETIC, 1e-3, 2e-3, 1, 1_000_000) == float("inf")
    rows = list(rate_table(SYNTHETIC, 1e-3, 2e-3))
    assert rows[2].startswith("| 1 | falls behind |")
    assert rows[4].startswith("| 10 | 0.0 | 0.1 | ")

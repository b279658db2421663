"""What Prism, Beam's runner in Go, emits in the cases of `docs/departures.md`; skipped where it is not built."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

import dataflow_model as dm
from dataflow_model.testing import TestStream
from scripts import prism
from tests.support.scripting import fixed, script, sessions

pytest.importorskip("apache_beam", reason="needs Beam: pip install 'dataflow-model[beam]'")

from tests.support.beam.beam_side import run_on_beam

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # Beam's own
]
LONG = 1_000
IN_TWOS = dm.Repeatedly(dm.AfterCount(2))
ALL = dm.AfterAll(dm.AfterCount(2), dm.AfterEach(dm.AfterCount(1), dm.AfterCount(4)))
CASES = {
    "elements": ("e 1@5+2@5+4@5", fixed(IN_TWOS), [(3, "EARLY"), (4, "ON_TIME")]),
    "at expiry": ("e 1@5, e 2@6, e 4@7", fixed(IN_TWOS), [(3, "EARLY"), (4, "ON_TIME")]),
    "moment of expiry": ("e 1@5, w 15, e 2@6", fixed(None, 5), [(1, "ON_TIME")]),
    "timing": ("e 1@5, w 12, e 2@3", fixed(IN_TWOS, LONG), [(1, "ON_TIME"), (2, "LATE")]),
    "two timers": ("e 1@5, w 10", fixed(dm.AfterAll(dm.DefaultTrigger(), dm.DefaultTrigger()), LONG), [(1, "ON_TIME")]),
    "turn": ("e 1@5, w 10", fixed(dm.AfterEach(dm.AfterCount(1), dm.AfterWatermark()), LONG), [(1, "EARLY")]),
    "finished window": ("e 1@0, w 12, e 2@9", sessions(dm.AfterWatermark(), LONG), [(1, "ON_TIME"), (2, "ON_TIME")]),
    "on time again": ("e 1@0, w 12, e 2@9", sessions(None, 20), [(1, "ON_TIME"), (2, "ON_TIME")]),
    "below all": ("e 1@5, e 2@5, e 4@5, e 8@5, e 16@5, e 32@5", fixed(ALL, LONG), [(3, "EARLY"), (60, "ON_TIME")]),
    "or_finally": (
        "e 1@5, e 2@6, e 4@7",
        fixed(dm.Repeatedly(dm.AfterCount(1)).or_finally(IN_TWOS), LONG),
        [(1, "EARLY"), (2, "EARLY"), (4, "ON_TIME")],
    ),
}


@pytest.fixture(scope="module")
def program() -> Iterator[Path]:
    """Return Prism, whose log is switched off; skip where it is not built."""
    built = prism.built()
    if built is None:
        pytest.skip("needs Prism: python -m scripts.prism")
    logger = logging.getLogger("PrismJobServer")
    logger.disabled = True
    yield built
    logger.disabled = False


@pytest.mark.parametrize("case", CASES)
def test_panes_on_prism(case: str, program: Path) -> None:
    text, windowing, expected = CASES[case]
    panes = run_on_beam(script(text), windowing.strategy, prism=program)
    in_order = sorted(panes, key=lambda pane: (pane.window or (0, 0), pane.index))
    assert [(pane.value, pane.timing) for pane in in_order] == expected


def test_prism_marks_a_pane_as_last_because_its_window_expires(program: Path) -> None:
    [pane] = run_on_beam(script("e 1@5, w 10"), fixed(dm.Repeatedly(dm.AfterWatermark())).strategy, prism=program)
    assert pane.is_last


def test_prism_merges_no_session_with_one_that_has_ended(program: Path) -> None:
    panes = run_on_beam(script("e 1@0, w 12, e 2@9"), sessions(None, 20).strategy, prism=program)
    assert sorted(pane.window or () for pane in panes) == [(0, 10_000_000), (9_000_000, 19_000_000)]


def test_prism_rejects_triggers_that_count_in_sessions(program: Path) -> None:
    with pytest.raises(Exception, match="stateful triggers with merging windows isn't currently supported in prism"):
        run_on_beam(script("e 1@0, w 15, e 2@9"), sessions(IN_TWOS, 3).strategy, prism=program)


def test_prism_merges_windows_again_in_a_second_grouping(program: Path) -> None:
    steps = TestStream().add(1, 0, key="a").add(2, 5, key="b")
    [pane] = run_on_beam(steps, sessions().strategy, groupings=2, prism=program)
    assert (pane.value, pane.window) == (3, (0, 15_000_000))


def test_the_second_grouping_on_prism_emits_a_pane_for_each_of_the_first(program: Path) -> None:
    steps = TestStream().add(1, 0, key="a").add(2, 5, key="a").add(4, 5, key="b").add(8, 5, key="b")
    panes = run_on_beam(steps, fixed(IN_TWOS).strategy, groupings=2, prism=program)
    assert sorted((pane.value, pane.timing) for pane in panes) == [(3, "EARLY"), (12, "EARLY")]

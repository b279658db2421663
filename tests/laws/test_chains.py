"""Laws of two and three groupings in a row, on any number of shards, cut and interrupted anywhere."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.testing import TestStream, panes_of, strategies
from dataflow_model.testing.comparing import same as same_values
from dataflow_model.testing.proving import laws
from dataflow_model.testing.proving.arrivals import recut, schedules
from dataflow_model.testing.proving.proof_runs import groupings_of
from tests.support.laws.chain_answers import added_up, batch_answers, what_stands
from tests.support.laws.chain_sightings import sightings
from tests.support.laws.chains import (
    Case,
    Outcome,
    adding_up,
    as_probed_stream,
    as_stream,
    by_specification,
    case,
    of_seed,
    on_local,
    once,
    outcome_of,
    refining,
)
from tests.support.laws.examples import share_of_cases, share_of_examples
from tests.support.pipelines import difference
from tests.support.spec.comparing import comparable

if TYPE_CHECKING:
    from collections.abc import Callable

    from dataflow_model.testing.chains import Chain
    from tests.support.spec.drawing import Pick

    Check = Callable[[Case, int], None]

CASES = int(os.environ.get("CHAIN_CASES", "90"))
FAST = share_of_cases(CASES)
NIGHTLY = int(os.environ.get("CHAIN_NIGHTLY_CASES", "20000"))
PARTS = 40


def check(drawn: Case, number: int) -> None:
    """Check every law on one case."""
    local = on_local(drawn)
    if number % 4 == 1 and "OddResult" not in repr(drawn.chain):  # which looks at the value, another one in the copy
        stream, observed = as_probed_stream(drawn)
        for node in groupings_of(drawn.plan()):  # law 5, on shards
            laws.check_conservation(node, observed)
    else:
        stream = as_stream(drawn)
    agree(outcome_of(drawn, stream), local, "in micro-batches")
    agrees_with_specification(drawn, local)
    for node, records in zip(groupings_of(drawn.plan()), local.records, strict=True):
        if node.strategy.late_data is not dm.LateData.DUPLICATE_WINDOW:  # which may be opened again with other panes
            laws.check_pane_sequence(node, records)
            laws.check_balance(node, records)
    if drawn.schedule.cuts == (1,):
        for node in groupings_of(drawn.plan()):
            laws.check_on_time(node, stream.micro_batches, f"{node.label}/panes")
    if number % 4 == 0:
        joined = recut(drawn.script, [True] * 100)
        agree(on_local(attrs.evolve(drawn, script=joined)), local, "in other bundles")


def agree(actual: Outcome, expected: Outcome, where: str) -> None:
    """Laws 2, 3 and 4: at each grouping the very same panes in the same order, and as many dropped."""
    for number, (expected_panes, actual_panes) in enumerate(zip(expected.panes, actual.panes, strict=True), 1):
        problem = difference(expected_panes, actual_panes)
        assert not problem, f"grouping {number} {where}: {problem}"
    assert actual.dropped == expected.dropped, where


def agrees_with_specification(drawn: Case, local: Outcome) -> None:
    panes, dropped = by_specification(drawn)
    for number, (records, expected) in enumerate(zip(local.records, panes, strict=True), 1):
        problem = difference([comparable(pane) for pane in expected], [comparable(pane) for pane in panes_of(records)])
        assert not problem, f"grouping {number} and the specification: {problem}"
    assert local.dropped == dropped


def check_seeds(seeds: range, checks: Check = check, make: Callable[[Pick], Case] = case) -> None:
    """Check the cases of some seeds; of one that fails the smallest script is shown."""
    for seed in seeds:
        drawn = of_seed(seed, make)
        if fails(drawn, seed, checks):
            least = smallest(drawn, seed, checks)
            print(f"seed {seed}", *least.script.steps, *least.chain.groupings, least.schedule, sep="\n")  # noqa: T201 - to see it again
            checks(least, seed)
            raise AssertionError(f"seed {seed} fails now and then")


def fails(drawn: Case, seed: int, checks: Check) -> bool:
    try:
        checks(drawn, seed)
    except Exception:  # noqa: BLE001 - whatever it is, the smallest case raises it again
        return True
    return False


def smallest(drawn: Case, seed: int, checks: Check) -> Case:
    """Return a case that still fails and has no step to spare."""
    index = 0
    while index < len(drawn.script.steps):
        steps = drawn.script.steps[:index] + drawn.script.steps[index + 1 :]
        shorter = attrs.evolve(drawn, script=TestStream(steps))
        drawn, index = (shorter, index) if fails(shorter, seed, checks) else (drawn, index + 1)
    return drawn


# Law 1 ----------------------------------------------------------------------------------------------------------------


def stands(drawn: Case, _: int = 0) -> None:
    """Values less retractions are the batch answer of the batch answer, at every grouping."""
    stream = outcome_of(drawn, as_stream(drawn))
    for records, answer in zip(stream.records, batch_answers(drawn), strict=True):
        assert what_stands(records) == {key: value for key, (value, _) in answer.items()}


def adds_up(drawn: Case, _: int = 0) -> None:
    """Discarding panes add up to the batch answer, at every grouping."""
    stream = outcome_of(drawn, as_stream(drawn))
    for records, answer in zip(stream.records, batch_answers(drawn), strict=True):
        assert added_up(records, answer) == {key: value for key, (value, _) in answer.items()}


def is_the_answer(drawn: Case, _: int = 0) -> None:
    """Each window's one pane is the batch answer, event time included, and nothing is late on the way."""
    stream = outcome_of(drawn, as_stream(drawn))
    for records, answer, dropped in zip(stream.records, batch_answers(drawn), stream.dropped, strict=True):
        assert set(dropped.values()) == {0}
        assert {record.pane.timing for record in records} <= {dm.PaneTiming.ON_TIME}
        assert len(records) == len(answer)
        panes = {(record.value[0], record.window): (record.value[1], int(record.event_time)) for record in records}
        assert same_values(panes, answer)


# The properties -------------------------------------------------------------------------------------------------------

FOLDS = [(stands, refining), (adds_up, adding_up), (is_the_answer, once)]


@pytest.mark.parametrize("part", range(4))
def test_chains_keep_the_laws(part: int) -> None:
    check_seeds(range(part, FAST, 4))


@share_of_examples(0.3)
@given(strategies.test_streams(keys="adg", max_steps=12, signals=strategies.SIGNALS), strategies.chains(), st.data())
def test_chains_of_the_public_strategy_keep_the_laws(script: TestStream, chain: Chain, data: st.DataObject) -> None:
    drawn = Case(script, chain, data.draw(schedules()))
    local = on_local(drawn)
    agree(outcome_of(drawn, as_stream(drawn)), local, "in micro-batches")


@pytest.mark.slow
@pytest.mark.parametrize("part", range(1, PARTS + 1))
def test_twenty_thousand_chains_keep_the_laws(part: int) -> None:
    check_seeds(range(part * 1_000_000, part * 1_000_000 + NIGHTLY // PARTS))


@pytest.mark.parametrize(("checks", "make"), FOLDS)
def test_panes_of_chains_fold_to_the_batch_answer(checks: Check, make: Callable[[Pick], Case]) -> None:
    check_seeds(range(max(3, FAST // 7)), checks, make)


@pytest.mark.slow
@pytest.mark.parametrize(("checks", "make"), FOLDS)
def test_panes_of_thousands_of_chains_fold_to_the_batch_answer(checks: Check, make: Callable[[Pick], Case]) -> None:
    check_seeds(range(1_000_000, 1_000_000 + NIGHTLY // 10), checks, make)


SHARES = {
    "several shards hold, at grouping 1": 30,
    "several shards hold, behind the watermark, at grouping 1": 12,
    "several shards hold, at grouping 2": 4,
    "several shards hold, behind the watermark, at grouping 2": 1,
    "late data, at grouping 2": 20,
    "late data, at grouping 3": 4,
    "dropped, at grouping 2": 6,
    "dropped, at grouping 3": 1,
    "a session grows or merges, at grouping 2": 5,
    "a session grows or merges, at grouping 3": 1,
    "a retraction, at grouping 2": 15,
    "a retraction, at grouping 3": 4,
}
"""What at least so many of a hundred cases see."""


def test_the_drawn_chains_contain_every_situation_that_the_laws_are_about() -> None:
    seen = Counter(what for seed in range(CASES) for what in sightings(of_seed(seed)))
    assert {what for what, share in SHARES.items() if 100 * seen[what] < share * CASES} == set()

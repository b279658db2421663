"""Groupings that go on with another lateness, trigger or mode: the laws of what is kept, and what is rejected."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.testing import strategies
from tests.support.micro_batches import Run
from tests.support.pipelines import difference, draw, run, seen

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from dataflow_model.plan.columns.records import Record
    from tests.support.upgrade.pipelines import Build

MODES = [
    (dm.AccumulationMode.CLEAR_ALWAYS, False),
    (dm.AccumulationMode.ACCUMULATE_ALWAYS, False),
    (dm.AccumulationMode.ACCUMULATE_ALWAYS, True),
]
FNS = strategies.window_fns().filter(lambda fn: not fn.is_merging)
TREES = strategies.triggers(max_depth=2).map(dm.Repeatedly)
LATENESS = st.sampled_from([0, 5, 15, 40])


@st.composite
def changes(draw: st.DrawFn, change: str, fns: Any = FNS) -> tuple[Any, dm.WindowingStrategy, dm.WindowingStrategy]:
    """Draw a script and two strategies that differ in one thing."""
    script = draw(strategies.test_streams(max_steps=12))
    before = draw(strategies.windowing_strategies(fns=fns, trees=TREES, lateness=LATENESS))
    mode, retracting = draw(st.sampled_from(MODES))
    before = attrs.evolve(before, accumulation_mode=mode, retracting=retracting)
    match change:
        case "lateness":
            after = attrs.evolve(before, allowed_lateness=dm.duration(draw(LATENESS)))
        case "trigger":
            after = attrs.evolve(before, trigger=draw(TREES))
        case _:
            mode, retracting = draw(st.sampled_from(MODES))
            after = attrs.evolve(before, accumulation_mode=mode, retracting=retracting)
    return script, before, after


def grouped(cases: Sequence[tuple[Any, dm.WindowingStrategy]]) -> Build:
    """Return what builds a pipeline with each of some scripts under its strategy."""

    def build(p: dm.Pipeline) -> None:
        for case, (script, strategy) in enumerate(cases):
            placed = p | f"script {case}" >> script | f"windows {case}" >> dm.Window.into(strategy)
            _ = placed | f"lists {case}" >> dm.GroupByKey() | f"panes {case}" >> dm.io.Collect()

    return build


def fold(records: Sequence[Record], mode: tuple[dm.AccumulationMode, bool]) -> dict[Any, Counter[Any]]:
    """Return the elements in the result of each key and window."""
    results: dict[Any, Counter[Any]] = {}
    accumulates, retracting = mode
    for record in records:
        (key, values), place = record.value, (record.value[0], record.window)
        del key
        if accumulates is dm.AccumulationMode.CLEAR_ALWAYS:
            results.setdefault(place, Counter()).update(values)
        elif retracting and record.is_retraction:
            assert results.pop(place) == Counter(values)
        else:
            assert not (retracting and place in results)
            results[place] = Counter(values)
    return {place: values for place, values in results.items() if values}


def mode_of(strategy: dm.WindowingStrategy) -> tuple[dm.AccumulationMode, bool]:
    return strategy.accumulation_mode, strategy.retracting


COUNTS = [(20, 1, 3, 2), *(pytest.param(60, *rest, marks=pytest.mark.slow) for rest in [(2, 1, 3), (3, 2, 1)])]


@pytest.mark.parametrize(("count", "number", "shards", "more"), COUNTS)
def test_with_another_lateness_open_windows_emit_what_they_would_have_emitted_with_it_from_the_start(
    tmp_path: Path, count: int, number: int, shards: int, more: int
) -> None:
    cases = draw(changes("lateness"), count, number)
    before = grouped([(script, strategy) for script, strategy, _ in cases])
    after = grouped([(script, strategy) for script, _, strategy in cases])
    was, now = run(dm.LocalRunner(), before), run(dm.LocalRunner(), after)
    old, compared = Run(before, tmp_path / "old", rows=40, shards=shards), 0
    while not old.steps(1).offset.last:
        watermarks = old.progress()["watermarks"]
        new = old.upgraded(after, more).finish()
        for case, (script, shorter, longer) in enumerate(cases):
            at = int(watermarks.get(f"script {case}", dm.MIN_TIMESTAMP))
            lateness = int(shorter.allowed_lateness), int(longer.allowed_lateness)
            panes = new.collected(f"panes {case}")

            def chosen(records: Sequence[Record], test: Callable[[int], bool]) -> list[Any]:
                return seen([record for record in records if test(int(record.window.end))])

            def is_over(end: int, at: int = at, lateness: int = lateness[0]) -> bool:
                return at != int(dm.MIN_TIMESTAMP) and end + lateness <= at

            def goes_on(end: int, at: int = at, most: int = max(lateness)) -> bool:
                return not is_over(end) and (at == int(dm.MIN_TIMESTAMP) or end + most > at)

            def is_open(end: int, at: int = at, least: int = min(lateness)) -> bool:
                return at == int(dm.MIN_TIMESTAMP) or end + least > at

            for name, expected, test in (
                ("over", was, is_over),
                ("open", now, is_open if lateness[1] < lateness[0] else goes_on),
            ):
                problem = difference(chosen(expected.collected(f"panes {case}"), test), chosen(panes, test))
                assert not problem, f"{name} at {at}: {problem}\n{script.steps}\n{shorter}\n{longer}"
            compared += len(panes)
    assert compared > 100


@pytest.mark.parametrize(("count", "number", "shards", "more"), COUNTS)
def test_with_another_trigger_the_results_are_those_of_the_new_trigger_from_the_start(
    tmp_path: Path, count: int, number: int, shards: int, more: int
) -> None:
    cases = draw(changes("trigger"), count, number)
    before = grouped([(script, strategy) for script, strategy, _ in cases])
    after = grouped([(script, strategy) for script, _, strategy in cases])
    expected = run(dm.LocalRunner(), after)
    old, changed = Run(before, tmp_path / "old", rows=40, shards=shards), 0
    while not old.steps(1).offset.last:
        new = old.upgraded(after, more).finish()
        for case, (script, was, now) in enumerate(cases):
            panes = new.collected(f"panes {case}")
            folded = fold(panes, mode_of(now))
            assert folded == fold(expected.collected(f"panes {case}"), mode_of(now)), (script.steps, was, now)
            changed += was.trigger != now.trigger
            for place in folded:
                indices = [
                    record.pane.index
                    for record in panes
                    if (record.value[0], record.window) == place and not record.is_retraction
                ]
                assert indices == list(range(len(indices))), (script.steps, was, now)
    assert changed > 10


@pytest.mark.parametrize(("count", "number", "shards", "more"), COUNTS)
def test_sessions_with_another_trigger_lose_no_element_and_repeat_none(
    tmp_path: Path, count: int, number: int, shards: int, more: int
) -> None:
    cases = draw(changes("trigger", fns=st.just(dm.Sessions(7))), count, number)
    cases = [
        (script, *(attrs.evolve(of, accumulation_mode=MODES[0][0], retracting=False) for of in both))
        for script, *both in cases
    ]
    before = grouped([(script, strategy) for script, strategy, _ in cases])
    after = grouped([(script, strategy) for script, _, strategy in cases])
    expected = run(dm.LocalRunner(), after)
    old = Run(before, tmp_path / "old", rows=40, shards=shards)
    while not old.steps(1).offset.last:
        new = old.upgraded(after, more).finish()
        for case, (script, was, now) in enumerate(cases):
            by_key, from_start = (
                Counter(
                    (record.value[0], value) for record in of.collected(f"panes {case}") for value in record.value[1]
                )
                for of in (new, expected)
            )
            assert by_key == from_start, (script.steps, was, now)


@pytest.mark.parametrize(("count", "number", "shards", "more"), COUNTS)
def test_with_another_mode_windows_go_on_whose_state_means_the_same_and_others_have_to_be_named(
    tmp_path: Path, count: int, number: int, shards: int, more: int
) -> None:
    cases = draw(changes("mode"), count, number)
    before = grouped([(script, strategy) for script, strategy, _ in cases])
    after = grouped([(script, strategy) for script, _, strategy in cases])
    batch = run(dm.LocalRunner(), before)
    old, seen_outcomes = Run(before, tmp_path / "old", rows=40, shards=shards), Counter[str]()
    while not old.steps(1).offset.last:
        fates = old.outcomes(after)
        lost = [label for label, outcome in fates.items() if outcome == "needs --drop"]
        seen_outcomes.update(fates[f"lists {case}"] for case in range(len(cases)))
        if lost:
            with pytest.raises(dm.CheckpointMismatch, match=f"{lost[0]!r} has: .* of its open windows .*; lost: "):
                old.upgraded(after, more)
        new = old.upgraded(after, more, drop=lost).finish()
        for case, (script, was, now) in enumerate(cases):
            if f"lists {case}" in lost:
                continue
            earlier = old.collected(f"panes {case}")
            later = new.collected(f"panes {case}")[len(earlier) :]
            emitted = {(record.value[0], record.window) for record in earlier}
            if mode_of(was) == MODES[2] and mode_of(now) == MODES[1]:  # what was emitted is refined, not retracted
                assert not any(record.is_retraction for record in later), (script.steps, was, now)
                folded = fold([record for record in [*earlier, *later] if not record.is_retraction], MODES[1])
            else:
                again = [record for record in later if (record.value[0], record.window) in emitted]
                assert mode_of(was) == mode_of(now) or not again, (script.steps, was, now)
                folded = fold(earlier, mode_of(was)) | fold(
                    [*(earlier if mode_of(was) == mode_of(now) else ()), *later], mode_of(now)
                )
            assert folded == fold(batch.collected(f"panes {case}"), mode_of(was)), (script.steps, was, now)
    assert {"kept", "kept, changed", "needs --drop"} <= seen_outcomes.keys()


def test_a_restart_with_another_lateness_needs_an_upgrade_but_no_state_is_to_be_dropped(tmp_path: Path) -> None:
    [(script, before, _)] = draw(changes("lateness"), 1, 4)
    after = attrs.evolve(before, allowed_lateness=before.allowed_lateness + dm.duration(1))
    old = Run(grouped([(script, before)]), tmp_path / "old", rows=3).steps(1)
    with pytest.raises(dm.CheckpointMismatch, match=r"(?s)lateness .*dataflow-model upgrade \S+ \S+$") as caught:
        old.restarted(grouped([(script, after)]))
    assert "--drop" not in str(caught.value)

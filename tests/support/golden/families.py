"""The kinds of pipelines that are drawn: a function each, of what picks from a list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

import dataflow_model as dm
from dataflow_model.testing.chains import Chain
from tests.support.golden.files import replayed_files
from tests.support.golden.keyed import keyed
from tests.support.golden.parts import LEAVES, apply, collect, long_script
from tests.support.golden.sides import side_inputs
from tests.support.golden.stateful import stateful
from tests.support.laws import chains
from tests.support.laws.hot_keys import Extent, Tally
from tests.support.spec.drawing import STEPS, WINDOW_FNS, script, windowing_strategy
from tests.support.spec.windows_of_users import HalvesOfTen, NamedSeconds, OtherSessions, Shifts, ValidUntilNext

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.support.golden.parts import Built
    from tests.support.spec.drawing import Pick

__all__ = ["FAMILIES"]

COMBINERS: Final[Sequence[Any]] = (
    dm.Sum(), dm.Count(), dm.Min(), dm.Max(), dm.Mean(), dm.Top(2), dm.ToList(), dm.ToSet(), dm.Sample(2),
    dm.ApproximateUnique(16), dm.ApproximateQuantiles(3), dm.Together(count=dm.Count(), most=dm.Max()), sum, max,
    Extent(), Tally(), None,
)  # fmt: skip
"""What combines numbers, built in and written by users; `None` groups."""
FNS: Final = (
    *WINDOW_FNS, dm.CalendarWindows.days(1, timezone="America/New_York"),
    ValidUntilNext(), HalvesOfTen(), OtherSessions(3), Shifts(), NamedSeconds(),
)  # fmt: skip


def one_grouping(pick: Pick) -> Built:
    """Draw a grouping by any combiner, which may also emit what it drops."""
    stream, strategy, combine = script(pick, STEPS), windowing_strategy(pick, FNS, list(LEAVES)), pick(COMBINERS)
    if "OddResult" in repr(strategy) and isinstance(combine, dm.ToSet):
        combine = dm.ToList()  # as the trigger reads lists, but no sets
    with_dropped, is_global = pick([True, False]), pick([False, False, False, True])

    def build(p: dm.Pipeline, folder: Path) -> None:
        del folder
        elements: Any = p | "script" >> stream
        if is_global:
            elements = elements | "one key" >> dm.Map(_with_no_key)
        grouping: Any = dm.GroupByKey() if combine is None else dm.CombinePerKey(combine)
        windowed = elements | "windows" >> dm.Window.into(strategy)
        if not with_dropped:
            collect(windowed | "group" >> grouping, "panes")
            return
        panes, dropped = windowed | "group" >> grouping.with_dropped_output()
        collect(panes, "panes")
        collect(dropped, "dropped")

    return (stream.steps, strategy, combine, with_dropped, is_global), build


def chain(pick: Pick) -> Built:
    """Draw two or three groupings, each over the panes of the one before."""
    stream, groupings = long_script(pick), chains.chain(pick, pick([2, 2, 3]))

    def build(p: dm.Pipeline, folder: Path) -> None:
        del folder
        apply(groupings, p | "script" >> stream)

    return (stream.steps, *groupings.groupings), build


def several_sources(pick: Pick) -> Built:
    """Draw two or three scripts, each with a watermark of its own, which are flattened, joined or grouped together."""
    streams = [long_script(pick) for _ in range(pick([2, 2, 3]))]
    way = pick(["flatten", "flatten", "flatten", "join", "left", "full", "within", "together"])
    groupings = chains.chain(pick, pick([1, 2]))
    if way in {"join", "left", "full"}:
        groupings = Chain((attrs.evolve(groupings.groupings[0], windowing=_for_joins(pick)),))

    def build(p: dm.Pipeline, folder: Path) -> None:
        del folder
        sources = tuple(p | f"script {number}" >> stream for number, stream in enumerate(streams))
        if way == "flatten":
            apply(groupings, sources | "all" >> dm.Flatten())
            return
        if way == "within":
            collect(sources[:2] | "join" >> dm.Join.full(within=3), "panes")
            return
        strategy: Any = groupings.groupings[0].windowing
        windowed = [it | f"windows {number}" >> dm.Window.into(strategy) for number, it in enumerate(sources)]
        if way == "together":
            named = {f"input {number}": elements for number, elements in enumerate(windowed)}
            collect(named | "group" >> dm.CoGroupByKey(), "panes")
            return
        joins: dict[str, Any] = {"join": dm.Join(), "left": dm.Join.left(), "full": dm.Join.full()}
        collect((windowed[0], windowed[1]) | "join" >> joins[way], "panes")

    return (*[stream.steps for stream in streams], way, *groupings.groupings), build


def _for_joins(pick: Pick) -> dm.WindowingStrategy:
    """Draw a strategy that joins accept: one pane per window, or accumulating panes."""
    fn = pick([fn for fn in WINDOW_FNS if not fn.is_merging])
    if pick([True, False]):
        return dm.WindowingStrategy(fn)
    mode, lateness = dm.AccumulationMode.ACCUMULATE_ALWAYS, dm.duration(pick([0, 4, 50]))
    return dm.WindowingStrategy(fn, pick(chains.BUSY), mode, pick([True, False]), lateness)


def _with_no_key(pair: Any) -> tuple[None, Any]:
    return None, pair[1]


FAMILIES: Final[dict[str, Callable[[Pick], Built]]] = {
    "one grouping": one_grouping,
    "a chain of groupings": chain,
    "several sources": several_sources,
    "a grouping again": one_grouping,
    "replayed files": replayed_files,
    "a chain again": chain,
    "state and timers": stateful,
    "side inputs": side_inputs,
    "other keyed transforms": keyed,
    "one more chain": chain,
}
"""The kinds by their names; the last digit of a pipeline's number chooses one."""

"""Pipelines with memoised functions, and what must hold of their sinks."""

from __future__ import annotations

import uuid
from collections import Counter
from typing import TYPE_CHECKING, Any

import attrs

import dataflow_model as dm
from tests.support.pipelines import seen
from tests.support.retractions.accounts import instants
from tests.support.retractions.drawing import UNMERGED, AtEachChange

if TYPE_CHECKING:
    from collections.abc import Callable

    from dataflow_model.plan.columns.records import Record
    from dataflow_model.plan.logical.strategy import WindowingStrategy
    from dataflow_model.testing import TestStream

FOREVER: dict[str, Any] = {
    "allowed_lateness": dm.duration("1000 days"),
    "timestamp_combiner": dm.TimestampCombiner.END_OF_WINDOW,
}


def plain_and_kept(
    p: dm.Pipeline,
    script: TestStream,
    first: WindowingStrategy,
    second: WindowingStrategy,
    *,
    keeps: bool,
    name: str = "",
) -> None:
    """Send what a grouping says through functions of every kind, and into a second grouping."""

    def named(label: str, transform: Any) -> Any:
        return f"{name}{label}" >> (transform.retractable("memoised") if keeps and label in _FUNCTIONS else transform)

    elements = p | named("script", script)
    sums = elements | named("w1", dm.Window.into(first)) | named("g1", dm.Sum.per_key())
    mapped = sums | named("map", dm.MapTuple(_by_parity))
    flat = sums | named("flat", dm.FlatMap(_apart).with_outputs("odd", main="all").with_exception_handling())
    for label, collection in {"mapped": mapped, "all": flat[0]["all"], "odd": flat[0].odd, "dead": flat[1]}.items():
        _ = collection | named(label, dm.io.Collect())
    placed = mapped | named("filter", dm.Filter(lambda pair: pair[1] % 5)) | named("w2", dm.Window.into(second))
    _ = placed | named("g2", dm.ToList.per_key()) | named("lists", dm.io.Collect())


_FUNCTIONS = ("map", "flat", "filter")
KEPT_SINKS = ("mapped", "all", "odd", "dead", "lists")


def _by_parity(key: Any, value: Any) -> tuple[str, Any]:
    del key
    return f"{value % 2}", value


def _apart(pair: tuple[str, int], window: Any) -> Any:
    if pair[1] % 7 == 3:
        raise ValueError("three")
    yield pair
    if pair[1] % 2:
        yield dm.TaggedOutput("odd", (pair, window))


def panes_of(result: Callable[[str], Any], name: str = "") -> dict[str, list[Any]]:
    """Return what the sinks received; of dead letters what does not name lines of code."""
    outputs = {label: seen(result(f"{name}{label}")) for label in KEPT_SINKS}
    outputs["dead"] = [(entry[0].element, entry[0].reason, *entry[1:]) for entry in outputs["dead"]]
    return outputs


def drawn_and_grouped(
    p: dm.Pipeline, script: TestStream, first: WindowingStrategy, second: WindowingStrategy, name: str = ""
) -> None:
    """Give each sum a name of its own, and list those that stand."""
    sums = p | f"{name}script" >> script | f"{name}w1" >> dm.Window.into(first) | f"{name}g1" >> dm.Sum.per_key()
    drawn = sums | f"{name}draw" >> dm.Map(named_anew).retractable("memoised")
    lists = drawn | f"{name}w2" >> dm.Window.into(second) | f"{name}g2" >> dm.ToList.per_key()
    for label, collection in {"sums": sums, "drawn": drawn, "lists": lists}.items():
        _ = collection | f"{name}{label}" >> dm.io.Collect()


def named_anew(pair: Any) -> Any:
    return "all", (pair, uuid.uuid4().hex)


def balanced(sums: list[Record], drawn: list[Record], lists: list[Record]) -> None:
    """Check that at any time each sum that stands has one name, and that the lists hold just those."""
    for said, named, listed in instants(sums, drawn, lists):
        names = [(record.value[1], record.window) for record in named.standing]
        assert Counter((pair, window) for (pair, _), window in names) == Counter(
            (record.value, record.window) for record in said.standing
        )
        outputs = [entry for record in listed.standing for entry in record.value[1]]
        assert Counter(outputs) == Counter(entry for entry, _ in names)


AT_ONCE = UNMERGED.map(lambda strategy: attrs.evolve(strategy, trigger=dm.Repeatedly(AtEachChange())))


def into_one_place(strategy: WindowingStrategy) -> WindowingStrategy:
    """Return a strategy under which each element is in one window, so that the lists count it once."""
    return attrs.evolve(strategy, window_fn=dm.FixedWindows(7))

"""State that has a place for each of several combiners, inputs or side inputs belongs to these, in their order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from tests.support.runners.local_streams import ROWS, Stepped, put_rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Build = Callable[[dm.Pipeline], Any]

HUNDREDS = dm.Window.into(dm.FixedWindows(100))


class Extremes(dm.DoFn):
    """Emit the extremes of a key when its window ends."""

    def __init_subclass__(cls, combine: dm.Together) -> None:
        cls.held = dm.CombiningStateSpec(combine)  # type: ignore[attr-defined]

    def process(self, pair: tuple[str, int], held: dm.CombiningState[int, Any]) -> None:
        held.add(pair[1])

    def on_window_expiry(self, key: str, held: dm.CombiningState[int, Any]) -> Any:
        yield key, held.read()


class LowFirst(Extremes, combine=dm.Together(lo=dm.Min(), hi=dm.Max())):
    """Extremes with the lowest one first."""


class HighFirst(Extremes, combine=dm.Together(hi=dm.Max(), lo=dm.Min())):
    """Extremes with the highest one first."""


def windowed(p: dm.Pipeline, folder: Path, label: str) -> Any:
    rows = p | label >> dm.io.ReadParquet(folder / label, event_time="at", follow=True, schema=ROWS)
    return rows | f"{label} windows" >> HUNDREDS


def pairs(p: dm.Pipeline, folder: Path, label: str) -> Any:
    typed = dm.Map(lambda row: (row.key, row.n)).with_output_types(tuple[str, int])
    return windowed(p, folder, label) | f"{label} pairs" >> typed


def combined(folder: Path, **combiners: Any) -> Build:
    return lambda p: pairs(p, folder, "a") | "it" >> dm.Together(**combiners).per_key() | "out" >> dm.io.Collect()


def combining(folder: Path, combine: Any) -> Build:
    return lambda p: pairs(p, folder, "a") | "it" >> dm.CombinePerKey(combine) | "out" >> dm.io.Collect()


def aggregated(folder: Path, *names: str) -> Build:
    def build(p: dm.Pipeline) -> None:
        grouping = dm.GroupBy("key")
        for name in names:
            grouping = grouping.aggregate_field((lambda row: row.n) if name == "n" else (lambda row: -row.n), sum, name)
        _ = windowed(p, folder, "a") | "it" >> grouping | "out" >> dm.io.Collect()

    return build


def stateful(folder: Path, fn: dm.DoFn) -> Build:
    return lambda p: pairs(p, folder, "a") | "it" >> dm.ParDo(fn) | "out" >> dm.io.Collect()


def grouped(folder: Path, *labels: str) -> Build:
    def build(p: dm.Pipeline) -> None:
        inputs = {label: pairs(p, folder, label) for label in labels}
        _ = inputs | "it" >> dm.CoGroupByKey() | "out" >> dm.io.Collect()

    return build


def seen_by(pair: tuple[str, int], **sides: Any) -> tuple[str, Any]:
    return pair[0], sides


def looking_up(folder: Path, *labels: str, size: int = 100) -> Build:
    def build(p: dm.Pipeline) -> None:
        main = pairs(p, folder, "main")
        seconds = dm.Window.into(dm.FixedWindows(size))
        collections = {label: pairs(p, folder, label) | f"{label} again" >> seconds for label in "ab"}
        fixed = p | "fixed" >> dm.Create([("k", 0)])
        sides = {label: dm.AsIter(collections.get(label, fixed)) for label in labels}
        looked = main | "it" >> dm.Map(seen_by, **sides)
        _ = looked | "out" >> dm.io.Collect()

    return build


CHANGES = {
    "combiners in another order": lambda folder: (
        combined(folder, lo=dm.Min(), hi=dm.Max()),
        combined(folder, hi=dm.Max(), lo=dm.Min()),
    ),
    "another combiner": lambda folder: (combined(folder, of=dm.Min()), combined(folder, of=dm.Mean())),
    "one combiner more": lambda folder: (combined(folder, lo=dm.Min()), combined(folder, lo=dm.Min(), hi=dm.Max())),
    "one combiner less": lambda folder: (combined(folder, lo=dm.Min(), hi=dm.Max()), combined(folder, lo=dm.Min())),
    "a combiner in a combiner": lambda folder: (
        combined(folder, of=dm.Together(lo=dm.Min(), hi=dm.Max())),
        combined(folder, of=dm.Together(hi=dm.Max(), lo=dm.Min())),
    ),
    "more of the greatest": lambda folder: (combined(folder, of=dm.Top(1)), combined(folder, of=dm.Top(9))),
    "the smallest": lambda folder: (combining(folder, dm.Top(2)), combining(folder, dm.Top(2, reverse=True))),
    "a larger sample": lambda folder: (combining(folder, dm.Sample(2)), combining(folder, dm.Sample(5))),
    "another sample": lambda folder: (combining(folder, dm.Sample(2)), combining(folder, dm.Sample(2, seed=1))),
    "a better estimate": lambda folder: (
        combining(folder, dm.ApproximateUnique(size=16)),
        combining(folder, dm.ApproximateUnique(size=99)),
    ),
    "aggregates in another order": lambda folder: (aggregated(folder, "n", "m"), aggregated(folder, "m", "n")),
    "combiners of state": lambda folder: (stateful(folder, LowFirst()), stateful(folder, HighFirst())),
    "inputs in another order": lambda folder: (grouped(folder, "a", "b"), grouped(folder, "b", "a")),
    "an input in front": lambda folder: (grouped(folder, "a", "b"), grouped(folder, "main", "a", "b")),
    "another input": lambda folder: (grouped(folder, "a", "b"), grouped(folder, "a", "main")),
    "side inputs in another order": lambda folder: (looking_up(folder, "a", "b"), looking_up(folder, "b", "a")),
    "another side input": lambda folder: (looking_up(folder, "a"), looking_up(folder, "b")),
    "a side input that does not change": lambda folder: (
        looking_up(folder, "a", "b"),
        looking_up(folder, "a", "fixed"),
    ),
    "no side input that changes": lambda folder: (looking_up(folder, "a"), looking_up(folder, "fixed")),
    "a side input in other windows": lambda folder: (looking_up(folder, "a"), looking_up(folder, "a", size=50)),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for label, first in {"main": 150, "a": 1, "b": 10}.items():
        put_rows(tmp_path / label, "1", [(first, "k", first), (160, "k", 20)])
    return tmp_path


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("is_upgraded", [False, True], ids=["restart", "upgrade"])
def test_changed_combiners_inputs_or_fields_of_stored_state_are_rejected(
    folder: Path, change: str, *, is_upgraded: bool
) -> None:
    before, after = CHANGES[change](folder)
    Stepped(before, folder / "old").steps()
    checkpoint = folder / "old"
    if is_upgraded:
        dm.upgrade(str(folder / "old"), str(folder / "new"))
        checkpoint = folder / "new"
    with pytest.raises(dm.CheckpointMismatch, match=r"(?s)(it|it/\w+)' was: .*; it is: .*--drop it"):
        Stepped(after, checkpoint).steps()


@pytest.mark.parametrize("is_upgraded", [False, True], ids=["restart", "upgrade"])
def test_combiners_may_be_renamed(folder: Path, *, is_upgraded: bool) -> None:
    Stepped(combined(folder, lo=dm.Min(), hi=dm.Max()), folder / "old").steps()
    checkpoint = folder / "old"
    if is_upgraded:
        dm.upgrade(str(folder / "old"), str(folder / "new"))
        checkpoint = folder / "new"
    put_rows(folder / "a", "2", [(120, "k", 50), (300, "k", 0)])
    stepped = Stepped(combined(folder, least=dm.Min(), most=dm.Max()), checkpoint)
    stepped.steps()
    assert [record.value[1]._asdict() for record in stepped.collected("out")][-1] == {"least": 20, "most": 50}


@pytest.mark.parametrize("is_upgraded", [False, True], ids=["restart", "upgrade"])
def test_an_input_of_cogroupbykey_can_be_added_after_the_others(folder: Path, *, is_upgraded: bool) -> None:
    Stepped(grouped(folder, "a", "b"), folder / "old").steps()
    checkpoint = folder / "old"
    if is_upgraded:
        dm.upgrade(str(folder / "old"), str(folder / "new"))
        checkpoint = folder / "new"
    put_rows(folder / "main", "1", [(400, "k", 7)])
    stepped = Stepped(grouped(folder, "a", "b", "main"), checkpoint)
    stepped.steps()
    for label in "ab":
        put_rows(folder / label, "2", [(300, "k", 0)])
    stepped.steps()
    assert [record.value for record in stepped.collected("out")][-1] == ("k", {"a": [20], "b": [20], "main": []})
    with pytest.raises(dm.CheckpointMismatch, match="it is: input 'a', input 'main', input 'b'"):
        Stepped(grouped(folder, "a", "main", "b"), checkpoint).steps()

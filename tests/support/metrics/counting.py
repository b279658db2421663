"""Pipelines whose functions count, and what they should have counted, by hand."""

from __future__ import annotations

from collections import Counter
from typing import Any

import dataflow_model as dm

EVEN = dm.metrics.counter("even")
SEEN = dm.metrics.counter("seen")
SIZES = dm.metrics.distribution("sizes")
LAST = dm.metrics.gauge("last")


def note(pair: tuple[str, int]) -> tuple[str, int]:
    """Count a pair of key and number; with the same names in several transforms."""
    SEEN.inc()
    EVEN.inc(1 - pair[1] % 2)
    SIZES.update(pair[1])
    LAST.set(7)
    return pair


class NoteAll(dm.DoFn):
    """Counts in a whole life cycle."""

    def start_bundle(self) -> None:
        dm.metrics.counter("bundles").inc()

    def process(self, element: tuple[str, int]) -> list[tuple[str, int]]:
        return [note(element)] * 2


class Remember(dm.DoFn):
    """Counts where state is kept by key."""

    held = dm.CombiningStateSpec(dm.Sum())

    def process(self, element: tuple[str, int], held: Any) -> list[tuple[str, int]]:
        note(element)
        held.add(element[1])
        return [(element[0], held.read())]


class Noting(dm.CombineFn[int, int, int]):
    """A sum that counts its inputs."""

    def create_accumulator(self) -> int:
        return 0

    def add_input(self, accumulator: int, element: int) -> int:
        SEEN.inc()
        return accumulator + element

    def merge_accumulators(self, accumulators: Any) -> int:
        return sum(accumulators)

    def extract_output(self, accumulator: int) -> int:
        return accumulator


def build(pairs: Any) -> None:
    """Count at stage 0, in a state's DoFn, in a combiner and behind a grouping."""
    noted = pairs | "map" >> dm.Map(note) | "all" >> dm.ParDo(NoteAll())
    _ = noted | "remember" >> dm.ParDo(Remember()) | "remembered" >> dm.io.Collect()
    sums = noted | "sums" >> dm.CombinePerKey(Noting()) | "behind" >> dm.Map(note)
    _ = sums | "out" >> dm.io.Collect()


def by_hand(numbers: list[int], panes: list[Any]) -> dict[str, dict[str, int]]:
    """Return what the transforms' counters should be."""

    def counts(values: list[int]) -> dict[str, int]:
        return {"seen": len(values), "even": sum(1 - value % 2 for value in values)}

    return {
        "map": counts(numbers),
        "all": counts(numbers),
        "remember": counts(numbers * 2),
        "sums": {"seen": len(numbers) * 2},
        "behind": counts([value for _, value in panes]),
    }


def counted(report: dm.metrics.RunReport) -> dict[str, dict[str, int]]:
    """Return what they are; how many bundles there were is the runner's affair."""
    by_label = {label: Counter(transform.user.counters) for label, transform in report.transforms.items()}
    for counts in by_label.values():
        counts.pop("bundles", None)
    return {label: dict(counts) for label, counts in by_label.items() if counts}

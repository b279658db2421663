"""Tallies: however the work is parted, what was counted adds up."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataflow_model.metrics.collecting import (
    SlowestKeys,
    collecting,
    count_emitted,
    count_received,
    current,
    enter,
    in_scratch,
    key_times,
)
from dataflow_model.metrics.tally import Tally

LABELS = st.sampled_from(["Map", "Sum", "sinks/out"])
NAMES = st.sampled_from(["a", "b"])
NUMBERS = st.integers(-100, 100)
EVENTS = st.one_of(
    st.tuples(st.just("count"), LABELS, NAMES, st.integers(0, 100)),
    st.tuples(st.just("observe"), LABELS, NAMES, NUMBERS),
    st.tuples(st.just("set"), LABELS, NAMES, NUMBERS, st.integers(0, 5)),
    st.tuples(st.just("received"), LABELS, st.integers(0, 100)),
    st.tuples(st.just("emitted"), LABELS, st.integers(0, 100)),
    st.tuples(st.just("spent"), LABELS, st.integers(0, 5), st.integers(1, 9)),
    st.tuples(st.just("stage"), st.integers(1, 2), st.integers(0, 9)),
)


def happen(events: list[Any]) -> Tally:
    with collecting() as tally:
        for kind, where, *rest in events:
            match kind:
                case "count" | "observe" | "set":
                    enter(where)
                    getattr(tally.of_users(), kind)(*rest)
                case "received":
                    count_received(where, *rest)
                case "emitted":
                    count_emitted(where, *rest)
                case "spent":
                    tally.spent(where, rest[0], rest[1], 1)
                case _:
                    tally.of_stage(where, {"state_calls": rest[0]})
    tally.label = ""
    return tally


@given(st.lists(EVENTS), st.lists(st.integers(0, 3)))
def test_merging_the_tallies_of_any_batches_gives_the_tally_of_the_whole(events: list[Any], parts: list[int]) -> None:
    cut: dict[int, list[Any]] = {}
    for index, event in enumerate(events):
        cut.setdefault(parts[index] if index < len(parts) else 0, []).append(event)
    merged = Tally()
    for part in reversed(cut.values()):
        merged.merge(happen(part))
    assert merged == happen(events)
    assert merged.copy() == merged


@given(st.lists(EVENTS))
def test_a_tally_goes_through_json_and_back(events: list[Any]) -> None:
    tally = happen(events)
    assert Tally.from_json(json.loads(json.dumps(tally.to_json()))) == tally


def test_counting_outside_of_a_run_neither_counts_nor_fails() -> None:
    assert current() is None
    enter("Map")
    count_received("Map", 3)
    count_emitted("Map", 3)
    SlowestKeys().record("Map")
    with in_scratch() as keep:
        keep()
    assert key_times("Map") is None


def test_repeated_work_counts_only_in_the_attempt_that_is_kept() -> None:
    with collecting() as tally:
        for kept in (False, True, False):
            with in_scratch() as keep:
                count_received("Map", 5)
                if kept:
                    keep()
    assert tally.own["Map"].distributions["bundle_size"].count == 1


@pytest.mark.parametrize("transforms", [1, 2, 3, 8])
def test_one_bundle_in_eight_of_each_transform_has_its_keys_timed(transforms: int) -> None:
    with collecting() as tally:
        for bundle in range(800 * transforms):
            times = key_times(f"Sum {bundle % transforms}")
            if times is not None:
                times.note(bundle % 4, bundle % 4)
                times.record()
    timed = [sum(count for _, count in tally.slow[f"Sum {index}"].values()) for index in range(transforms)]
    assert all(90 <= count <= 110 for count in timed), timed


def test_a_tally_of_many_keys_keeps_only_the_slow_ones() -> None:
    tally = Tally()
    for key in range(5_000):
        tally.spent("Sum", (key,), float(key), 1)
    assert len(tally.slow["Sum"]) <= 256
    assert list(tally.slowest("Sum"))[:2] == ["(4999,)", "(4998,)"]
    tally.spent("Sum", "x" * 1_000, 1e9, 1)
    assert max(map(len, tally.slowest("Sum"))) == 80


def test_a_bounded_job_reports_its_slowest_keys() -> None:
    slowest = SlowestKeys()
    for key in range(1_000):
        slowest.offer({"no order": key}, (key * 7_919) % 1_000, 2)
    slowest.offer("slow", 1_000, 3)
    with collecting() as tally:
        slowest.record("Sum")
    assert next(iter(tally.slowest("Sum").items())) == ("slow", (1_000, 3))

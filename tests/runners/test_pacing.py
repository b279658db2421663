"""How far a micro-batch reads each file: under a replay clock, few rows are read long before their turn."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.plan.endpoints.sources import Source
from dataflow_model.plan.logical.nodes import Read
from dataflow_model.runners.engine.lanes.lanes import Lane
from dataflow_model.runners.sharded.feed.pacing import shares
from tests.support.micro_batches import Streamed
from tests.support.pipelines import seen
from tests.support.watermarks.files import run, summed, write

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

ROWS = 500
"""How many rows a micro-batch reads at most."""
NAMES = tuple(f"{letter}.parquet" for letter in "abcde")


def one_after_the_other() -> dict[str, list[int]]:
    """Return the clocks of files of which each begins where the one before it ends."""
    return {
        f"{name}.parquet": [index * 1_000 + second for second in range(1_000)] for index, name in enumerate("abcde")
    }


def side_by_side() -> dict[str, list[int]]:
    """Return the clocks of files that cover the same time."""
    return {name: list(range(index, 5_000, 5)) for index, name in enumerate(NAMES)}


def dense_and_thin() -> dict[str, list[int]]:
    """Return the clocks of two files that cover the same time, one with a fiftieth of the rows of the other."""
    return {"a.parquet": list(range(4_000)), "b.parquet": [second * 50 for second in range(80)]}


def last_one_first() -> dict[str, list[int]]:
    """Return the clocks of files one after the other, the last one first in order of their names."""
    return dict(zip(NAMES, reversed(one_after_the_other().values()), strict=True))


def waiting(read: Mapping[str, int], clocks: Mapping[str, Sequence[int]]) -> int:
    """Return how many rows have been read that may not take part yet, because another file may have earlier ones."""
    reached = [clocks[name][max(read[name] - 1, 0)] for name in clocks if read[name] < len(clocks[name])]
    bound = min(reached, default=None)
    return 0 if bound is None else sum(second >= bound for name in clocks for second in clocks[name][: read[name]])


@pytest.mark.parametrize("files", [one_after_the_other, side_by_side, dense_and_thin, last_one_first])
def test_under_a_replay_clock_few_rows_are_buffered(tmp_path: Path, files: Callable[[], dict[str, list[int]]]) -> None:
    clocks, chance = files(), random.Random(3)
    for name, seconds in clocks.items():
        write(tmp_path / "in" / name, [(second - chance.randint(0, 9), second, second, "") for second in seconds])
    build = summed(tmp_path / "in")
    streamed = Streamed(build, tmp_path, ROWS)
    waited, steps = [], 0
    while not streamed.offset.last:
        streamed.step()
        steps += 1
        waited.append(waiting({name: streamed.read_of("rows", name) for name in clocks}, clocks))
    assert steps <= sum(map(len, clocks.values())) // ROWS + 3
    assert waited[0] <= 2 * ROWS  # nothing is known of the files when the first rows are taken
    assert max(waited[2:]) <= ROWS
    assert seen(streamed.collected("kept")) == seen(run(dm.LocalRunner(), build).collected("kept"))


def test_buffered_rows_stay_in_columns(tmp_path: Path) -> None:
    for name, first in (("a", 0), ("b", 50)):
        seconds = range(first, first + 100)
        write(tmp_path / "in" / f"{name}.parquet", [(second, second, second, "") for second in seconds])

    def build(pipeline: dm.Pipeline) -> None:
        rows = pipeline | dm.io.ReadParquet(tmp_path / "in", event_time="at", processing_time="seen")
        pairs = rows | dm.WithKeys("partition", value="value") | dm.Window.into(dm.FixedWindows(10))
        windows = dm.Window.trigger(dm.AfterWatermark(early=dm.AfterCount(1))).accumulating()
        _ = pairs | windows | dm.Sum.per_key() | "kept" >> dm.io.Collect()

    streamed = Streamed(build, tmp_path, 120)
    streamed.step()
    shards = [streamed.cache.take_shard(streamed.program, 1, label) for label in streamed.program.shard_ids]
    bundles = [packed.bundle for state in shards if state is not None for packed in state.meta.waiting]
    assert bundles
    for bundle in bundles:
        assert all(isinstance(lane, Lane) for lane in (bundle.values, bundle.times, bundle.orders, bundle.produced))


@attrs.frozen
class Replayed(Source):
    """A source with a replay clock."""

    processing_time: str | None = "seen"


READS = [Read(label="rows", source=Replayed())]
ORIGINS = st.dictionaries(
    st.sampled_from("abcdef"),
    st.tuples(
        st.integers(0, 2_000),
        st.integers(0, 2_000),
        st.none() | st.tuples(st.integers(-(10**15), 10**15), st.floats(1e-3, 1e12)),
    ),
)


@given(ORIGINS, st.integers(1, 5_000))
def test_a_micro_batch_reads_the_available_rows_up_to_its_limit(origins: dict[str, Any], most: int) -> None:
    unread = {"rows": {name: left for name, (_, left, _) in origins.items()}}
    clocks = {"rows": {name: clock for name, (_, _, clock) in origins.items() if clock is not None}}
    taken = shares(unread, most, READS, {"clocks": clocks}).get("rows", {})
    assert all(0 <= count <= origins[name][1] for name, count in taken.items())
    assert sum(taken.values()) == min(most, sum(left for _, left, _ in origins.values()))


def test_the_origin_whose_clock_is_behind_all_others_is_read_first() -> None:
    committed = {"clocks": {"rows": {"a": (900, 1.0), "b": (100, 1.0)}}}
    assert shares({"rows": {"a": 495, "b": 4_995}}, 700, READS, committed) == {"rows": {"b": 700}}
    assert shares({"rows": {"a": 495, "b": 4_995}}, 1_000, READS, committed) == {"rows": {"a": 100, "b": 900}}

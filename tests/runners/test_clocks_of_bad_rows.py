"""Bad rows under a replay clock: a row without a clock has the same one however the input is cut."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import dataflow_model as dm
from dataflow_model.errors import SourceError
from dataflow_model.io.csv.text_sources import CsvSource
from tests.support.runners.local_streams import Stepped

if TYPE_CHECKING:
    from pathlib import Path

_SCHEMA = pa.schema({"at": pa.int64(), "seen": pa.int64(), "key": pa.string()})
_SECOND = 1_000_000


def _write(path: Path, rows: list[tuple[object, object, str]]) -> None:
    path.write_text("at,seen,key\n" + "".join(f"{at},{seen},{key}\n" for at, seen, key in rows))


def _draw(folder: Path, seed: int) -> None:
    rng = random.Random(seed)
    for name in ("a.csv", "b.csv")[: rng.randint(1, 2)]:
        seen = 0
        rows: list[tuple[object, object, str]] = []
        for _ in range(rng.randint(1, 14)):
            seen += rng.choice((0, 1, 4, 11)) * _SECOND
            clock = seen if rng.random() < 0.6 else rng.choice(("", "never"))
            event_time = max(seen - rng.randrange(20) * _SECOND, 0) if rng.random() < 0.8 else "sometime"
            rows.append((event_time, clock, rng.choice("xy")))
        _write(folder / name, rows)


def _pipeline(folder: Path, *, early: bool) -> Any:
    def build(p: dm.Pipeline) -> None:
        good, bad = (
            p
            | "read"
            >> dm.io.ReadCsv(
                str(folder), event_time="at", processing_time="seen", schema=_SCHEMA
            ).with_exception_handling()
        )
        window = dm.Window.into(dm.FixedWindows(10))
        if early:
            window = window.trigger(dm.Repeatedly(dm.AfterCount(1))).accumulating()
        ones = good | "one" >> dm.Map(lambda row: (row.key, 1))
        _ = ones | "good windows" >> window | "good sums" >> dm.Sum.per_key() | "good" >> dm.io.Collect()
        letters = bad | "letter" >> dm.Map(lambda letter: ("bad", 1))
        _ = letters | "bad windows" >> window | "bad sums" >> dm.Sum.per_key() | "bad" >> dm.io.Collect()

    return build


def _panes(records: Any) -> list[tuple[Any, ...]]:
    return [(r.value, r.window, r.pane.timing, r.pane.index, r.event_time, r.processing_time) for r in records]


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 12))])
def test_dead_letters_of_a_stream_equal_those_of_the_bounded_run(tmp_path: Path, seed: int) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    _draw(folder, seed)
    build = _pipeline(folder, early=seed % 2 == 0)
    pipeline = dm.Pipeline(runner=dm.LocalRunner())
    build(pipeline)
    result = pipeline.run()
    result.wait_until_finish()
    expected = {label: _panes(result.collected(label)) for label in ("good", "bad")}
    assert expected["bad"]
    for rows in (1, 2, 3, 100):
        stepped = Stepped(build, tmp_path / f"rows-{rows}", rows=rows)
        stepped.steps()
        assert {label: _panes(stepped.collected(label)) for label in expected} == expected, rows


def _source(folder: Path, clocks: list[object]) -> CsvSource:
    _write(folder / "a.csv", [(1, clock, "x") for clock in clocks])
    return CsvSource(paths=folder, event_time="at", processing_time="seen", given=_SCHEMA).bound()


@pytest.mark.parametrize(
    ("clocks", "expected"),
    [
        (["", 5, "", "", "", 9], [5, 5, 5, 5, 5, 5]),
        (["", "", 7], [7, 7, 7]),
        ([3, "never"], [3, 3]),
        (["", ""], [None, None]),
        ([""] * 5_000 + [4], [4]),
        ([4] + [""] * 5_000, [4] * 3),
    ],
)
def test_a_row_without_a_clock_gets_that_of_the_previous_row_or_else_of_the_next_one(
    tmp_path: Path, clocks: list[object], expected: list[int | None]
) -> None:
    source = _source(tmp_path, clocks)
    assert [source.clock_near("a.csv", row) for row in range(len(expected))] == expected
    assert source.clock_near("a.csv", len(clocks) - 1) == expected[-1]


def test_a_clock_that_goes_back_after_a_row_without_one_is_an_error_in_any_micro_batches(
    tmp_path: Path,
) -> None:
    source = _source(tmp_path, [10, 20, "", "", 15, 30])
    for start in range(5):
        with pytest.raises(SourceError, match=r"goes backward from .*20.* to 15 at line 6\n"):
            list(source.read("a.csv", start, None))

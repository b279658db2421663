"""Classes of values in state that have other fields when a stream resumes."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from tests.support.runners.local_streams import Stepped, put_rows
from tests.support.state.changing import KINDS, MODULE, define

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

BEFORE = ("lat: int", "lon: int")
REORDERED = ("lon: int", "lat: int")


@pytest.fixture(autouse=True)
def forget_the_module() -> Iterator[None]:
    yield
    sys.modules.pop(MODULE, None)


def place(number: int) -> Any:
    """Return a record of the class as it is now."""
    return sys.modules[MODULE].Place(lat=number, lon=-number)


def shown(value: Any) -> Any:
    """Return records as their fields, by name, so that they can be compared after the class has changed."""
    if type(value).__name__ == "Place":
        return value.lat, value.lon
    return type(value)(map(shown, value)) if type(value) in {list, tuple} else value


class Last(dm.DoFn):
    """Emits the record before."""

    last = dm.ValueStateSpec[Any](default=None)

    def process(self, pair: Any, last: dm.ValueState[Any]) -> Iterator[Any]:
        if last.read() is not None:
            yield pair[0], last.read()
        last.write(pair[1])


class Newest(dm.CombineFn[Any, Any, Any]):
    """Keeps the record with the greatest latitude."""

    def create_accumulator(self) -> Any:
        return None

    def add_input(self, accumulator: Any, element: Any) -> Any:
        return element if accumulator is None or element.lat > accumulator.lat else accumulator

    def merge_accumulators(self, accumulators: Any) -> Any:
        return max((each for each in accumulators if each is not None), key=lambda each: each.lat, default=None)

    def extract_output(self, accumulator: Any) -> Any:
        return accumulator


HOURLY = dm.Window.into(dm.FixedWindows(100))
EACH = HOURLY.trigger(dm.AfterWatermark(early=dm.AfterCount(1))).accumulating_and_retracting()


def stepped(tmp_path: Path, transform: Callable[[Any], Any], to_pair: Callable[[Any], Any], **options: Any) -> Stepped:
    def build(p: dm.Pipeline) -> None:
        rows = p | "rows" >> dm.io.ReadParquet(tmp_path / "rows", event_time="at", follow=True, **options)
        _ = transform(rows | "pairs" >> dm.Map(to_pair)) | "out" >> dm.io.Collect()

    return Stepped(build, tmp_path / "checkpoint")


def outcome(stream: Stepped) -> list[Any]:
    return [(shown(record.value), record.is_retraction) for record in stream.collected("out")]


VALUES: dict[str, tuple[Callable[[Any], Any], list[Any]]] = {
    "user state": (lambda pairs: pairs | dm.ParDo(Last()), [(("a", (1, -1)), False)]),
    "lists of a grouping": (
        lambda pairs: pairs | HOURLY | dm.GroupByKey(),
        [(("a", [(1, -1), (2, -2)]), False)],
    ),
    "accumulators": (lambda pairs: pairs | HOURLY | dm.CombinePerKey(Newest()), [(("a", (2, -2)), False)]),
    "emitted values": (
        lambda pairs: pairs | EACH | dm.CombinePerKey(Newest()),
        [
            (("a", (1, -1)), False),
            (("a", (1, -1)), True),
            (("a", (2, -2)), False),
            (("a", (2, -2)), True),  # with the pane when the watermark passes
            (("a", (2, -2)), False),
        ],
    ),
    "sets": (
        lambda pairs: (
            pairs | HOURLY | dm.ToSet.per_key() | dm.MapTuple(lambda key, values: (key, sorted(shown(list(values)))))
        ),
        [(("a", [(1, -1), (2, -2)]), False)],
    ),
    "joins": (
        lambda pairs: (pairs, pairs | "again" >> dm.Map(lambda pair: pair)) | dm.Join(between=(1, 5)),
        [(("a", ((1, -1), (2, -2))), False)],
    ),
}


@pytest.mark.parametrize("kind", ["NamedTuple", "frozen dataclass with slots", "attrs.frozen"])
@pytest.mark.parametrize("title", VALUES)
def test_stored_values_keep_their_fields_when_their_class_has_them_in_another_order(
    title: str, kind: str, tmp_path: Path
) -> None:
    transform, expected = VALUES[title]
    stream = stepped(tmp_path, transform, lambda row: (row.key, place(row.n)))
    define(kind, *BEFORE)
    put_rows(tmp_path / "rows", "1", [(1, "a", 1)])
    stream.steps()
    define(kind, *REORDERED)
    put_rows(tmp_path / "rows", "2", [(2, "a", 2), (500, "b", 3), (501, "b", 4)])
    stream.steps()
    assert [each for each in outcome(stream) if each[0][0] == "a"] == expected


def test_a_field_without_a_default_stops_the_start_that_reads_it(tmp_path: Path) -> None:
    stream = stepped(tmp_path, lambda pairs: pairs | dm.ParDo(Last()), lambda row: (row.key, row.n and place(row.n)))
    define("NamedTuple", *BEFORE)
    put_rows(tmp_path / "rows", "1", [(1, "a", 1)])
    stream.steps()
    define("NamedTuple", *BEFORE, "alt: int")
    put_rows(tmp_path / "rows", "2", [(2, "a", 0)])
    with pytest.raises(dm.CheckpointMismatch, match="has the fields lat, lon, and none for the new field 'alt'"):
        stream.steps()
    define("NamedTuple", *BEFORE, "alt: int = 7")
    stream.steps()
    assert outcome(stream) == [(("a", (1, -1)), False)]


def test_elements_that_wait_for_their_instant_keep_their_fields(tmp_path: Path) -> None:
    """With a replay clock, an element waits until its instant is complete."""
    stream = stepped(
        tmp_path,
        lambda pairs: pairs | HOURLY | dm.GroupByKey(),
        lambda row: (row.key, place(row.n)),
        processing_time="at",
    )
    define("NamedTuple", *BEFORE)
    put_rows(tmp_path / "rows", "1", [(1, "a", 1)])
    stream.steps()
    define("NamedTuple", *REORDERED)
    put_rows(tmp_path / "rows", "2", [(1, "a", 2), (500, "b", 3), (501, "b", 3)])
    stream.steps()
    assert outcome(stream)[0] == (("a", [(1, -1), (2, -2)]), False)


KEYED: dict[str, Callable[[Any], Any]] = {
    "a grouping": lambda pairs: pairs | HOURLY | dm.Sum.per_key(),
    "a stateful DoFn": lambda pairs: pairs | dm.ParDo(Last()),
    "Deduplicate": lambda pairs: pairs | dm.Deduplicate(lambda pair: pair[0], horizon=1_000),
    "a part of a key": lambda pairs: (
        pairs | dm.MapTuple(lambda key, value: ((value, (key,)), value)) | HOURLY | dm.GroupByKey()
    ),
    "elements that are counted": lambda pairs: pairs | dm.Keys() | HOURLY | dm.Distinct(),
    "values of a side input that may be taken back": lambda pairs: (
        pairs
        | "numbers" >> dm.Values()
        | "main windows" >> HOURLY
        | dm.Map(lambda _, side: len(side), dm.AsList(pairs | EACH | dm.Latest.globally()))
    ),
    "values that may be taken back": lambda pairs: (
        pairs
        | EACH
        | dm.Max.per_key()
        | dm.MapTuple(lambda key, value: ("all", (key, value)))
        | "again" >> dm.CombinePerKey(max)
    ),
}


CHANGED = [(title, kind) for title in KEYED for kind in KINDS if title != "values that may be taken back"]


@pytest.mark.parametrize(
    ("title", "kind"),
    [*CHANGED, ("values that may be taken back", "NamedTuple")],  # the other records have no order
)
def test_a_class_of_keys_that_has_changed_is_refused_with_both_lists_of_fields(
    title: str, kind: str, tmp_path: Path
) -> None:
    stream = stepped(tmp_path, KEYED[title], lambda row: (place(row.n), row.n))
    define(kind, *BEFORE)
    put_rows(tmp_path / "rows", "1", [(1, "a", 1), (2, "a", 2)])
    stream.steps()
    for fields in (REORDERED, (*BEFORE, "alt: int = 0")):
        define(kind, *fields)
        names = ", ".join(field.partition(":")[0] for field in fields)
        put_rows(tmp_path / "rows", "2", [(3, "a", 1)])
        message = (
            f"keys of the class 'Place' of the module '{MODULE}' are stored with the fields lat, lon, but the class "
            f"has the fields {names}\nHint: restore the fields in their order"
        )
        with pytest.raises(dm.CheckpointMismatch, match=message):
            stream.steps()
    define(kind, *BEFORE)
    stream.steps()
    assert stream.metrics()["rows"]["elements_out"] == 3


def test_a_field_that_a_key_leaves_out_may_be_added(tmp_path: Path) -> None:
    kind = "frozen dataclass with slots"
    stream = stepped(tmp_path, KEYED["a grouping"], lambda row: (place(row.n), row.n))
    define(kind, *BEFORE)
    put_rows(tmp_path / "rows", "1", [(1, "a", 1)])
    stream.steps()
    define(kind, *BEFORE, "note: str = dataclasses.field(default='', compare=False)")
    put_rows(tmp_path / "rows", "2", [(2, "a", 1), (500, "a", 2)])
    stream.steps()
    assert outcome(stream) == [(((1, -1), 2), False)]


PROGRAM = """
import pathlib, sys
from typing import NamedTuple

import dataflow_model as dm
from dataflow_model.runners.spark import local_session

class Place(NamedTuple):
    {first}: int
    {second}: int

class Last(dm.DoFn):
    last = dm.ValueStateSpec(default=None)

    def process(self, pair, last):
        if last.read() is not None:
            yield f"lat {{last.read().lat}} lon {{last.read().lon}}"
        last.write(pair[1])

def main(folder):
    spark = local_session(cores=1)
    for name, to_pair in (
        ("values", lambda row: (row.k, Place(lat=1, lon=2))),
        ("keys", lambda row: (Place(lat=1, lon=2), row.k)),
    ):
        p = dm.Pipeline(runner=dm.SparkRunner(spark, mode="streaming", checkpoint=str(folder / name), shards=1))
        rows = p | dm.io.ReadCsv(str(folder / "rows"), event_time="at", follow=True)
        pairs = rows | "pairs" >> dm.Map(to_pair)
        hours = dm.Window.into(dm.FixedWindows("1 hour"))
        transform = dm.ParDo(Last()) if name == "values" else dm.Count.per_key()
        _ = pairs | hours | "keep" >> transform | "out" >> dm.io.Collect()
        result = p.run()
        try:
            while result.metrics().get("ReadCsv", {{}}).get("elements_out", 0) < int(sys.argv[2]):
                if result.wait_until_finish(timeout=0.2) is not dm.RunnerState.RUNNING:
                    break
            result.stop()
            print(name, [record.value for record in result.collected("out")])
        except dm.DataflowError as error:
            print(name, type(error).__name__, str(error).splitlines()[0])

if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
"""


@pytest.mark.slow  # half a minute: two programs with a session each
@pytest.mark.spark
def test_on_spark_values_keep_their_fields_and_changed_keys_are_refused(java_home: str, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    (tmp_path / "rows").mkdir()

    def start(number: int, first: str, second: str) -> list[str]:
        script.write_text(PROGRAM.format(first=first, second=second))
        (tmp_path / "rows" / f"{number}.csv").write_text(f"at,k\n2024-01-01T00:00:0{number}Z,a\n")
        ran = subprocess.run(
            [sys.executable, script, tmp_path, str(number)],
            env={**os.environ, "JAVA_HOME": java_home, "PYSPARK_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.splitlines()

    assert start(1, "lat", "lon") == ["values []", "keys []"]
    values, keys = start(2, "lon", "lat")
    assert values == "values ['lat 1 lon 2']"
    assert keys.startswith("keys CheckpointMismatch ")
    assert (
        "'Place' of the module '__main__' are stored with the fields lat, lon, but the class has the fields lon, "
        in keys
    )

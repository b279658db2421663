"""`setup` and `teardown` of combiners and DoFns: once per worker, on every runner, also when the run fails."""

from __future__ import annotations

import contextlib
import pathlib
import threading
import time
import uuid
from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dataflow_model as dm
from dataflow_model.runners.engine.functions.lifetimes import Lifetime, tear_down_all, torn_down
from dataflow_model.testing import TestStream
from tests.support.micro_batches import Streamed
from tests.support.waiting import PATIENCE, wait_for_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import SparkSession


@attrs.frozen
class CountedSum(dm.Combiner[int, int, int]):
    """A sum that leaves a file for each step of its life, and raises for a negative number."""

    folder: str

    def note(self, step: str) -> None:
        pathlib.Path(self.folder, f"{step}-{uuid.uuid4().hex}").touch()

    def setup(self) -> None:
        self.note("setup")

    def teardown(self) -> None:
        self.note("teardown")

    def create_accumulator(self) -> int:
        assert counted(self.folder)["setup"], "used before its setup"
        return 0

    def add_input(self, accumulator: int, element: int) -> int:
        if element < 0:
            raise ValueError("negative")
        return accumulator + element

    def merge_accumulators(self, accumulators: Iterable[int]) -> int:
        return sum(accumulators)

    def extract_output(self, accumulator: int) -> int:
        return accumulator


class KernelSum(CountedSum):
    """The same where it runs on columns, as far as these go."""

    kernel: ClassVar[str | None] = "sum"


class Summing(dm.DoFn):
    """Keeps a sum in state."""

    total: Any

    def __init_subclass__(cls, *, folder: str) -> None:
        cls.total = dm.CombiningStateSpec(CountedSum(folder))

    def process(self, element: Any, total: Any) -> Any:
        total.add(element[1])
        yield total.read()


def counted(folder: str | pathlib.Path) -> Counter[str]:
    return Counter(path.name.partition("-")[0] for path in pathlib.Path(folder).iterdir())


def sums(p: dm.Pipeline, folder: pathlib.Path, *values: int) -> None:
    pairs = p | dm.Create([dm.TimestampedValue((f"key {value % 5}", value), abs(value)) for value in values])
    windowed = pairs | dm.Window.into(dm.FixedWindows("10 seconds"))
    _ = windowed | "sum" >> dm.CombinePerKey(CountedSum(str(folder))) | "kept" >> dm.io.Collect()


def run_locally(build: Any) -> None:
    p = dm.Pipeline(dm.LocalRunner())
    build(p)
    p.run().wait_until_finish()


def test_a_combiner_is_set_up_before_its_first_use_and_torn_down_at_the_end(tmp_path: pathlib.Path) -> None:
    run_locally(lambda p: sums(p, tmp_path, *range(50)))
    assert counted(tmp_path) == {"setup": 1, "teardown": 1}


def test_a_combiner_is_torn_down_when_the_run_fails(tmp_path: pathlib.Path) -> None:
    with pytest.raises(dm.UserCodeError, match="negative"):
        run_locally(lambda p: sums(p, tmp_path, 1, 2, -3))
    assert counted(tmp_path) == {"setup": 1, "teardown": 1}


def test_a_combiner_is_torn_down_when_another_transform_fails(tmp_path: pathlib.Path) -> None:
    def build(p: dm.Pipeline) -> None:
        script = TestStream().add(("k", 1), 0).add(("k", 0), 1)
        summed = p | script | dm.Window.trigger(dm.Repeatedly(dm.AfterCount(1))) | CountedSum(str(tmp_path)).per_key()
        _ = summed | dm.Map(lambda pair: 1 // (pair[1] - 1)) | dm.io.Collect()

    with pytest.raises(dm.UserCodeError, match="ZeroDivisionError"):
        run_locally(build)
    assert counted(tmp_path) == {"setup": 1, "teardown": 1}


def test_a_combiner_is_torn_down_when_the_run_is_stopped(tmp_path: pathlib.Path) -> None:
    reached, go_on = threading.Event(), threading.Event()

    def wait(pair: Any) -> Any:
        reached.set()
        go_on.wait()
        return pair

    p = dm.Pipeline(dm.LocalRunner())
    script = TestStream().add(("k", 1), 0).add(("k", 2), 1)
    windowed = p | script | dm.Window.trigger(dm.Repeatedly(dm.AfterCount(1)))
    _ = windowed | CountedSum(str(tmp_path)).per_key() | dm.Map(wait) | dm.io.Collect()
    result = p.run()
    reached.wait()
    stopping = threading.Thread(target=result.stop)
    stopping.start()
    result._stop.wait()  # type: ignore[attr-defined]
    go_on.set()
    stopping.join()
    assert counted(tmp_path) == {"setup": 1, "teardown": 1}


def test_a_combiner_that_never_has_an_element_is_not_set_up(tmp_path: pathlib.Path) -> None:
    run_locally(lambda p: sums(p, tmp_path))
    assert counted(tmp_path) == {}


def test_a_combiner_shared_by_two_groupings_is_set_up_once_for_each(tmp_path: pathlib.Path) -> None:
    def build(p: dm.Pipeline) -> None:
        combine = CountedSum(str(tmp_path))
        pairs = p | dm.Create([("a", 1), ("b", 2)])
        _ = pairs | "one" >> dm.CombinePerKey(combine) | "first" >> dm.io.Collect()
        _ = pairs | "other" >> dm.CombinePerKey(combine) | "second" >> dm.io.Collect()

    run_locally(build)
    assert counted(tmp_path) == {"setup": 2, "teardown": 2}


def test_the_combiners_in_together_are_set_up_and_torn_down(tmp_path: pathlib.Path) -> None:
    def build(p: dm.Pipeline) -> None:
        both = dm.Together(sum=CountedSum(str(tmp_path)), count=dm.Count())
        _ = p | dm.Create([("a", 1)]) | both.per_key() | dm.io.Collect()

    run_locally(build)
    assert counted(tmp_path) == {"setup": 1, "teardown": 1}


def test_a_combiner_that_occurs_twice_in_together_is_set_up_once(tmp_path: pathlib.Path) -> None:
    def build(p: dm.Pipeline) -> None:
        one = CountedSum(str(tmp_path))
        _ = p | dm.Create([("a", 1)]) | dm.Together(one=one, other=one).per_key() | dm.io.Collect()

    run_locally(build)
    assert counted(tmp_path) == {"setup": 1, "teardown": 1}


def test_both_stages_of_a_combiner_with_fanout_share_its_setup(tmp_path: pathlib.Path) -> None:
    def build(p: dm.Pipeline) -> None:
        combining = dm.CombinePerKey(CountedSum(str(tmp_path))).with_hot_key_fanout(3)
        _ = p | dm.Create([("a", 1), ("a", 2), ("b", 3)]) | combining | dm.io.Collect()

    run_locally(build)
    assert counted(tmp_path) == {"setup": 1, "teardown": 1}


def test_combiners_in_together_are_torn_down_if_a_later_one_fails_in_setup(tmp_path: pathlib.Path) -> None:
    class Failing(dm.Sum):
        def setup(self) -> None:
            raise OSError("no room")

    lifetime = Lifetime("both", dm.Together(good=CountedSum(str(tmp_path)), bad=Failing()))
    with pytest.raises(dm.UserCodeError, match="no room"):
        lifetime.set_up()
    assert counted(tmp_path) == {"setup": 1, "teardown": 1}


def test_a_subclass_of_together_may_have_a_setup_of_its_own() -> None:
    steps: list[str] = []

    class WithItsOwn(dm.Together):
        def setup(self) -> None:
            steps.append("own")
            super().setup()

    lifetime = Lifetime("both", WithItsOwn(sum=dm.Sum()))
    lifetime.set_up()
    lifetime.tear_down()
    assert steps == ["own"]


def test_a_combiner_after_a_retracting_grouping_is_set_up_and_torn_down(tmp_path: pathlib.Path) -> None:
    def build(p: dm.Pipeline) -> None:
        script = TestStream().add(("k", 1), 0).add(("k", 2), 1)
        each = dm.Window.trigger(dm.Repeatedly(dm.AfterCount(1))).accumulating_and_retracting()
        first = p | script | each | dm.Sum.per_key()
        _ = first | "again" >> dm.CombinePerKey(CountedSum(str(tmp_path))) | dm.io.Collect()

    run_locally(build)
    assert counted(tmp_path) == {"setup": 1, "teardown": 1}


def test_the_combiner_of_combining_state_is_set_up_and_torn_down(tmp_path: pathlib.Path) -> None:
    class SumsHere(Summing, folder=str(tmp_path)):
        pass

    run_locally(lambda p: p | dm.Create([("a", 1), ("a", 2)]) | dm.ParDo(SumsHere()) | dm.io.Collect())
    assert counted(tmp_path) == {"setup": 1, "teardown": 1}


def test_a_dofn_is_torn_down_when_it_fails() -> None:
    steps: list[str] = []

    class Noting(dm.DoFn):
        def setup(self) -> None:
            steps.append("setup")

        def process(self, element: Any) -> Any:
            raise ValueError(element)

        def teardown(self) -> None:
            steps.append("teardown")

    with pytest.raises(dm.UserCodeError):
        run_locally(lambda p: p | dm.Create([1]) | dm.ParDo(Noting()) | dm.io.Collect())
    assert steps == ["setup", "teardown"]


def test_an_error_of_teardown_does_not_hide_the_error_of_the_run_nor_keep_others_from_being_torn_down() -> None:
    torn: list[str] = []

    @attrs.frozen
    class Part:
        name: str
        fails: bool = False

        def tear_down(self) -> None:
            torn.append(self.name)
            if self.fails:
                raise OSError(self.name)

    parts = (Part("a", fails=True), Part("b", fails=True), Part("c"))
    with pytest.raises(ValueError, match="the run's"), torn_down(*parts):
        raise ValueError("the run's")
    assert sorted(torn) == ["a", "b", "c"]
    with pytest.raises(OSError, match=r"[ab]"):
        tear_down_all(parts)
    assert sorted(torn) == ["a", "a", "b", "b", "c", "c"]


def test_a_function_whose_setup_failed_is_not_torn_down_and_may_be_set_up_again() -> None:
    steps: list[str] = []

    class Flaky(dm.CombineFn[Any, Any, Any]):
        def setup(self) -> None:
            steps.append("setup")
            if len(steps) == 1:
                raise OSError("no room")

        def teardown(self) -> None:
            steps.append("teardown")

    lifetime = Lifetime("sum", Flaky())
    with pytest.raises(dm.UserCodeError, match=r"no room(.|\n)*transform: 'sum', in its setup\(\)"):
        lifetime.set_up()
    lifetime.tear_down()
    lifetime.set_up()
    lifetime.tear_down()
    assert steps == ["setup", "setup", "teardown"]


def streamed(folder: pathlib.Path, *values: int) -> tuple[Streamed, pathlib.Path]:
    """Return a stream of micro-batches of one element each, on two shards of one worker, and where steps are noted."""
    steps = folder / "steps"
    steps.mkdir()

    def build(p: dm.Pipeline) -> None:
        script = TestStream()
        for at, value in enumerate(values):
            script = script.add((f"key {at % 5}", value), at)
        windowed = p | script | dm.Window.into(dm.FixedWindows("10 seconds"))
        _ = windowed | "sum" >> dm.CombinePerKey(CountedSum(str(steps))) | "kept" >> dm.io.Collect()

    return Streamed(build, folder / "stream", rows=1), steps


def test_shards_of_one_worker_share_a_combiner_from_the_first_micro_batch_to_the_end(tmp_path: pathlib.Path) -> None:
    stream, steps = streamed(tmp_path, *range(10))
    for _ in range(5):
        stream.step()
    assert counted(steps) == {"setup": 1}
    stream.finish()
    assert counted(steps) == {"setup": 1, "teardown": 1}
    assert sum(record.value[1] for record in stream.collected("kept")) == sum(range(10))


def test_a_failed_micro_batch_tears_down_what_its_shard_holds(tmp_path: pathlib.Path) -> None:
    stream, steps = streamed(tmp_path, -1, 2)
    with pytest.raises(dm.UserCodeError, match="negative"):
        stream.finish()
    assert counted(steps) == {"setup": 1, "teardown": 1}


def test_evicting_a_shard_from_the_cache_tears_it_down_and_loading_it_sets_it_up(tmp_path: pathlib.Path) -> None:
    stream, steps = streamed(tmp_path, *range(10))
    for _ in range(5):
        stream.step()
    stream.cache.forget_shards()
    assert counted(steps) == {"setup": 1, "teardown": 1}
    stream.finish()
    assert counted(steps) == {"setup": 2, "teardown": 2}


def runner(spark: SparkSession, mode: str, tmp_path: pathlib.Path) -> dm.SparkRunner:
    if mode == "batch":
        return dm.SparkRunner(spark, mode="batch")
    return dm.SparkRunner(spark, mode="streaming", checkpoint=str(tmp_path / "checkpoint"))


@attrs.frozen
class NotingFn(dm.DoFn):
    """Leaves a file for each step of its life, calls a function with each element, and raises for a negative number."""

    folder: str
    wait: Callable[[int], None] = attrs.field(default=lambda _: None)

    def setup(self) -> None:
        pathlib.Path(self.folder, f"setup-{uuid.uuid4().hex}").touch()

    def teardown(self) -> None:
        pathlib.Path(self.folder, f"teardown-{uuid.uuid4().hex}").touch()

    def process(self, element: int) -> Iterable[int]:
        self.wait(element)
        if element < 0:
            raise ValueError("negative")
        yield element


@pytest.mark.parametrize("ends", ["fails", "is stopped"])
def test_the_other_workers_are_torn_down_when_one_fails_or_the_run_is_stopped(
    tmp_path: pathlib.Path, ends: str
) -> None:
    def wait(element: int) -> None:
        if element >= 0 or ends == "is stopped":
            (tmp_path / f"waits-{element}").touch()
            threading.Event().wait()
        while not list(tmp_path.glob("waits-*")):
            time.sleep(0.01)

    p = dm.Pipeline(dm.LocalRunner(workers=2))
    _ = p | dm.Create([-1, 1]) | "note" >> dm.ParDo(NotingFn(str(tmp_path), wait)) | dm.io.Collect()
    result = p.run()
    if ends == "fails":
        with pytest.raises(dm.UserCodeError, match="negative"):
            result.wait_until_finish(PATIENCE)
    else:
        while len(list(tmp_path.glob("waits-*"))) < 2:
            time.sleep(0.01)
        result.stop()
    steps = counted(tmp_path)
    assert (steps["setup"], steps["teardown"]) == (2, 2)


@pytest.mark.parametrize("mode", ["batch", pytest.param("streaming", marks=pytest.mark.slow)])
@pytest.mark.parametrize("fails", [False, True])
def test_on_spark_a_dofn_after_a_source_is_torn_down(
    spark: SparkSession, tmp_path: pathlib.Path, mode: str, fails: bool
) -> None:
    steps = tmp_path / "steps"
    steps.mkdir()
    p = dm.Pipeline(runner(spark, mode, tmp_path))
    frame = spark.createDataFrame([(-1 if fails else 1,)], "value long") if mode == "batch" else None
    first = p | "elements" >> dm.Create([-1 if fails else 1]) | "note" >> dm.ParDo(NotingFn(str(steps)))
    _ = first | "first" >> dm.io.Collect()
    if frame is not None:
        rows = p | dm.io.ReadDataFrame(frame, event_time=dm.ARRIVAL) | dm.Map(lambda row: row.value)
        _ = rows | "note rows" >> dm.ParDo(NotingFn(str(steps))) | "second" >> dm.io.Collect()
    with pytest.raises(dm.UserCodeError, match="negative") if fails else contextlib.nullcontext():
        p.run().wait_until_finish(PATIENCE)
    actual = counted(steps)
    assert actual["setup"] == actual["teardown"] >= 1


@pytest.mark.slow
def test_on_spark_the_workers_of_a_stream_are_torn_down_when_it_is_stopped(
    spark: SparkSession, tmp_path: pathlib.Path
) -> None:
    steps, rows = tmp_path / "steps", tmp_path / "rows"
    steps.mkdir()
    rows.mkdir()
    (rows / "a.json").write_text("".join(f'{{"n": {number}}}\n' for number in range(40)))
    p = dm.Pipeline(dm.SparkRunner(spark, mode="streaming", checkpoint=tmp_path / "checkpoint", max_rows_per_batch=8))
    schema = pa.schema({"n": pa.int64()})
    numbers = p | dm.io.ReadJson(rows, event_time=dm.ARRIVAL, schema=schema, follow=True) | dm.Map(lambda row: row.n)
    noted = numbers | dm.ParDo(NotingFn(str(steps))).with_output_types(int)
    keyed = noted | dm.WithKeys(lambda n: n % 5) | dm.Window.trigger(dm.Repeatedly(dm.AfterCount(1)))
    _ = keyed | "sum" >> dm.CombinePerKey(CountedSum(str(steps))) | dm.io.Collect()
    result = p.run()
    wait_for_batch(result, 2)
    result.stop()
    actual = counted(steps)
    assert actual["setup"] == actual["teardown"] >= 2


@pytest.mark.parametrize("mode", ["batch", pytest.param("streaming", marks=pytest.mark.slow)])
def test_on_spark_each_setup_has_its_teardown(spark: SparkSession, tmp_path: pathlib.Path, mode: str) -> None:
    steps = tmp_path / "steps"
    steps.mkdir()
    p = dm.Pipeline(runner(spark, mode, tmp_path))
    sums(p, steps, *range(50))
    p.run().wait_until_finish()
    actual = counted(steps)
    assert actual["setup"] == actual["teardown"] >= 1


@pytest.mark.slow
def test_on_spark_a_combiner_with_a_kernel_is_set_up_if_columns_cannot_be_used(
    spark: SparkSession, tmp_path: pathlib.Path
) -> None:
    steps = tmp_path / "steps"
    steps.mkdir()
    table = pa.table({"at": [1, 2, 3], "key": ["a"] * 3, "n": [2**62] * 3})  # a sum of more than 64 bits
    pq.write_table(table, tmp_path / "rows.parquet")
    p = dm.Pipeline(dm.SparkRunner(spark, mode="batch"))
    rows = p | dm.io.ReadParquet(tmp_path / "rows.parquet", event_time="at") | dm.Window.into(dm.FixedWindows(10))
    pairs = rows | dm.WithKeys("key", value="n")
    _ = pairs | "sum" >> dm.CombinePerKey(KernelSum(str(steps))) | "kept" >> dm.io.Collect()
    result = p.run()
    result.wait_until_finish()
    assert [record.value for record in result.collected("kept")] == [("a", 3 * 2**62)]
    actual = counted(steps)
    assert actual["setup"] == actual["teardown"] >= 1


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["batch", "streaming"])
def test_on_spark_a_combiner_is_torn_down_when_the_run_fails(
    spark: SparkSession, tmp_path: pathlib.Path, mode: str
) -> None:
    steps = tmp_path / "steps"
    steps.mkdir()
    p = dm.Pipeline(runner(spark, mode, tmp_path))
    sums(p, steps, 1, 2, -3)
    with pytest.raises(dm.UserCodeError, match="negative"):
        p.run().wait_until_finish()
    actual = counted(steps)
    assert actual["setup"] == actual["teardown"] >= 1

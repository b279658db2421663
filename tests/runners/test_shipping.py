"""How a pipeline's functions reach workers, whatever they hold, without Spark."""

from __future__ import annotations

import functools
import gc
import importlib
import re
import subprocess
import sys
import threading
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
import pytest
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.types import IntegerType, StructType

import dataflow_model as dm
from dataflow_model.plan.logical.stages import changing_sides, cut_into_stages
from dataflow_model.runners.sharded.tasks.program import PackedProgram, Program
from dataflow_model.runners.sharded.tasks.task import ProcessCache, Task
from dataflow_model.runners.spark.deployment import shipping
from dataflow_model.runners.spark.deployment.package import INSTALLED, share_package, ship_package
from dataflow_model.runners.spark.deployment.shipping import (
    MOST_ALONG,
    processor,
    register_sink,
    register_source,
    ship_program,
)
from dataflow_model.runners.spark.job import do_work, plan_work
from dataflow_model.runners.spark.sink import StreamWriter
from dataflow_model.runners.spark.stages import KeyedStage, StreamReader, program_options
from tests.support.hosts import on_hosts, runner_on
from tests.support.micro_batches import Run

if TYPE_CHECKING:
    from dataflow_model.plan.logical.graph import Plan

SPARK: Any = types.SimpleNamespace(conf={"spark.master": "local[2]"})
CLUSTER: Any = types.SimpleNamespace(conf={"spark.master": "spark://driver:7077"})
"""These stand for sessions that are asked for nothing but where they are."""


class Remembering(dm.DoFn):
    total = dm.CombiningStateSpec(dm.Sum())

    def process(self, pair: Any, one: int, total: Any) -> Any:
        total.add(one)
        yield pair[0], total.read()


def program_with(table: bytes) -> Program:
    p = dm.Pipeline()
    _ = p | dm.Create([1]) | dm.Map(lambda x: x + len(table)) | "sizes" >> dm.io.Collect()
    return Program(cut_into_stages(p.plan()), {}, (0,), "run")


# Large functions.


def test_a_small_program_travels_with_each_command(tmp_path: Path) -> None:
    packed = program_with(b"x" * 100).pack()
    assert ship_program(SPARK, packed, tmp_path / "programs", shared=True) is packed
    assert not (tmp_path / "programs").exists()


def test_a_program_with_a_large_table_is_left_in_a_file_that_each_worker_loads(tmp_path: Path) -> None:
    program = program_with(b"x" * 60_000_000)
    packed = ship_program(SPARK, program.pack(), tmp_path / "programs", shared=True)
    assert len(program_options(packed, packed)["program"]) < 1_000
    [file] = (tmp_path / "programs").iterdir()
    assert file.stat().st_size > 60_000_000
    assert packed.unpack().run_id == "run"


def test_the_file_of_a_large_program_does_not_show_the_passwords_in_it(tmp_path: Path) -> None:
    packed = program_with(b"the password" + bytes(MOST_ALONG)).pack()
    assert b"the password" in packed.blob
    first, second = (ship_program(SPARK, packed, tmp_path, shared=True) for _ in range(2))
    assert first.file != second.file
    for shipped in (first, second):
        assert b"the password" not in Path(shipped.file).read_bytes()
        assert repr(shipped.key) not in repr(shipped)
        assert shipped.unpack().run_id == "run"


@pytest.mark.parametrize("session", [SPARK, CLUSTER], ids=["local", "cluster"])
def test_no_command_is_so_large_that_spark_broadcasts_it(session: Any, tmp_path: Path) -> None:
    """Whatever the size of the program: the process that is asked for state variables cannot read a broadcast."""
    serializer: Any = CloudPickleSerializer  # it has no types
    along = []
    for size in range(0, 1_100_000, 20_000):
        packed = ship_program(session, program_with(b"x" * size).pack(), tmp_path, shared=True)
        package = share_package(session, tmp_path)
        assert len(serializer().dumps(processor(package, KeyedStage, packed, 1))) < 1_000_000
        along.append(bool(packed.blob))
    assert along[:4] == [True] * 4
    assert not along[-1]


def packed_with_a_module(folder: Path, monkeypatch: pytest.MonkeyPatch) -> PackedProgram:
    """Return a program with a function of a module in a folder, which is not on the path any more."""
    (folder / "beside_the_program.py").write_text("def double(x):\n    return 2 * x\n")
    with monkeypatch.context() as driver:
        driver.syspath_prepend(folder)
        p = dm.Pipeline()
        _ = p | dm.Create([1]) | dm.Map(importlib.import_module("beside_the_program").double) | dm.io.Collect()
        packed = Program(cut_into_stages(p.plan()), {}, (0,), "run").pack()
    del sys.modules["beside_the_program"]
    monkeypatch.setattr(sys, "path", list(sys.path))  # a worker changes it
    return packed


@pytest.mark.parametrize("is_large", [False, True])
def test_functions_of_modules_next_to_the_program_are_found_on_the_same_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_large: bool
) -> None:
    packed = packed_with_a_module(tmp_path, monkeypatch)
    if is_large:
        monkeypatch.setattr(shipping, "MOST_ALONG", 1)
        packed = ship_program(SPARK, packed, tmp_path / "programs", shared=True)
    assert packed.unpack().run_id == "run"
    assert importlib.import_module("beside_the_program").double(2) == 4
    assert not [folder for folder in packed.folders if "site-packages" in folder]
    del sys.modules["beside_the_program"]


def test_a_module_that_a_worker_does_not_have_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = packed_with_a_module(tmp_path, monkeypatch)
    (tmp_path / "beside_the_program.py").unlink()
    with pytest.raises(dm.PlanError, match=r"^a worker cannot import 'beside_the_program', .*\nHint: install it for"):
        packed.unpack()


def test_a_program_whose_file_is_missing_or_was_replaced_is_refused_by_name(tmp_path: Path) -> None:
    packed = ship_program(SPARK, program_with(b"x" * (MOST_ALONG + 1)).pack(), tmp_path, shared=True)
    file = Path(packed.file)
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(dm.StateCorruption, match=rf"{file.name}' is damaged: it is not the file that the driver wrote"):
        packed.unpack()
    file.unlink()
    with pytest.raises(
        dm.SourceError,
        match=rf"a worker cannot read the run's functions in .*{file.name}.*\nHint: make sure that driver",
    ):
        packed.unpack()


# What plans and commits.


def test_what_plans_and_commits_a_stream_needs_no_module_of_its_functions() -> None:
    p = dm.Pipeline()
    numbers = p | dm.Create([1, 2, 3]) | dm.Map(functools.partial(pytest.approx, abs=1)) | dm.WithKeys(repr)
    totals = numbers | dm.ParDo(Remembering(), dm.AsSingleton(p | "one" >> dm.Create([1]))) | dm.GroupByKey()
    _ = (totals, numbers) | dm.Flatten() | dm.io.Collect()
    program = Program(cut_into_stages(p.plan()), {}, (0, 1), "run")
    endpoints = program.endpoints()
    assert [read.label for read in endpoints.staged.sources] == [read.label for read in program.staged.sources]
    assert [write.label for write in endpoints.staged.sinks] == [write.label for write in program.staged.sinks]
    assert endpoints.followers == program.followers
    assert (endpoints.outlasts, endpoints.awaited) == (program.outlasts, program.awaited)
    for module in (b"pytest", b"_pytest", __name__.encode()):
        assert module in program.pack().blob
        assert module not in endpoints.pack().blob


def test_what_plans_and_commits_a_stream_of_beam_s_needs_nothing_of_beam(monkeypatch: pytest.MonkeyPatch) -> None:
    beam = pytest.importorskip("apache_beam", reason="needs Beam: pip install 'dataflow-model[beam]'")
    from dataflow_model.beam import LocalRunner
    from tests.support.beam.programs import PROGRAMS, nothing_flattened

    programs: list[Program] = []

    def run(_: dm.LocalRunner, plan: Plan) -> None:
        programs.append(Program(cut_into_stages(plan, changing_sides(plan)), {}, (0,), "run"))

    in_beam = re.compile(rb"apache_beam|dataflow_model\.runners\.beam")
    monkeypatch.setattr(dm.LocalRunner, "run", run)
    for build in (build for build in PROGRAMS if build is not nothing_flattened):  # that one has no function
        pipeline = beam.Pipeline(runner=LocalRunner(checkpoint="not used"))
        _ = build(pipeline)
        pipeline.run()
        assert in_beam.search(programs[-1].pack().blob)
        assert not in_beam.search(programs[-1].endpoints().pack().blob), build


# The package.


def test_a_session_that_did_not_get_the_package_gets_it_for_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Session:
        """A session on a cluster whose first transfer fails."""

        def __init__(self) -> None:
            self.archives: list[str] = []

        def addArtifacts(self, archive: str, *, file: bool) -> None:  # noqa: N802 - Spark's name
            assert file
            self.archives.append(archive)
            if len(self.archives) == 1:
                raise OSError("connection reset")

    monkeypatch.setattr("dataflow_model.runners.spark.deployment.package.is_local", lambda _: False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    session: Any = Session()
    with pytest.raises(OSError, match="connection reset"):
        ship_package(session)
    for _ in range(2):
        ship_package(session)
    failed, sent = session.archives
    assert Path(sent).exists()
    del session
    gc.collect()
    assert not Path(failed).exists()
    assert not Path(sent).exists()


# What cannot be pickled.


def locked(p: dm.Pipeline) -> None:
    lock = threading.Lock()
    _ = p | dm.Create([1]) | "guarded" >> dm.Map(lambda x: x if lock.locked() else -x) | dm.io.Collect()


@pytest.mark.parametrize("options", [{}, {"mode": "streaming", "checkpoint": "checkpoint"}])
def test_a_function_that_cannot_be_pickled_is_refused_with_its_label_before_the_checkpoint_is_touched(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    p = dm.Pipeline(runner=dm.SparkRunner(SPARK, **options))
    locked(p)
    with pytest.raises(
        dm.PlanError,
        match=r"^'guarded' cannot be sent to workers: TypeError: cannot pickle '_thread\.lock' object\n"
        r"Hint: a lock, an open file or a connection belongs to one process: create it in DoFn\.setup\(\) or inside "
        r"the function, .*; a function cannot use the SparkSession: .* and write with dm\.io\.WriteParquet",
    ):
        p.run()
    assert not any(tmp_path.iterdir())


def test_an_element_that_cannot_be_pickled_is_refused_with_the_source_s_label() -> None:
    p = dm.Pipeline(runner=dm.SparkRunner(SPARK, mode="batch"))
    _ = p | "locks" >> dm.Create([1, threading.Lock()]) | dm.io.Collect()
    with pytest.raises(dm.PlanError, match="'locks' cannot be sent to workers: TypeError"):
        p.run()


@pytest.mark.parametrize("runner", [dm.LocalRunner(workers=2), dm.SparkRunner(SPARK, mode="batch")])
def test_a_function_that_refers_to_an_open_file_is_refused(runner: Any, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("1\n2\n")
    with (tmp_path / "lines").open() as file:
        p = dm.Pipeline(runner=runner)
        _ = p | dm.Create([1, 2]) | "next" >> dm.Map(lambda _: file.readline()) | dm.io.Collect()
        with pytest.raises(dm.PlanError, match=r"'next' cannot be sent to workers: .*cannot pickle the open file"):
            p.run()


def test_an_element_that_holds_an_open_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("1\n2\n")
    p = dm.Pipeline(runner=dm.LocalRunner(workers=2))
    files = p | dm.Create([tmp_path / "lines"]) | dm.Map(lambda path: ("k", path.open()))
    _ = files | "group" >> dm.GroupByKey() | dm.Map(str) | dm.io.Collect()
    with pytest.raises(dm.InvalidType, match=r"cannot pickle the open file(?s:.*)transform: 'group'"):
        p.run().wait_until_finish()


@on_hosts("local", "workers", "process", "batch", slow=("streaming",))
def test_a_cached_function_of_the_program_runs_on_every_host(
    host: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    @functools.lru_cache
    def double(number: int) -> int:
        return number * 2

    p = dm.Pipeline(runner=runner_on(host, request, tmp_path / "checkpoint"))
    _ = p | dm.Create([1, 2, 2]) | dm.Map(double) | "kept" >> dm.io.Collect()
    result = p.run()
    result.wait_until_finish()
    assert sorted(record.value for record in result.collected("kept")) == [2, 4, 4]


NAMED = """
import dataflow_model as dm

class Missing:
    def __reduce__(self):
        return "MISSING"  # found by its name in the module

MISSING = Missing()

if __name__ == "__main__":
    p = dm.Pipeline(runner=dm.LocalRunner(workers=2))
    _ = p | dm.Create([1]) | dm.Map(lambda n: n or MISSING) | dm.io.Collect()
    try:
        p.run().wait_until_finish()
    except dm.PlanError as error:
        print(error)
"""


def test_an_object_that_a_worker_cannot_import_by_its_name_is_an_error_that_says_so(tmp_path: Path) -> None:
    (tmp_path / "named.py").write_text(NAMED)
    ran = subprocess.run(
        [sys.executable, tmp_path / "named.py"], capture_output=True, text=True, check=True, timeout=60, cwd=tmp_path
    )
    assert re.match(r"a worker does not have what .* refer to by name: .*MISSING.*\nHint: define it", ran.stdout)


@attrs.frozen
class Guarded:
    """An element that is bound to its process."""

    name: str
    lock: Any = attrs.field(factory=threading.Lock)


@pytest.mark.parametrize("sink", [False, True], ids=["to a grouping", "to a sink"])
def test_a_returned_element_that_cannot_be_pickled_is_reported_with_the_transform(sink: bool) -> None:
    p = dm.Pipeline()
    pairs = p | dm.Create(["a", "b"]) | dm.Map(lambda name: (name, Guarded(name) if name == "b" else None))
    _ = pairs | "target" >> dm.io.Collect() if sink else pairs | "target" >> dm.GroupByKey() | dm.io.Collect()
    program = Program(cut_into_stages(p.plan()), {}, (0, 1), "run").pack().unpack()
    [work] = plan_work(program, 2)
    with pytest.raises(
        dm.InvalidType,
        match=r"^an element cannot be pickled on its way to a transform: TypeError: cannot pickle '_thread\.lock' "
        r"object\n  transform: 'target'\n  element: \('b', Guarded\(name='b'.*\)\)\nHint: emit plain values; a lock",
    ):
        list(do_work(Task(program, ProcessCache()), work))


class Locks(dm.CombineFn[Any, Any, Any]):
    """Keeps what no state can."""

    def create_accumulator(self) -> Any:
        return threading.Lock()

    def add_input(self, accumulator: Any, element: Any) -> Any:
        del element
        return accumulator

    def merge_accumulators(self, accumulators: Any) -> Any:
        return next(iter(accumulators))

    def extract_output(self, accumulator: Any) -> Any:
        return accumulator


def test_state_that_cannot_be_pickled_is_named_with_its_transform(tmp_path: Path) -> None:
    def build(p: dm.Pipeline) -> None:
        stream = dm.testing.TestStream().add(("a", 1), event_time=1)
        _ = p | stream | "locks" >> dm.CombinePerKey(Locks()) | dm.io.Collect()

    with pytest.raises(
        dm.InvalidType,
        match=r"the state of a transform cannot be pickled: TypeError: .*\n  transform: 'locks'\nHint: keep",
    ):
        Run(build, tmp_path / "checkpoint", rows=1).finish()


class Files(Locks):
    """Keeps an open file."""

    def __init__(self, file: Any) -> None:
        self.file = file

    def create_accumulator(self) -> Any:
        return self.file


def test_state_with_an_open_file_is_refused_with_its_transform(tmp_path: Path) -> None:
    p = dm.Pipeline(runner=dm.LocalRunner(checkpoint=tmp_path / "checkpoint", max_rows_per_batch=1))
    stream = dm.testing.TestStream().add(("a", 1), event_time=1).add(("a", 2), event_time=2)
    with Path(__file__).open() as file:
        _ = p | stream | "files" >> dm.CombinePerKey(Files(file)) | dm.io.Collect()
        with pytest.raises(dm.InvalidType, match=r"state of a transform .*the open file .*\n  transform: 'files'\n"):
            p.run().wait_until_finish()


# Text that cannot be encoded.


def test_a_label_that_utf_8_cannot_encode_is_refused() -> None:
    with pytest.raises(
        dm.InvalidArgument, match=r"a label must be text that UTF-8 can encode, got 'caf\\udce9'\nHint: name\.encode"
    ):
        _ = "caf\udce9" >> dm.Count.globally()


# The processes in which Spark plans a query, and asks for state variables.


PRE_INIT = """
import sys
from pyspark.serializers import CPickleSerializer

class Handle:
    asked = []

    def getValueState(self, *variable):
        self.asked.append([variable[0], *(schema.simpleString() for schema in variable[1:])])

    getMapState = getValueState

CPickleSerializer().loads(sys.stdin.buffer.read()).init(Handle())
print(Handle.asked, "dataflow_model" in sys.modules)
"""


class LocalSession:
    """Stands for a session whose executors are this machine."""

    conf: ClassVar = {"spark.master": "local[2]"}


PLANS = """
import gc, sys
from pyspark.serializers import CPickleSerializer

source, sink = CPickleSerializer().loads(sys.stdin.buffer.read())
pickled = CPickleSerializer().dumps([source({}).streamReader(None), sink({}).streamWriter(None, False)])
schema = source({}).schema().simpleString()
print(source.name(), schema, sink.name(), len(pickled) < 10_000, "dataflow_model" in sys.modules)
print(gc.get_freeze_count() > 1_000)
"""


def test_a_process_that_only_plans_sources_and_sinks_does_not_import_the_package() -> None:
    serializer: Any = CloudPickleSerializer
    registered: list[Any] = []
    spark: Any = LocalSession()
    spark.dataSource = types.SimpleNamespace(register=registered.append)
    register_source(spark, INSTALLED, "a source", StructType().add("shard", IntegerType()), StreamReader)
    register_sink(spark, INSTALLED, "a sink", StreamWriter)
    command = serializer().dumps(registered)
    ran = subprocess.run([sys.executable, "-c", PLANS], input=command, capture_output=True, check=True)
    *planned, leaves_out = ran.stdout.decode().splitlines()
    assert planned == ["a source struct<shard:int> a sink True False"]
    assert leaves_out == "True", "the process looks through all of its modules after each micro-batch"


def test_a_process_that_only_asks_for_state_variables_does_not_import_the_package() -> None:
    serializer: Any = CloudPickleSerializer  # it has no types
    command = serializer().dumps(processor(INSTALLED, KeyedStage, program_with(b"").pack(), 1))
    ran = subprocess.run([sys.executable, "-c", PRE_INIT], input=command, capture_output=True, check=True)
    schemas = ["struct<sequence:bigint,part:int>", "struct<payload:binary>"]
    variables = [["head", "struct<records:binary>"], ["log", *schemas]]
    assert ran.stdout.decode().strip() == f"{variables} False"

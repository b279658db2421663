"""User code in Spark's workers: it cannot end them, and finds the settings of the program."""

from __future__ import annotations

import contextvars
import decimal
import importlib
import multiprocessing
import os
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import dataflow_model as dm
from tests.support.hosts import on_hosts, runner_on
from tests.support.pipelines import run
from tests.support.runners.leaving import USER_CODE
from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

TENANT: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="nobody")
WORKERS_ALIKE = on_hosts("batch", slow=("streaming",))


@WORKERS_ALIKE
@pytest.mark.parametrize("code", ["map", "add_input", "sink: commit", "source: read"])
def test_sys_exit_in_user_code_on_spark_is_an_error_with_label_and_line(
    host: str, code: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    pipeline = dm.Pipeline(runner_on(host, request, tmp_path / "checkpoint"))
    USER_CODE[code](pipeline)
    with pytest.raises(dm.UserCodeError, match=r"^SystemExit: 0\n  in: (.|\n)*leaving\.py:(.|\n)*'leaves'"):
        pipeline.run().wait_until_finish(PATIENCE)


@WORKERS_ALIKE
def test_a_worker_of_spark_that_ends_is_an_error_that_names_the_task(
    host: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    pipeline = dm.Pipeline(runner_on(host, request, tmp_path / "checkpoint"))
    _ = pipeline | dm.Create([1]) | dm.Map(lambda _: os._exit(3)) | dm.io.Collect()
    with pytest.raises(
        dm.WorkerLost, match=r"^a Python worker of Spark ended unexpectedly, in task \S+ in stage"
    ) as lost:
        pipeline.run().wait_until_finish(PATIENCE)
    assert "\tat org.apache" not in str(lost.value)


def in_a_process(x: int) -> list[int | None]:
    """Return the exit statuses of two processes."""
    by_multiprocessing = multiprocessing.get_context("fork").Process(target=abs, args=(x,))
    by_multiprocessing.start()
    by_multiprocessing.join()
    child = os.fork()
    if not child:
        sys.exit(3)
    return [by_multiprocessing.exitcode, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])]


@WORKERS_ALIKE
def test_processes_forked_by_a_function_on_spark_end_and_the_run_continues(
    host: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    def build(p: dm.Pipeline) -> None:
        _ = p | dm.Create([1]) | dm.Map(in_a_process) | "out" >> dm.io.Collect()

    result = run(runner_on(host, request, tmp_path / "checkpoint"), build)
    assert [record.value for record in result.collected("out")] == [[0, 3]]


@WORKERS_ALIKE
def test_functions_on_spark_have_the_settings_of_the_program_but_other_code_of_the_worker_has_not(
    host: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    def settings(pair: tuple[str, decimal.Decimal]) -> tuple[str, Any]:
        return pair[0], (pair[1] / 7, np.geterr()["divide"], TENANT.get())

    def build(p: dm.Pipeline) -> None:
        pairs = p | dm.Create([("a", decimal.Decimal(1))])
        _ = pairs | "seen" >> dm.Map(settings) | "first" >> dm.io.Collect()
        _ = pairs | dm.Map(lambda pair: (pair[0], pair[1] / 7)) | dm.Mean.per_key() | "mean" >> dm.io.Collect()

    with decimal.localcontext(prec=50), np.errstate(divide="raise"):
        token = TENANT.set("ann")
        result = run(runner_on(host, request, tmp_path / "checkpoint"), build)
        TENANT.reset(token)
        seventh = decimal.Decimal(1) / 7
    assert [record.value for record in result.collected("first")] == [("a", (seventh, "raise", "ann"))]
    assert [record.value for record in result.collected("mean")] == [("a", seventh)]

    def precision(batches: Any) -> Any:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"id": [decimal.getcontext().prec] * len(batch)})

    spark = request.getfixturevalue("spark")
    assert {row.id for row in spark.range(20).mapInArrow(precision, "id long").collect()} == {28}


def test_the_processes_that_plan_and_commit_a_stream_import_no_module_of_its_functions(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    imports = tmp_path / "imports"
    (tmp_path / "slow_to_import.py").write_text(
        f"import sys\nwith open({str(imports)!r}, 'a') as file:\n    print(sys.orig_argv, file=file)\n\n\n"
        "def doubled(number):\n    return 2 * number\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("slow_to_import")
    p = dm.Pipeline(dm.SparkRunner(spark, "streaming", checkpoint=tmp_path / "checkpoint"))
    pairs = p | dm.Create([1, 2]) | dm.Map(module.doubled) | dm.WithKeys(str)
    _ = pairs | dm.Sum.per_key() | dm.io.Collect()
    result = p.run()
    result.wait_until_finish(PATIENCE)
    assert sorted(record.value for record in result.collected("Collect")) == [("2", 2), ("4", 4)]
    here, *others = imports.read_text().splitlines()
    assert here == str(sys.orig_argv)
    assert others
    assert all("daemon" in command for command in others)

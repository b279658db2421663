"""Errors that cross Spark: always text that a worker can send, and ours again on the driver."""

from __future__ import annotations

import sys
import traceback
from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from dataflow_model.runners.spark.deployment import failures
from dataflow_model.runners.spark.deployment.failures import find_our_error, reported

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAME = "caf\udce9.parquet"
"""A file's name of bytes that are no UTF-8, as Python shows it."""


def text_of(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def test_lone_surrogates_in_the_error_of_a_task_are_escaped_in_all_its_causes() -> None:
    @reported
    def read() -> None:
        try:
            try:
                open(f"/no such folder/{NAME}")  # noqa: PTH123, SIM115 - it fails
            except OSError as error:
                raise ValueError(f"{NAME} is gone") from error
        except ValueError:
            raise dm.SourceError(NAME)  # noqa: B904 - whatever users write

    with pytest.raises(dm.SourceError, match=r"^caf\\udce9\.parquet\n\(the error message") as caught:
        read()
    text = text_of(caught.value)
    text.encode()
    assert r"ValueError: caf\udce9.parquet is gone" in text
    assert "FileNotFoundError: [Errno 2]" in text
    assert text.count("in read") == 3


def test_lone_surrogates_in_errors_of_a_generator_are_escaped() -> None:
    @reported
    def rows() -> Iterator[int]:
        yield 1
        raise ValueError(f"no key: {NAME}")

    actual = rows()
    assert next(actual) == 1
    with pytest.raises(RuntimeError, match=r"^ValueError: no key: caf\\udce9") as caught:
        next(actual)
    text_of(caught.value).encode()


def test_errors_that_can_be_encoded_are_not_changed() -> None:
    @reported
    def fail() -> None:
        raise KeyError("élan")

    with pytest.raises(KeyError, match="élan"):
        fail()


def test_an_exception_of_a_users_function_can_be_printed_on_every_host() -> None:
    def broken(x: int) -> None:
        raise ValueError(f"no such name: {NAME} {x}")

    p = dm.Pipeline()
    _ = p | dm.Create([1]) | dm.Map(broken) | dm.io.Collect()
    with pytest.raises(dm.UserCodeError, match=r"^ValueError: no such name: caf\\udce9\.parquet 1") as caught:
        p.run().wait_until_finish()
    str(caught.value).encode()


def test_the_reason_of_a_dead_letter_can_be_written_to_a_file() -> None:
    def broken(x: int) -> None:
        raise ValueError(f"no such name: {NAME} {x}")

    p = dm.Pipeline()
    _, dead = p | dm.Create([1]) | dm.Map(broken).with_exception_handling()
    _ = dead | "dead" >> dm.io.Collect()
    result: Any = p.run()
    result.wait_until_finish()
    [letter] = [record.value for record in result.collected("dead")]
    assert letter.reason == r"ValueError: no such name: caf\udce9.parquet 1"
    letter.traceback.encode()


def test_the_reason_of_a_dead_letter_is_one_line() -> None:
    def broken(x: int) -> None:
        raise ValueError(f"first\n  second\r\n\nthird\u2028{x}")

    def rejected(_: int) -> str:
        return "text"

    p = dm.Pipeline()
    numbers = p | dm.Create([1])
    transforms: dict[str, Any] = {"raised": dm.Map(broken), "rejected": dm.FlatMap(rejected)}
    for name, transform in transforms.items():
        _, dead = numbers | name >> transform.with_exception_handling()
        _ = dead | f"dead {name}" >> dm.io.Collect()
    result = p.run()
    result.wait_until_finish()
    reasons = [result.collected(f"dead {name}")[0].value.reason for name in ("raised", "rejected")]
    assert reasons[0] == "ValueError: first second third 1"
    assert reasons[1].startswith(
        "InvalidType: 'rejected' must return an iterable of outputs, got 'text' of type str Hint:"
    )
    assert dm.DeadLetter("x", "read", "row 1: bad\nvalue", "").reason == "row 1: bad value"


SPARKS = (
    'Job aborted\nTraceback (most recent call last):\n  File "elementwise.py", line 327, in _map\n'
    "dataflow_model.errors.UserCodeError: ZeroDivisionError: division by zero\n  transform: 'ratios'\n"
    + "\tat org.apache.spark.scheduler.Task.run(Task.scala:147)\n"
    * 300
)


def test_a_users_error_is_shown_without_the_stack_of_spark_which_is_saved_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "spark.log"
    monkeypatch.setattr(failures, "log_file", lambda: log)
    spark_error = RuntimeError(SPARKS)
    error = find_our_error(spark_error)
    assert error.__context__ is spark_error
    assert text_of(error).splitlines() == [
        "dataflow_model.errors.UserCodeError: ZeroDivisionError: division by zero",
        "  transform: 'ratios'",
        f"Spark's own error, with its stack: {log}",
    ]
    assert log.read_text(encoding="utf-8").count("at org.apache.spark") == 300
    find_our_error(spark_error)
    assert log.read_text(encoding="utf-8").count("at org.apache.spark") == 600


def test_an_error_is_shown_even_if_its_log_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "log_file", lambda: tmp_path / "no such folder" / "spark.log")
    error = find_our_error(RuntimeError(SPARKS))
    assert isinstance(error, dm.UserCodeError)
    assert "Spark's own error" not in text_of(error)


@pytest.mark.parametrize(
    "text", ["ModuleNotFoundError: No module named 'pendulum'", "[PYTHON_VERSION_MISMATCH] Python in worker has …"]
)
def test_an_error_of_workers_that_run_another_python_says_which_one_this_program_runs(text: str) -> None:
    spark_error = RuntimeError(f"An exception was thrown from the Python worker:\n{text}")
    error = find_our_error(spark_error)
    assert error is spark_error
    [note] = error.__notes__
    assert "PYSPARK_PYTHON" in note
    assert sys.executable in note


def test_a_lone_surrogate_in_an_error_that_is_its_own_cause_is_escaped() -> None:
    @reported
    def read() -> None:
        error = ValueError(NAME)
        raise error from error

    with pytest.raises(RuntimeError, match=r"caf\\udce9\.parquet"):
        read()

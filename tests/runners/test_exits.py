"""What would end a program, such as `SystemExit`, raised in user code: it fails the run like any other exception."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import dataflow_model as dm
from tests.support.hosts import on_hosts, runner_on
from tests.support.pipelines import run
from tests.support.runners.leaving import USER_CODE, pickled

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

QUICK_WITH_WORKERS = {"map", "add_input", "teardown", "sink: write", "source: read"}
CASES = [
    pytest.param(host, code, marks=[pytest.mark.slow] * (host == "workers" and code not in QUICK_WITH_WORKERS))
    for host in ("local", "process", "workers")
    for code in USER_CODE
]


class Ended(BaseException):
    """What a library raises to unwind the stack."""


@pytest.mark.parametrize(("host", "code"), CASES)
def test_sys_exit_in_user_code_is_an_error_with_label_and_line(
    host: str, code: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    until: Any = "drained" if host == "process" else None
    with pytest.raises(dm.UserCodeError, match=r"SystemExit: 0\n(.|\n)*'leaves'") as raised:
        run(runner_on(host, request, tmp_path / "checkpoint"), USER_CODE[code], until)
    assert "leaving.py:" in str(raised.value)
    assert isinstance(raised.value.__cause__, SystemExit)


@on_hosts("local", "process", "workers")
@pytest.mark.parametrize(
    "error",
    [
        Ended("over"),
        GeneratorExit("over"),
        asyncio.CancelledError("over"),
        BaseExceptionGroup("both", [Ended("over"), KeyError("name")]),
    ],
    ids=repr,
)
def test_every_exception_but_ctrl_c_is_an_error_with_label_line_and_element(
    error: BaseException, host: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    def fail(element: int) -> int:
        raise error

    def build(p: dm.Pipeline) -> None:
        _ = p | dm.Create([7]) | "parse" >> dm.Map(fail) | dm.io.Collect()

    with pytest.raises(
        dm.UserCodeError, match=r"over(.|\n)*raise error(.|\n)*transform: 'parse'\n  element: 7"
    ) as raised:
        run(runner_on(host, request, tmp_path / "checkpoint"), build, None)
    assert "raise an Exception such as ValueError instead" in str(raised.value)


@on_hosts("local", "process", "workers")
@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), BaseExceptionGroup("both", [KeyboardInterrupt(), KeyError("name")])], ids=repr
)
def test_ctrl_c_in_user_code_remains_a_keyboard_interrupt(
    error: BaseException, host: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    def fail(element: int) -> int:
        raise error

    def build(p: dm.Pipeline) -> None:
        _ = p | dm.Create([7]) | "parse" >> dm.Map(fail) | dm.io.Collect()

    with pytest.raises(type(error)):
        run(runner_on(host, request, tmp_path / "checkpoint"), build, None)


class WithState(dm.DoFn):
    total = dm.CombiningStateSpec(dm.Sum())

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def process(self, element: Any, total: Any) -> Any:
        total.add(1)
        raise self.error


def raising(error: BaseException) -> Any:
    def fail(_: Any) -> Any:
        raise error

    return fail


def raising_on_columns(error: BaseException) -> Any:
    def fail(_: pa.RecordBatch) -> Any:
        raise error

    return fail


WAYS: dict[str, Callable[[BaseException], Any]] = {
    "map": lambda error: dm.Map(raising(error)),
    "state": lambda error: dm.ParDo(WithState(error)),
    "vectorized": lambda error: dm.Map(raising_on_columns(error), vectorized=True),
}


def with_letters(way: str, error: BaseException) -> Any:
    def build(p: dm.Pipeline) -> None:
        pairs = p | dm.io.ReadTable(pa.table({"key": ["a"], "value": [1]}), event_time=None)
        if way == "state":
            pairs = pairs | dm.Map(lambda row: (row.key, row.value))
        good, failed = pairs | "parse" >> WAYS[way](error).with_exception_handling()
        _ = good | "good" >> dm.io.Collect()
        _ = failed | "failed" >> dm.io.Collect()

    return build


@pytest.mark.parametrize("way", WAYS)
def test_an_exception_group_becomes_a_dead_letter_that_names_its_parts(way: str) -> None:
    error = ExceptionGroup("two tasks", [ValueError("bad"), ExceptionGroup("more", [KeyError("name")])])
    [letter] = run(dm.LocalRunner(), with_letters(way, error), None).collected("failed")
    reason = "ExceptionGroup: two tasks (2 sub-exceptions): ValueError: bad; ExceptionGroup: more (1 sub-exception)"
    assert letter.value.reason == f"{reason}: KeyError: 'name'"


@pytest.mark.parametrize("way", WAYS)
def test_a_base_exception_fails_the_run_even_with_dead_letters(way: str) -> None:
    with pytest.raises(dm.UserCodeError, match=r"^SystemExit: usage(.|\n)*transform: 'parse'\n  element: "):
        run(dm.LocalRunner(), with_letters(way, SystemExit("usage")), None)


def test_an_element_whose_pickling_ends_the_program_is_named() -> None:
    with pytest.raises(dm.InvalidType, match=r"SystemExit: 0\n  transform: 'leaves'\n  element: \(1, Unpicklable"):
        run(dm.LocalRunner(workers=2), pickled, None)


def test_a_program_whose_function_calls_sys_exit_fails(tmp_path: Path) -> None:
    program = """
        import sys
        import dataflow_model as dm

        with dm.Pipeline() as p:
            _ = p | dm.Create([1, 2, 3]) | "parse" >> dm.Map(lambda x: sys.exit(0) if x == 2 else x) | dm.io.Collect()
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], check=False, capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 1
    assert "SystemExit: 0" in ended.stderr
    assert "transform: 'parse'\n  element: 2" in ended.stderr


@pytest.mark.parametrize("stream", [False, True])
def test_an_exception_that_leaves_a_function_in_a_process_forked_there_ends_that_process_only(
    stream: bool, tmp_path: Path
) -> None:
    program = f"""
        import os, sys
        import dataflow_model as dm

        WAYS = [lambda: sys.exit(3), lambda: sys.exit(), lambda: sys.exit("no"), lambda: 1 / 0]

        def fork(number):
            child = os.fork()
            if not child:
                WAYS[number]()
            return number, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

        p = dm.Pipeline(runner=dm.LocalRunner(checkpoint={"'checkpoint'" if stream else None}))
        statuses = p | dm.Create(range(4)) | "fork" >> dm.Map(fork)
        _ = statuses | dm.Sum.per_key() | dm.Map(str) | dm.io.WriteText("out")
        p.run(until="drained").wait_until_finish()
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    lines = "".join(path.read_text() for path in (tmp_path / "out").glob("part-*")).splitlines()
    assert sorted(lines) == ["(0, 3)", "(1, 0)", "(2, 1)", "(3, 1)"]
    assert ended.stderr.count("no\n") == 1
    assert ended.stderr.count("ZeroDivisionError") == 1

"""Processes that functions and programs fork: they end by themselves, and the run goes on where it was started."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

RUNNERS = {
    "local": "dm.LocalRunner()",
    "workers": "dm.LocalRunner(workers=2)",
    "process": "dm.LocalRunner(checkpoint='checkpoint')",
}


def ran(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a folder, and require that it succeeds; one that hangs fails."""
    path = folder / "program.py"
    path.write_text("import multiprocessing, os, sys\nimport dataflow_model as dm\n" + textwrap.dedent(program))
    ended = subprocess.run([sys.executable, path], check=False, capture_output=True, text=True, cwd=folder, timeout=120)
    assert not ended.returncode, ended.stderr
    return ended


@pytest.mark.parametrize("host", RUNNERS)
def test_a_function_may_use_processes_that_multiprocessing_forks(tmp_path: Path, host: str) -> None:
    ended = ran(
        tmp_path,
        f"""
        from concurrent.futures import ProcessPoolExecutor

        fork = multiprocessing.get_context("fork")

        def in_a_process(x):
            child = fork.Process(target=abs, args=(x,))
            child.start()
            child.join()
            return x + child.exitcode

        def in_a_pool(x):
            with ProcessPoolExecutor(1, mp_context=fork) as pool:
                return pool.submit(abs, x).result()

        with dm.Pipeline(runner={RUNNERS[host]}) as p:
            _ = p | dm.Create([-1]) | "a" >> dm.Map(in_a_process) | "b" >> dm.Map(in_a_pool) | "out" >> dm.io.Collect()
        print([record.value for record in p.result.collected("out")])
        """,
    )
    assert ended.stdout == "[1]\n"


def test_a_fork_of_a_program_neither_waits_for_its_runs_nor_logs_their_errors(tmp_path: Path) -> None:
    ended = ran(
        tmp_path,
        """
        import threading

        go_on = threading.Event()
        running = dm.Pipeline()
        _ = running | dm.Create([1]) | dm.Map(lambda x: go_on.wait()) | dm.io.Collect()
        failing = dm.Pipeline()
        _ = failing | dm.Create([0]) | dm.Map(lambda x: 1 // x) | dm.io.Collect()
        result, failed = running.run(), failing.run()
        while failed.state is dm.RunnerState.RUNNING:
            pass
        child = os.fork()
        if child:
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            go_on.set()
            result.wait_until_finish()
        else:
            try:
                result.wait_until_finish()
            except dm.InvalidArgument as error:
                print(error)
            result.stop()
            result.drain()
        """,
    )
    refused, status = ended.stdout.splitlines()[::2]
    assert "from which this one was forked" in refused
    assert status == "0"
    assert ended.stderr.count("LocalRunner has failed:") == 1


@pytest.mark.slow
def test_a_forked_program_starts_its_own_workers(tmp_path: Path) -> None:
    ended = ran(
        tmp_path,
        """
        def run():
            with dm.Pipeline(runner=dm.LocalRunner(workers=2)) as p:
                _ = p | dm.Create([1, 2]) | dm.Map(lambda x: x + 1) | "out" >> dm.io.Collect()
            print([record.value for record in p.result.collected("out")], flush=True)

        run()
        child = os.fork()
        run()
        if child:
            assert os.waitpid(child, 0)[1] == 0
            run()
        """,
    )
    assert ended.stdout == "[2, 3]\n" * 4


def test_a_forked_process_does_not_remove_the_package_that_its_parent_unpacked(tmp_path: Path) -> None:
    ended = ran(
        tmp_path,
        """
        import importlib.util, pathlib, shutil, tempfile
        from dataflow_model.runners.spark.deployment import package

        package.is_local = lambda spark: False
        shared = tempfile.mkdtemp()
        find = package.share_package(None, pathlib.Path(shared)).finder(dm.Sum)
        importlib.util.find_spec = lambda name: None  # as if the package were not installed
        find()
        folder = pathlib.Path(sys.path[0])
        shutil.rmtree(shared)
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            assert folder.exists()
            print(folder)
        """,
    )
    assert not os.path.exists(ended.stdout.strip())  # noqa: PTH110 - an empty path would be a folder


def test_a_module_of_another_sdk_is_imported_once_and_not_in_each_worker(tmp_path: Path) -> None:
    (tmp_path / "slow_sdk.py").write_text(
        "import os, pathlib\n"
        "with (pathlib.Path(__file__).parent / 'imported').open('a') as file:\n"
        "    file.write(f'{os.getpid()} ')\n"
    )
    ended = ran(
        tmp_path,
        """
        from dataflow_model.plan.functions.windowed import ForeignFn

        class Foreign(ForeignFn, dm.DoFn):
            modules = ("slow_sdk", "missing_sdk")

            def process(self, x):
                import slow_sdk
                yield os.getppid()

        servers = set()
        for run in range(3):
            with dm.Pipeline(runner=dm.LocalRunner(workers=2)) as p:
                _ = p | dm.Create(range(10)) | dm.Reshuffle() | dm.ParDo(Foreign()) | "out" >> dm.io.Collect()
            servers |= {record.value for record in p.result.collected("out")}
        print(*servers)
        """,
    )
    [server] = ended.stdout.split()
    assert (tmp_path / "imported").read_text().split() == [server]

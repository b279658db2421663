"""Which copy of the package, and which build of the core, workers in an environment of their own import."""

from __future__ import annotations

import json
import logging
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.serializers import CloudPickleSerializer

import dataflow_model as dm
from dataflow_model.plan.logical.stages import cut_into_stages
from dataflow_model.runners.engine.core.build import RECORD, CoreBuild, build_of_core
from dataflow_model.runners.spark.deployment import executors, package
from dataflow_model.runners.spark.deployment.package import INSTALLED, Package, share_package, ship_package
from tests.support.cluster.cluster import environment

EMPTY = cut_into_stages(dm.Pipeline().plan())
needs_extensions = pytest.mark.skipif(build_of_core() is not CoreBuild.COMPILED, reason="the core is not compiled here")

FIND = """
import os, sys
from pyspark.serializers import CPickleSerializer

find = CPickleSerializer().loads(sys.stdin.buffer.read())
print(find()().name)
print(sys.modules["dataflow_model"].__file__)
again = find()
assert again is find()
"""


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """An environment without the package."""
    environment(tmp_path / "bare", has_package=False)
    return tmp_path / "bare"


@pytest.fixture
def full(tmp_path: Path) -> Path:
    """An environment with the package."""
    environment(tmp_path / "full", has_package=True)
    return tmp_path / "full"


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Package:
    """The package as a session on a cluster shares it."""
    monkeypatch.setattr(package, "is_local", lambda _: False)
    session: Any = None
    return share_package(session, tmp_path / "shared")


def installed(environment: Path) -> Path:
    (folder,) = environment.glob("lib/python*/site-packages/dataflow_model")
    return folder


def found_in(environment: Path, shared: Package, tmp_path: Path) -> tuple[str, str]:
    """Return the build that a process in an environment finds, and the file of the package."""
    serializer: Any = CloudPickleSerializer  # it has no types
    command = serializer().dumps(shared.finder(build_of_core))
    ran = subprocess.run(
        [environment / "bin/python", "-c", FIND], input=command, capture_output=True, check=False, cwd=tmp_path
    )
    assert ran.returncode == 0, ran.stderr.decode()
    build, file = ran.stdout.decode().split()
    return build, file


@needs_extensions
def test_a_worker_without_the_package_runs_the_compiled_core_of_the_driver(
    bare: Path, shared: Package, tmp_path: Path
) -> None:
    build, file = found_in(bare, shared, tmp_path)
    assert build == "COMPILED"
    assert "dataflow_model-package-" in file
    assert not Path(file).exists()  # the copy of a process that is no worker ends with it


@needs_extensions
def test_a_worker_on_another_platform_runs_the_core_of_the_driver_as_python(
    bare: Path, shared: Package, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suffix, _ = package._build() or ("", ())
    monkeypatch.setattr(package, "_build", lambda: (suffix, ("glibc", "2.99")))
    assert found_in(bare, shared, tmp_path)[0] == "PYTHON"


@needs_extensions
def test_a_worker_with_the_same_package_uses_its_own_although_the_driver_s_is_sent(
    full: Path, shared: Package, tmp_path: Path
) -> None:
    build, file = found_in(full, shared, tmp_path)
    assert build == "COMPILED"
    assert Path(file).parent == installed(full)


@needs_extensions
def test_a_worker_with_the_same_package_on_another_platform_uses_its_own(
    full: Path, shared: Package, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package, "_build", lambda: ("another", ("glibc", "2.99")))
    build, file = found_in(full, shared, tmp_path)
    assert build == "COMPILED"
    assert Path(file).parent == installed(full)


@needs_extensions
def test_a_worker_whose_own_core_is_not_compiled_uses_the_driver_s(full: Path, shared: Package, tmp_path: Path) -> None:
    (installed(full) / "runners/engine/core" / RECORD).unlink()
    build, file = found_in(full, shared, tmp_path)
    assert build == "COMPILED"
    assert Path(file).parent != installed(full)


def test_a_worker_with_another_version_uses_the_driver_s(full: Path, shared: Package, tmp_path: Path) -> None:
    with (installed(full) / "micros.py").open("a") as file:
        file.write("\n# another version\n")
    assert Path(found_in(full, shared, tmp_path)[1]).parent != installed(full)


def test_a_worker_that_cannot_reach_the_shared_folder_raises_an_error_that_says_so(
    bare: Path, shared: Package, tmp_path: Path
) -> None:
    shutil.rmtree(tmp_path / "shared")
    with pytest.raises(AssertionError, match=r"errors\.SourceError: an executor on .* cannot read the package in .*\n"):
        found_in(bare, shared, tmp_path)


def test_workers_of_a_local_session_can_import_the_package() -> None:
    class Session:
        conf = {"spark.master": "local[2]"}  # noqa: RUF012

    session: Any = Session()
    assert ship_package(session) == share_package(session, Path("nowhere")) == INSTALLED
    assert executors.check_executors(session, INSTALLED, EMPTY) == ()


# What executors lack.


def looked(monkeypatch: pytest.MonkeyPatch, *found: executors._Executor) -> tuple[str, ...]:
    """Check executors on which the tasks have found something."""
    monkeypatch.setattr(executors, "_looked_at", lambda *_: found)
    session: Any = None
    return executors.check_executors(session, Package("archive.zip"), EMPTY, is_stream=True)


def found_on(host: str, **found: Any) -> executors._Executor:
    return executors._Executor(host, "/usr/bin/python3", found.pop("core", "COMPILED"), **found)


def test_executors_that_run_the_core_uncompiled_are_reported_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "dataflow_model"):
        (note,) = looked(monkeypatch, found_on("a", core="PYTHON"), found_on("b"), found_on("a", core="PYTHON"))
    assert caplog.messages == [note]
    assert note.startswith("executors run the core of dataflow_model uncompiled, about 30 times slower: a (/usr/bin/")
    assert "install this version of dataflow_model there" in note
    assert note.count("a (") == 1
    assert "b (" not in note


def test_a_clock_that_differs_from_the_drivers_is_reported_with_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    notes = looked(monkeypatch, found_on("a", clock=now - 60), found_on("b", clock=now), found_on("c", clock=now + 60))
    behind, ahead = notes
    assert re.match(r"the clock of a is at least (5|6)\d\.\d s behind the driver's, which", behind)
    assert re.match(r"the clock of c is at least (5|6)\d\.\d s ahead of the driver's, which", ahead)


def test_missing_libraries_of_executors_are_reported_with_the_machine_and_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lacking = found_on("a", core="", missing=["google.protobuf", "pendulum"])
    with pytest.raises(
        dm.UnsupportedOnRunner,
        match=r"executors lack packages that this run needs: a \(/usr/bin/python3\) lacks google.protobuf, pendulum\n"
        r"Hint: install them for the Python of the executors: pip install pendulum protobuf$",
    ):
        looked(monkeypatch, found_on("b"), lacking)


def test_a_folder_that_is_not_shared_is_reported_with_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    apart = found_on("a", unreachable={"archive.zip": "No such file or directory"})
    with pytest.raises(
        dm.SourceError,
        match=r"executors cannot read 'archive.zip', which the driver can read: a: No such file or directory\n"
        r"Hint: put the checkpoint and the inputs in a folder that the driver and all executors share",
    ):
        looked(monkeypatch, found_on("b"), apart)


LOOK = """
import sys
from pyspark.serializers import CPickleSerializer

print(CPickleSerializer().loads(sys.stdin.buffer.read())(0))
"""


def test_the_check_on_an_executor_finds_missing_libraries_and_unreadable_folders(
    bare: Path, shared: Package, tmp_path: Path
) -> None:
    serializer: Any = CloudPickleSerializer  # it has no types
    paths = [str(tmp_path / "nowhere"), str(tmp_path), __file__]
    for libraries, modules in [(["no_library", "no.library"], []), ([], ["dataflow_model.io.read", "no_connector"])]:
        look = executors._looking(shared.finder(build_of_core), libraries, modules, paths)
        ran = subprocess.run(
            [bare / "bin/python", "-c", LOOK], input=serializer().dumps(look), capture_output=True, check=True
        )
        found = executors._Executor(**json.loads(ran.stdout))
        assert found.missing == (("no_library", "no.library") if libraries else ("no_connector",))
        assert found.unreachable == {paths[0]: "No such file or directory"}
        assert found.clock == pytest.approx(time.time(), abs=60)
        assert bool(found.core) is not bool(libraries)


def test_another_version_of_python_on_an_executor_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    class Session:
        def range(self, _: int) -> Any:
            raise RuntimeError("[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12\n\tat org")

    session: Any = Session()
    with pytest.raises(
        dm.UnsupportedOnRunner,
        match=r"(?s)executors run another version of Python than the driver, which runs 3.*: 3.12\nHint: set PYSPARK_",
    ):
        executors._looked_at(session, str)

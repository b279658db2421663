"""What all tests share: hypothesis profiles, a Spark session made when first asked for, and UTC."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, settings

from dataflow_model.runners.engine.core.build import build_of_core
from tests.support.settings import REPOSITORY, SPARK_SETTINGS

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytest_plugins = ["tests.support.faults.telling", "tests.support.older_spark"]

# The machine's zone must not show anywhere. Set before the JVM and the Python workers inherit it.
os.environ["TZ"] = "UTC"
if sys.platform != "win32":
    time.tzset()

# No deadlines and no complaint about slow draws: the machine's load is not what is tested.
_CALM = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("dev", _CALM, max_examples=20)
settings.register_profile("all", _CALM, max_examples=100)
# The same examples each time: a run on a server can't be looked into.
settings.register_profile("ci", _CALM, max_examples=50, derandomize=True, database=None, print_blob=True)
settings.register_profile("ci-all", settings.get_profile("ci"), max_examples=100)
settings.register_profile("nightly", _CALM, max_examples=2_000, phases=tuple(Phase))
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))


def pytest_report_header() -> str:
    """Say whether the compiled core is what runs."""
    return f"core: {build_of_core().value}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what takes the Spark session as ``spark``, however far down it asks for it, and keep it in one process.

    Tests that ask for the session only while they run have the mark from where they are written.
    """
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
        if item.get_closest_marker("spark") is not None:
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Search no test module without an example for doctests: going through all docstrings takes seconds."""
    collectors = yield
    if b">>>" in file_path.read_bytes():
        return collectors
    return [collector for collector in collectors if type(collector) is pytest.Module]  # not that of doctests


def pytest_collection_finish() -> None:
    """Take what collecting has created out of garbage collection, which would go through it again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def repository() -> Path:
    """Return the root of the checkout."""
    return REPOSITORY


@pytest.fixture
def cases_of_the_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw as many cases in `prove` and `check_trigger` as `all` does, or 40, with which they find what tests show."""
    from dataflow_model.testing import prove
    from dataflow_model.testing.checks import trigger_checks

    cases = settings().max_examples if settings().max_examples >= settings.get_profile("all").max_examples else 40
    monkeypatch.setattr(prove, "__kwdefaults__", {"examples": cases})
    monkeypatch.setattr(trigger_checks, "_EXAMPLES", cases)
    monkeypatch.setattr(trigger_checks, "_RUNS", cases // 4)


@pytest.fixture(scope="session")
def java_home() -> str:
    """Return the home of a Java that Spark takes; skip without one, but fail where CI is to have one."""
    search = subprocess.run([REPOSITORY / "scripts/java.sh", "find"], capture_output=True, text=True, check=False)
    if search.returncode == 0:
        return search.stdout.strip()
    if os.environ.get("CI"):
        pytest.fail("no Java 17 or newer found: the tests that need Spark can't run")
    pytest.skip("needs Java 17 or newer; `scripts/java.sh advice` says how to get one")


@pytest.fixture(scope="session")
def spark(java_home: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Yield a session on two cores with RocksDB state, made when the first test asks for it."""
    # All three have to be in place before the JVM starts.
    os.environ["JAVA_HOME"] = java_home
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    folder = tmp_path_factory.mktemp("spark")
    # PySpark makes `builder` a property of the class, which mypy takes for a method.
    builder = SparkSession.builder.master("local[2]").appName("dataflow-model tests")
    for name, value in SPARK_SETTINGS.items():
        builder = builder.config(name, value)
    builder = builder.config("spark.sql.warehouse.dir", str(folder / "warehouse"))
    builder = builder.config("spark.local.dir", str(folder / "local"))
    session = builder.getOrCreate()
    yield session
    session.stop()

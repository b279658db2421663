"""The repository's own shape: links, the wheel, and that no tool meets a module under two names."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections import Counter
from pathlib import Path, PurePosixPath

import pytest

LINKS = ("examples", "runners", "triggers", "windowing")
PATHS_OF_CODE = ("dataflow_model", "tests", "benchmarks", "scripts")


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


def tool(name: str) -> Path:
    """Return a console script of this environment, whether it is activated or not."""
    return Path(sys.executable).parent / name


def folders_of_code(repository: Path) -> list[str]:
    return [name for name in PATHS_OF_CODE if (repository / name).is_dir()]


def modules_of_package(repository: Path) -> set[str]:
    return {path.relative_to(repository).as_posix() for path in (repository / "dataflow_model").rglob("*.py")}


@pytest.mark.parametrize("name", LINKS)
def test_the_links_at_the_top_lead_into_the_package(repository: Path, name: str) -> None:
    link = repository / name
    assert link.is_symlink()
    assert os.readlink(link) == f"dataflow_model/{name}"  # noqa: PTH115 - the text itself, not a Path
    assert link.resolve() == repository / "dataflow_model" / name
    assert link.is_dir()


@pytest.mark.parametrize("name", LINKS)
def test_git_stores_the_links_as_symbolic_links(repository: Path, name: str) -> None:
    if not (repository / ".git").exists():
        pytest.skip("not a git checkout")
    listed = run("git", "ls-files", "--stage", "--", name, cwd=repository).stdout
    if not listed:
        pytest.skip("not added to git yet")
    assert listed.startswith("120000 ")


def test_importing_the_package_imports_neither_pyspark_nor_an_http_client(tmp_path: Path) -> None:
    """Spark starts several Python processes for each run, which all import the package."""
    script = "import sys, dataflow_model; print([n for n in ('pyspark', 'http.client') if n in sys.modules])"
    assert run(sys.executable, "-c", script, cwd=tmp_path).stdout.strip() == "[]"


def test_what_the_processes_of_a_stream_import_does_not_import_pandas(tmp_path: Path) -> None:
    """It takes a sixth of a second; Arrow imports it when the first array is made of Python values."""
    imported = "dataflow_model.io, dataflow_model.runners.spark.sink, dataflow_model.runners.spark.stages"
    script = f"import sys, {imported}; print('pandas' in sys.modules)"
    assert run(sys.executable, "-c", script, cwd=tmp_path).stdout.strip() == "False"


def test_the_links_cannot_be_imported_outside_of_the_checkout(tmp_path: Path) -> None:
    script = f"import importlib.util as u; print([n for n in {LINKS!r} if u.find_spec(n)])"
    assert run(sys.executable, "-c", script, cwd=tmp_path).stdout.strip() == "[]"


def test_the_wheel_holds_every_module_once_and_nothing_else(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATAFLOW_MODEL_COMPILED", "no")  # compiling takes a minute
    source = tmp_path / "source"
    leave_out = shutil.ignore_patterns(".*", "__pycache__", "build", "data", "*.egg-info", "spark-warehouse")
    shutil.copytree(repository, source, symlinks=True, ignore=leave_out)
    pip: list[str] = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet"]
    built = run(*pip, "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path, source, cwd=tmp_path)
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    content = [name for name in names if ".dist-info/" not in name]
    assert Counter(content).most_common(1)[0][1] == 1
    assert {PurePosixPath(name).parts[0] for name in content} == {"dataflow_model"}
    assert {name for name in content if name.endswith(".py")} == modules_of_package(repository)
    assert "dataflow_model/py.typed" in content
    assert content.count("dataflow_model/demo/flights.parquet") == 1
    assert "dataflow_model/runners/spark/deployment/log4j2.properties" in content
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_ruff_sees_every_module_once(repository: Path) -> None:
    done = run(tool("ruff"), "check", "--show-files", ".", cwd=repository)
    assert done.returncode == 0, done.stderr
    seen = [Path(line).relative_to(repository).as_posix() for line in done.stdout.splitlines()]
    modules = {name for name in seen if name.endswith(".py")}
    assert modules_of_package(repository) <= modules
    assert not [name for name in modules if name.startswith(tuple(f"{link}/" for link in LINKS))]


@pytest.mark.parametrize("link", LINKS)
def test_ruff_leaves_out_a_link_even_when_it_is_named(repository: Path, link: str) -> None:
    done = run(tool("ruff"), "check", "--show-files", "--force-exclude", link, cwd=repository)
    assert ".py" not in done.stdout


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("statement", ["import {}", "from {} import anything"])
def test_ruff_refuses_an_import_through_a_link(repository: Path, link: str, statement: str) -> None:
    text = statement.format(link)
    command = [str(tool("ruff")), "check", "--select", "TID251", "--stdin-filename", "dataflow_model/example.py", "-"]
    done = subprocess.run(command, cwd=repository, input=text, capture_output=True, text=True, check=False)
    assert "TID251" in done.stdout
    assert f"dataflow_model.{link}" in done.stdout


@pytest.mark.slow
def test_mypy_sees_every_module_once(repository: Path) -> None:
    command = [sys.executable, "-m", "mypy", "--verbose", "--no-incremental", *folders_of_code(repository)]
    done = run(*command, cwd=repository)
    modules = re.findall(r"Found source: +BuildSource\(path='([^']+)', module='([^']+)'", done.stderr)
    paths = [Path(path).as_posix() for path, _ in modules]
    assert modules_of_package(repository) <= set(paths)
    assert not [path for path in paths if path.startswith(tuple(f"{link}/" for link in LINKS))]
    assert Counter(module for _, module in modules).most_common(1)[0][1] == 1
    assert "found twice" not in done.stdout


@pytest.mark.slow
def test_pyright_sees_every_module_once(repository: Path) -> None:
    done = run(tool("pyright"), "--verbose", cwd=repository)
    listed = [line.strip() for line in done.stdout.splitlines() if line.strip().startswith(str(repository))]
    names = [Path(line).relative_to(repository).as_posix() for line in listed if line.endswith(".py")]
    assert not [name for name in names if name.startswith(tuple(f"{link}/" for link in LINKS))]


def test_pytest_takes_no_module_from_a_link(repository: Path) -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "--quiet", "-p", "no:cacheprovider", *LINKS]
    done = run(*command, cwd=repository)
    assert "no tests collected" in done.stdout, done.stdout


def test_make_help_lists_every_target(repository: Path) -> None:
    text = (repository / "Makefile").read_text(encoding="utf-8")
    phony = re.search(r"^\.PHONY: (.+)$", text, flags=re.MULTILINE)
    assert phony is not None
    targets = set(phony[1].split()) - {"docs-set-up", "set-up", "spark-classes"}  # done by the others
    assert {"demo", "test", "test-all", "check", "bench", "docs", "help"} <= targets
    printed = run("make", "--no-print-directory", cwd=repository).stdout
    assert set(re.findall(r"^  make (\S+) +\S", printed, flags=re.MULTILINE)) == targets


def test_releases_have_a_wheel_for_each_supported_python(repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))
    classifiers = [line.rpartition(" ")[2] for line in project["project"]["classifiers"]]
    versions = [version for version in classifiers if version.startswith("3.")]
    settings = project["tool"]["cibuildwheel"]
    assert settings["build"] == [f"cp{version.replace('.', '')}-*" for version in versions]
    assert {"linux", "macos"} <= settings.keys()
    assert f'supported="{" ".join(versions)}"' in (repository / "scripts/wheels.sh").read_text(encoding="utf-8")


def test_the_package_is_marked_as_typed(repository: Path) -> None:
    assert (repository / "dataflow_model" / "py.typed").is_file()


@pytest.mark.parametrize(
    "script",
    [
        ".ci/run",
        "scripts/set_up.sh",
        "scripts/java.sh",
        "scripts/test_versions.sh",
        "scripts/try_wheel.sh",
        "scripts/wheels.sh",
    ],
)
def test_shell_scripts_are_executable_and_parse(repository: Path, script: str) -> None:
    path = repository / script
    assert os.access(path, os.X_OK)
    assert run("bash", "-n", path, cwd=repository).returncode == 0

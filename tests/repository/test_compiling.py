"""Compiling the core: an installation compiles only what has changed since the one before, and says how far it is."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CORE = Path("dataflow_model/runners/engine/core")
COMPILER = """\
#!/bin/sh
# Write what is asked for, and say that it was.
echo "$@" >>"$(dirname "$0")/calls.txt"
while [ $# -gt 1 ]; do
    if [ "$1" = -o ]; then echo built >"$2"; fi
    shift
done
"""


class Clone:
    """A clone with one module to compile, and a compiler that only counts its calls."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.core = folder / CORE

    def build(self, *options: str, compiler: str = "./compiler", **variables: str) -> tuple[list[str], str]:
        """Build the core; return the modules that were compiled for it, and what was printed."""
        calls = self.folder / "calls.txt"
        calls.unlink(missing_ok=True)
        done = subprocess.run(
            [sys.executable, "setup.py", "--quiet", "build_ext", *options],
            cwd=self.folder, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
            env={"PATH": "/usr/bin:/bin", "CC": compiler, "LDSHARED": f"{compiler} -shared", **variables},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        lines = calls.read_text().splitlines() if calls.exists() else []
        compiled = sorted(Path(line.split(" -c ")[1].split()[0]).stem for line in lines if " -c " in line)
        return compiled, done.stderr


@pytest.fixture(scope="module")
def built(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str], str]:
    """Build a clone for the first time; return its folder, and what `Clone.build` returned."""
    clone = Clone(tmp_path_factory.mktemp("clone"))
    clone.core.mkdir(parents=True)
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(repository / name, clone.folder)
    for name in ("__init__.py", "build.py", "integers.py", "integers.pxd"):
        shutil.copy(repository / CORE / name, clone.core)
    (clone.folder / "compiler").write_text(COMPILER)
    (clone.folder / "compiler").chmod(0o755)
    return clone.folder, *clone.build("--inplace")


@pytest.fixture
def clone(built: tuple[Path, list[str], str], tmp_path: Path) -> Clone:
    """Return a copy of the clone that was built once."""
    return Clone(shutil.copytree(built[0], tmp_path / "clone"))


def test_the_first_installation_compiles_everything_and_says_how_far_it_is(built: tuple[Path, list[str], str]) -> None:
    folder, compiled, said = built
    assert compiled == ["integers", "shared_code"]
    assert "Translating 2 modules of the core to C, then compiling them: about a minute in all" in said
    assert "[ 1/2] " in said
    assert "[ 2/2] " in said
    assert len(list((folder / CORE).glob("*.so"))) == 2
    assert (folder / CORE / "compiled.txt").is_file()


def test_another_installation_compiles_nothing(clone: Clone) -> None:
    for options in ([], ["--inplace"]):  # one with other extras; an editable one
        compiled, said = clone.build(*options)
        assert compiled == []
        assert said.count("has not changed") == 2
    assert len(list(clone.core.glob("*.so"))) == 2


def test_a_change_of_the_source_compiles_what_it_changes(clone: Clone) -> None:
    with (clone.core / "integers.py").open("a") as file:
        file.write("\n\ndef added():\n    return 1\n")
    compiled, said = clone.build("--inplace")
    assert compiled == ["integers"]
    assert "shared_code: has not changed" in said


def test_other_commands_compile_everything_again(clone: Clone) -> None:
    assert clone.build(CFLAGS="-O3")[0] == ["integers", "shared_code"]


def test_a_compiler_that_fails_leaves_a_core_that_runs_as_python_and_says_so(clone: Clone) -> None:
    compiled, said = clone.build("--inplace", compiler="false")
    assert compiled == []
    assert (
        "The core of dataflow_model is not compiled, and runs about 30 times slower: the C compiler is missing" in said
    )
    assert list(clone.core.glob("*.so")) == []
    assert not (clone.core / "compiled.txt").exists()

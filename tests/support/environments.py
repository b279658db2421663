"""Environments of their own: the built package with its declared dependencies, and nothing else."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")


def build(repository: Path, target: Path) -> tuple[Path, Path]:
    """Build the source distribution from a copy of the checkout and the wheel from that, without a network."""
    source = target / "source"
    leave_out = shutil.ignore_patterns(".*", "__pycache__", "build", "*.egg-info", "spark-warehouse", "demo.png")
    shutil.copytree(repository, source, symlinks=True, ignore=leave_out)
    make = f"from setuptools import build_meta; build_meta.build_sdist({str(target)!r})"
    _run(sys.executable, "-c", make, cwd=source)
    shutil.rmtree(source)
    (sdist,) = target.glob("*.tar.gz")
    _run(*PIP, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", target, sdist, cwd=target)
    (wheel,) = target.glob("*.whl")
    return sdist, wheel


def environment_of(wheel: Path, target: Path, extras: Collection[str] = ()) -> Path:
    """Make a virtual environment with a wheel, and links to what pip would install for it; return its `bin`."""
    venv.create(target, with_pip=False)
    binaries = target / "bin"
    _run(*PIP, "--python", target, "install", "--quiet", "--no-deps", "--no-index", wheel, cwd=target)
    (packages,) = target.glob("lib/python*/site-packages")
    (metadata,) = packages.glob("dataflow_model-*.dist-info")
    own = importlib.metadata.PathDistribution(metadata)
    for distribution in _needed(own, extras, {}).values():
        for name in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
            if not (packages / name).exists():
                (packages / name).symlink_to(Path(str(distribution.locate_file(name))).resolve())
    return binaries


def run_in(binaries: Path, *command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a program of an environment as its user would, with nothing of the checkout on the path."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK", "SPARK"))}
    environment = {**kept, "PATH": os.pathsep.join((str(binaries), os.environ["PATH"]))}
    return subprocess.run(
        [binaries / command[0], *command[1:]],
        cwd=cwd, env=environment, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def run_alone(binaries: Path, script: str, *, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a script by the Python of an environment whose programs are the only ones on the path: no compiler is."""
    return subprocess.run(
        [binaries / "python", script],
        cwd=cwd, env={"PATH": str(binaries), "HOME": str(cwd)}, capture_output=True, text=True, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


def _needed(
    distribution: importlib.metadata.Distribution,
    extras: Collection[str],
    needed: dict[str, importlib.metadata.Distribution],
) -> dict[str, importlib.metadata.Distribution]:
    """Add what a distribution requires, and what that requires in turn."""
    for requirement in _requirements(distribution.requires or (), extras):
        name = canonicalize_name(requirement.name)
        if name == "dataflow-model":
            _needed(distribution, requirement.extras, needed)
        elif name not in needed:
            needed[name] = importlib.metadata.distribution(name)
            _needed(needed[name], requirement.extras, needed)
    return needed


def _requirements(lines: Iterable[str], extras: Collection[str]) -> list[Requirement]:
    requirements = [Requirement(line) for line in lines]
    contexts = [{"extra": extra} for extra in ("", *extras)]
    return [
        requirement
        for requirement in requirements
        if requirement.marker is None or any(map(requirement.marker.evaluate, contexts))
    ]


def _run(*command: str | Path, cwd: Path) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr

"""How ``scripts/libraries.py`` installs libraries on Beam, with a package of this test in their place."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from scripts import beam, libraries

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def requirements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file of requirements with a small package."""
    package = tmp_path / "package"
    package.mkdir()
    (package / "pyproject.toml").write_text(
        '[project]\nname = "small"\nversion = "1"\n[tool.setuptools]\npy-modules = ["small"]\n'
    )
    (package / "small.py").write_text("")
    path = tmp_path / "small.txt"
    path.write_text(f"{package}\n")
    monkeypatch.setattr(libraries, "LIBRARIES", {"small": path})
    monkeypatch.setenv("PIP_NO_BUILD_ISOLATION", "false")
    return path


def test_a_library_is_installed_once_and_again_with_other_requirements(requirements: Path, tmp_path: Path) -> None:
    folder = libraries.installed("small", tmp_path / "all")
    assert (folder / "small.py").exists()
    (folder / "note").write_text("kept while nothing changes")
    assert libraries.installed("small", tmp_path / "all") == folder
    assert (folder / "note").exists()
    requirements.write_text(requirements.read_text() + "# changed\n")
    libraries.installed("small", tmp_path / "all")
    assert not (folder / "note").exists()


def test_each_library_is_a_suite_and_its_versions_are_pinned() -> None:
    assert libraries.LIBRARIES
    assert libraries.LIBRARIES.keys() <= beam.SUITES.keys()
    for path in libraries.LIBRARIES.values():
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
        assert [line for line in lines if not re.fullmatch(r"[a-z0-9_-]+==[0-9.]+(\.post[0-9]+)?", line)] == []

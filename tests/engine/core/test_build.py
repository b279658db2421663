"""The core's modules: their examples, and that an extension is never older than its source."""

from __future__ import annotations

import doctest
import importlib
import pathlib

import pytest

from dataflow_model.runners.engine import core
from dataflow_model.runners.engine.core.build import CoreBuild, build_of_core, compiled_modules, source_digest

FOLDER = pathlib.Path(str(core.__file__)).parent
MODULES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")


@pytest.mark.parametrize("name", MODULES)
def test_the_doctests_of_each_module_of_the_core_pass(name: str) -> None:
    module = importlib.import_module(f"{core.__name__}.{name}")
    assert doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE).failed == 0


def test_a_loaded_extension_was_compiled_from_the_source_beside_it() -> None:
    assert build_of_core() is not CoreBuild.STALE


def test_the_digest_of_the_source_changes_with_any_of_its_files(tmp_path: pathlib.Path) -> None:
    for name in compiled_modules():
        for suffix in (".py", ".pxd"):
            (tmp_path / (name + suffix)).write_text((FOLDER / (name + suffix)).read_text(encoding="utf-8"))
    assert source_digest(tmp_path) == source_digest()
    with (tmp_path / "cells.pxd").open("a") as file:
        file.write("# changed\n")
    assert source_digest(tmp_path) != source_digest()

"""Checkpoints name the package's own classes by names that stay, so that its modules can be moved and renamed."""

from __future__ import annotations

import enum
import os
import re
import shutil
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from dataflow_model import durable
from dataflow_model.plan.columns.rows import named_row_type
from dataflow_model.runners.engine.functions.value_identity import encode_value
from dataflow_model.runners.sharded.checkpoint.durable import FORMAT
from dataflow_model.transforms.joining.as_of_joins import AsOfSides
from dataflow_model.values import pickles
from dataflow_model.values.keys import encode_key
from tests.support.faults.damaged_local import StoppedRun
from tests.support.micro_batches import Run
from tests.support.settings import REPOSITORY
from tests.support.upgrade.joins import JOINS, joins
from tests.support.upgrade.kept import CUT, FIXTURES, PIPELINES, STEPS, keep, write_rows

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

ROW = named_row_type((("key", "str"), ("n", "int")))
OWN = [
    dm.IntervalWindow(0, 60),
    dm.GlobalWindow(),
    dm.EventTime(5),
    dm.ProcessingTime(5),
    dm.duration("5 seconds"),
    dm.PaneTiming.LATE,
    dm.TimeDomain.EVENT_TIME,
    dm.DropReason.LATE,
    ROW("a", 1),
    ROW,
]
"""Values of the package's own types, which users' state may contain."""
JOINED = [
    AsOfSides([5], ["a"], [None], [4], [1]),
]
"""What joins by event time keep in state."""
MODULE = re.compile(rb"dataflow_model(?:\.[a-z_]+)+")
DURABLE = b"dataflow_model.durable"


def modules_in(contents: Iterable[bytes]) -> set[bytes]:
    return {module for content in contents for module in MODULE.findall(content)} - {DURABLE}


def test_every_durable_name_refers_to_the_class_that_has_it() -> None:
    assert {name: durable.name_of(durable.named(name)) for name in durable.NAMES} == {
        name: name for name in durable.NAMES
    }


def test_an_unknown_durable_name_is_refused() -> None:
    pickled = pickles.dump(dm.GlobalWindow()).replace(b"global window", b"future window")
    with pytest.raises(dm.CheckpointMismatch, match=r"a stored value is a 'future window'.*\nHint: "):
        pickles.load(pickled)


@pytest.mark.parametrize("value", OWN, ids=repr)
def test_values_of_this_package_are_stored_without_their_modules(value: Any) -> None:
    within = {"deep": [value]}
    pickled = pickles.dump(within)
    assert pickles.load(pickled) == within
    assert not modules_in([pickled, encode_value(within)])
    assert isinstance(value, type) or not modules_in([encode_key(value)])


@pytest.mark.parametrize("value", JOINED, ids=lambda value: type(value).__name__)
def test_what_joins_keep_is_stored_without_modules(value: Any) -> None:
    pickled = pickles.dump([value])
    assert pickles.load(pickled) == [value]
    assert not modules_in([pickled])


def test_flags_and_members_of_users_enums_are_restored() -> None:
    flags = re.IGNORECASE | re.DOTALL
    assert pickles.load(pickles.dump([flags, Colour.RED])) == [flags, Colour.RED]


class Colour(enum.Enum):
    """An enum of a user's."""

    RED = 1


@pytest.mark.parametrize("ending", ["stopped", "upgraded"])
def test_no_checkpoint_refers_to_a_module_of_the_package(ending: str, tmp_path: Path) -> None:
    kept = StoppedRun(tmp_path, ending).kept
    contents = [path.read_bytes() for path in kept.rglob("*") if path.is_file()]
    assert any(DURABLE in content for content in contents)
    assert not modules_in(contents)


def test_no_archived_checkpoint_refers_to_a_module_of_the_package() -> None:
    with zipfile.ZipFile(FIXTURES / f"format-{FORMAT}.zip") as archive:
        contents = [archive.read(name) for name in archive.namelist()]
    assert any(DURABLE in content for content in contents)
    assert not modules_in(contents)


GO_ON = """
import pathlib, sys
from tests.support.upgrade.joins import JOINS, joins
from tests.support.upgrade.kept import PIPELINES, SINKS, kept, unpack

folder, title = pathlib.Path(sys.argv[1]), sys.argv[2]
if title == "joins":
    build, sinks = joins, JOINS
else:
    unpack({format}, folder)
    build, sinks = PIPELINES[title], SINKS[title]
run = kept(folder / title, build(folder / "rows"))
run.finish()
print(sorted((sink, repr(record.value), record.is_retraction) for sink in sinks for record in run.collected(sink)))
"""


@pytest.mark.parametrize("title", PIPELINES)
def test_a_version_whose_modules_have_other_names_resumes_from_a_checkpoint(title: str, tmp_path: Path) -> None:
    renamed = copy_with_other_modules(tmp_path / "renamed")
    results = [go_on(root, tmp_path / root.name, title) for root in (renamed, REPOSITORY)]
    assert results[0] == results[1]
    assert len(results[0]) > len("[]\n")


def test_a_version_whose_modules_have_other_names_resumes_joins(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows")
    keep(Run(joins(tmp_path / "rows"), tmp_path / "joins", CUT).steps(STEPS))
    contents = [path.read_bytes() for path in (tmp_path / "joins").rglob("*") if path.is_file()]
    assert not modules_in(contents)
    renamed = copy_with_other_modules(tmp_path / "renamed")
    results = []
    for root in (renamed, REPOSITORY):
        work = tmp_path / f"work of {root.name}"
        shutil.copytree(tmp_path / "rows", work / "joins" / "rows")
        shutil.copytree(tmp_path / "joins", work / "joins" / "joins")
        results.append(go_on(root, work, "joins"))
    assert results[0] == results[1]
    assert all(sink in results[0] for sink in JOINS)


def copy_with_other_modules(folder: Path) -> Path:
    """Return a copy of the package and of the tests' helpers in which each module of a named class has another name."""
    for name in ("dataflow_model", "tests"):
        ignored = shutil.ignore_patterns("*.so", "__pycache__", "compiled.txt", "fixtures")
        shutil.copytree(REPOSITORY / name, folder / name, ignore=ignored, symlinks=True)
    (folder / "tests/upgrade/fixtures").symlink_to(FIXTURES)
    modules = {path.partition(":")[0] for path in durable.NAMES.values()}
    renamed = "|".join(map(re.escape, sorted(modules, key=len, reverse=True)))
    dotted = re.compile(rf"\b({renamed})\b(?!\.)")
    imported = re.compile(
        "|".join(
            rf"^(?P<before{number}>\s*from {re.escape(package)} import [\w, ]*?)\b{name}\b"
            for number, (package, _, name) in enumerate(module.rpartition(".") for module in sorted(modules))
        ),
        flags=re.MULTILINE,
    )
    for path in folder.rglob("*.py"):
        if path.is_symlink():
            continue
        text = path.read_text(encoding="utf-8")
        changed = imported.sub(lambda found: f"{found[0]}_moved as {found[0].rpartition(' ')[2]}", text)
        changed = dotted.sub(r"\1_moved", changed)
        if changed != text:
            path.write_text(changed, encoding="utf-8")
    for module in modules:
        path = folder.joinpath(*module.split(".")).with_suffix(".py")
        path.rename(path.with_stem(f"{path.stem}_moved"))
    return folder


def go_on(root: Path, folder: Path, title: str) -> str:
    """Go on from a kept checkpoint with the package in a folder, and return what the run has output."""
    work = folder / title
    work.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-c", GO_ON.format(format=FORMAT), str(work), title]
    environment = {**os.environ, "PYTHONPATH": str(root), "DATAFLOW_MODEL_COMPILED": "no"}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout

"""Classes of a program's `__main__`, in a worker process with another `__main__`."""

from __future__ import annotations

import fractions
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import dataflow_model as dm
from dataflow_model.values.pickles import dump, load

if TYPE_CHECKING:
    from pathlib import Path

CLASSES = """
import enum, pathlib, pickle, sys
from dataflow_model.values import pickles

class Path:
    def __init__(self, number):
        self.number = number

    def __eq__(self, other):
        return isinstance(other, Path) and self.number == other.number

class Outer:
    class Inner(enum.Enum):
        ONE = 1

Inner = Outer.Inner

def local():
    class Local:
        pass
    return Local()

"""
PROGRAM = (
    CLASSES
    + """
folder = pathlib.Path(sys.argv[1])
given = [Path(1), Inner.ONE]
(folder / "program").write_bytes(pickles.dump_with_classes([lambda number: [Path(number), Inner.ONE], local()]))
(folder / "given").write_bytes(pickle.dumps(given))
"""
)
WORKER = """
import pathlib, pickle, sys
from pathlib import Path
from dataflow_model.values import main_classes, pickles

folder = pathlib.Path(sys.argv[1])
(make, local), classes = pickles.load_with_classes((folder / "program").read_bytes())
main_classes.stand_in_for_main(classes)
values = make(1)
assert pickles.load((folder / "given").read_bytes()) == values
assert Path is pathlib.Path, "the functions of this module go on with its own names"
stored = pickles.dump(values)
assert stored == pickle.dumps(values, protocol=5), "a pickle with names, not with classes"
assert pickles.load(pickles.dump([values, lambda: 1]))[0] == values
assert type(pickles.load(pickles.dump(local))) is type(local), "within one process, other classes are known as before"
(folder / "stored").write_bytes(stored)
print(sorted(classes))
"""
LATER = (
    CLASSES
    + """
assert pickles.load((pathlib.Path(sys.argv[1]) / "stored").read_bytes()) == [Path(1), Inner.ONE]
"""
)


def ran(code: str, folder: Path) -> str:
    return subprocess.run(
        [sys.executable, "-c", code, folder], capture_output=True, text=True, check=True, cwd=folder
    ).stdout.strip()


def test_a_worker_refers_to_classes_of_the_main_program_by_name_as_the_program_itself_does(tmp_path: Path) -> None:
    ran(PROGRAM, tmp_path)
    assert ran(WORKER, tmp_path) == "['Outer.Inner', 'Path']"
    ran(LATER, tmp_path)


def test_state_of_a_class_that_the_program_no_longer_has_is_refused_by_name() -> None:
    stored = dump(fractions.Fraction(1, 2)).replace(b"Fraction", b"Friction")
    with pytest.raises(
        dm.CheckpointMismatch,
        match=r"^a stored value is of the class or function 'Friction' of the module 'fractions', which "
        r"cannot be found here: .*\nHint: keep classes of stored values where they are",
    ):
        load(stored)


def test_a_process_that_has_the_classes_keeps_its_main_module() -> None:
    from dataflow_model.values.main_classes import stand_in_for_main

    main = sys.modules["__main__"]
    stand_in_for_main({})
    assert sys.modules["__main__"] is main
    assert pickle.loads(dump(3)) == 3

"""Copies of users' objects: everything that can change is copied, functions stay the same."""

from __future__ import annotations

import functools
import queue
import sys
import threading
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

import dataflow_model as dm
from dataflow_model.plan.functions.dofn import MapFn
from dataflow_model.values.copies import copied

if TYPE_CHECKING:
    import pytest


class Held:
    """An object of a user's, with the attributes that it is given."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)

    def me(self) -> Any:
        return self

    def __call__(self, value: Any) -> Any:
        return value

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


def copy_of(value: Any) -> Any:
    copies, shared = copied((value,))
    assert not shared
    return copies[0]


def test_an_object_is_copied_with_all_that_it_holds() -> None:
    inner = Held(rows=[{"n": {1, 2}}], array=np.arange(3))
    copy = copy_of(Held(inner=inner, again=inner))
    assert copy.inner is copy.again
    copy.inner.rows[0]["n"].add(3)
    copy.inner.array[0] = 7
    assert (inner.rows, inner.array.tolist()) == ([{"n": {1, 2}}], [0, 1, 2])


def test_functions_and_the_objects_in_their_closures_are_not_copied() -> None:
    seen: list[int] = []
    held = Held()

    def closure(x: int) -> None:
        seen.append(x)

    for function in (seen.append, held.me, functools.partial(print, seen), closure):
        copies, _ = copied((MapFn(function), (function, [1]), {"then": function}, Held(then=function)))
        assert copies[0].fn is copies[1][0] is copies[2]["then"] is copies[3].then is function


def test_an_object_that_is_called_as_a_function_is_copied() -> None:
    held = Held(seen=[])
    assert copy_of(MapFn(held)).fn.seen is not held.seen


def test_a_bound_method_of_a_copied_object_is_bound_to_the_copy() -> None:
    held = Held(seen=[])

    def closure(x: int) -> int:
        held.seen.append(x)
        return len(held.seen) if x == 0 else closure(x - 1)

    for name, function in {"me": held.me, "add": held.seen.append, "closure": closure}.items():
        held.__dict__[name] = function
        held.__dict__[f"partial {name}"] = functools.partial(function)
    copy = copy_of(held)
    assert copy.me() is vars(copy)["partial me"]() is copy
    copy.add(4)
    vars(copy)["partial add"](3)
    copy.closure(2)
    assert (copy.seen, held.seen) == ([4, 3, 2, 1, 0], [])


def test_classes_modules_and_standard_streams_are_not_copied() -> None:
    class Local:
        pass

    copy = copy_of(Held(kind=Local, module=np, out=sys.stdout, cached=functools.cache(len), side=dm.PaneTiming.LATE))
    assert copy.kind is Local
    assert copy.module is np
    assert copy.out is sys.stdout
    assert copy.side is dm.PaneTiming.LATE


def test_an_attribute_that_cannot_be_copied_is_shared_as_a_whole() -> None:
    held = Held(lock=threading.Lock(), event=threading.Event(), locks={"a": threading.Lock()}, seen=[])
    held.__dict__["cycle"] = {"self": held}
    [copy], shared = copied((held,))
    for name in ("lock", "event"):
        assert getattr(copy, name) is getattr(held, name)
        assert f"the attribute {name!r} of Held" in shared
    assert copy.locks["a"] is held.__dict__["locks"]["a"]
    assert copy.seen is not held.__dict__["seen"]
    assert copy.cycle["self"] is copy


def test_an_argument_that_cannot_be_copied_is_shared_as_a_whole_and_the_others_are_not() -> None:
    results: queue.Queue[int] = queue.Queue()
    rows = [1]
    [copies], shared = copied(((results, rows),))
    assert copies[0] is results
    assert copies[1] is not rows
    assert shared == "the Queue"


def test_an_object_whose_class_does_not_restore_it_is_shared() -> None:
    class Broken(Exception):
        def __init__(self, first: int, second: int) -> None:
            super().__init__(first)

    broken = Broken(1, 2)
    [copy], shared = copied(([broken],))
    assert copy[0] is broken
    assert shared.startswith("an object (TypeError: ")


def test_large_arrays_are_copied_once(monkeypatch: pytest.MonkeyPatch) -> None:
    copies: list[int] = []

    def counted(size: Any) -> bytearray:
        copies.append(memoryview(size).nbytes)
        return bytearray(size)

    monkeypatch.setattr("dataflow_model.values.copies.bytearray", counted, raising=False)
    array = np.arange(100_000)
    assert (copy_of(Held(array=array)).array == array).all()
    assert copies == [array.nbytes]


@attrs.frozen
class Slotted:
    rows: list[int]


def test_frozen_objects_are_copied_since_their_fields_may_be_mutable() -> None:
    slotted = Slotted([1])
    assert copy_of(slotted) == slotted
    assert copy_of(slotted).rows is not slotted.rows

"""How the state of a grouping is pickled: all fields, in this form and in that of earlier versions."""

from __future__ import annotations

import pickle
from typing import Any

import attrs
import pytest

from dataflow_model.runners.engine.cells import Cell, KeyState, Standing
from dataflow_model.time import EventTime
from dataflow_model.triggers import TimeDomain, TreeState
from dataflow_model.values import GLOBAL_WINDOW, PaneInfo, PaneTiming

INFO = PaneInfo(index=1, on_time_index=2, is_first=False, is_last=False, timing=PaneTiming.LATE, trigger="Always()")
STANDING = Standing(GLOBAL_WINDOW, "value", 5, INFO)
TREE = TreeState({(1, "tag"): 2}, {(3, ""): (TimeDomain.EVENT_TIME, 50.0, EventTime(4))}, finished=1)
CELL = Cell(
    "accumulator",
    TREE,
    pending=1,
    pending_on_time=True,
    index=2,
    on_time_index=3,
    had_on_time=True,
    has_closed=True,
    earliest=4,
    latest=5,
    held=6,
    standing=(STANDING,),
    history=(INFO,),
)
KEY = KeyState("key", {GLOBAL_WINDOW: CELL}, {GLOBAL_WINDOW: CELL})
STORED = [INFO, STANDING, TREE, CELL, KEY]


def fields_of(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in attrs.fields(type(value))}


@pytest.mark.parametrize("value", STORED, ids=lambda value: type(value).__name__)
def test_every_field_of_stored_state_is_pickled(value: Any) -> None:
    defaults = {field.name: field.default for field in attrs.fields(type(value))}
    assert all(stored != defaults[name] for name, stored in fields_of(value).items())
    assert fields_of(pickle.loads(pickle.dumps(value))) == fields_of(value)


@pytest.mark.parametrize("value", STORED, ids=lambda value: type(value).__name__)
def test_stored_state_is_read_as_earlier_versions_have_pickled_it(value: Any) -> None:
    by_attribute = object.__new__(type(value))
    by_attribute.__setstate__(value.__getstate__())
    assert fields_of(by_attribute) == fields_of(value)


def test_the_state_of_a_tree_is_read_from_pickles_of_four_values() -> None:
    assert TreeState(TREE.store, TREE.timers, TREE.finished, True) == TREE

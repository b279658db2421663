"""How objects in the state of a grouping are pickled: with all fields."""

from __future__ import annotations

import pickle
from typing import Any

import attrs
import pytest

from dataflow_model.time import EventTime
from dataflow_model.triggers import TimeDomain, TreeState
from dataflow_model.values import PaneInfo, PaneTiming

INFO = PaneInfo(index=1, on_time_index=2, is_first=False, is_last=False, timing=PaneTiming.LATE, trigger="Always()")
TREE = TreeState({(1, "tag"): 2}, {(3, ""): (TimeDomain.EVENT_TIME, 50.0, EventTime(4))}, finished=1)
STORED = [INFO, TREE]


def fields_of(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in attrs.fields(type(value))}


@pytest.mark.parametrize("value", STORED, ids=lambda value: type(value).__name__)
def test_every_field_of_stored_state_is_pickled(value: Any) -> None:
    defaults = {field.name: field.default for field in attrs.fields(type(value))}
    assert all(stored != defaults[name] for name, stored in fields_of(value).items())
    assert fields_of(pickle.loads(pickle.dumps(value))) == fields_of(value)

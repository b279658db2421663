"""Records that tests write to tables."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import dataflow_model as dm
from dataflow_model.plan.columns.records import Record
from dataflow_model.values import GLOBAL_WINDOW, NO_FIRING

PAIRS = pa.schema({"key": pa.string(), "value": pa.int64()})


def record(position: int, value: Any, *, is_retraction: bool = False) -> Record:
    return Record(value, dm.EventTime(0), GLOBAL_WINDOW, NO_FIRING, is_retraction, order=(position,))

"""The values in a pipeline: windows, panes, and the deterministic encoding of keys.

Begin with `windows`, `panes` and `keys`; `pickles` and `copies` are about values that processes exchange.
"""

from __future__ import annotations

from dataflow_model.values.keys import are_alike, encode_key, shard_hash
from dataflow_model.values.pairs import as_pair, checked_pairs, is_pair
from dataflow_model.values.panes import NO_FIRING, Pane, PaneInfo, PaneTiming
from dataflow_model.values.windows import (
    GLOBAL_WINDOW,
    GlobalWindow,
    IntervalWindow,
    Window,
    by_bounds,
    check_within_time,
    encode_window,
    interval,
)

__all__ = [
    "GLOBAL_WINDOW",
    "NO_FIRING",
    "GlobalWindow",
    "IntervalWindow",
    "Pane",
    "PaneInfo",
    "PaneTiming",
    "Window",
    "are_alike",
    "as_pair",
    "by_bounds",
    "check_within_time",
    "checked_pairs",
    "encode_key",
    "encode_window",
    "interval",
    "is_pair",
    "shard_hash",
]

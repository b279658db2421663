"""Vectorised kernels, which do on whole columns what the compiled core does element by element.

They cover only the common cases, described by `supports` (types) and `fits` (values); the core takes all others, with
the same results. The kernels are pure functions.
"""

from dataflow_model.runners.engine.columns.accumulators import COLUMNS, finish, fits, supports
from dataflow_model.runners.engine.columns.allocation import keep_freed_memory
from dataflow_model.runners.engine.columns.keys import group_positions, key_codes, shard_of, split_by_shard
from dataflow_model.runners.engine.columns.partials import merge_partials, partials
from dataflow_model.runners.engine.columns.sessions import merge_sessions, session_partials

__all__ = [
    "COLUMNS",
    "finish",
    "fits",
    "group_positions",
    "keep_freed_memory",
    "key_codes",
    "merge_partials",
    "merge_sessions",
    "partials",
    "session_partials",
    "shard_of",
    "split_by_shard",
    "supports",
]

"""Values as bytes, which later versions of the package still read."""

from __future__ import annotations

import io
import pickle
from typing import TYPE_CHECKING, Any, Final

import cloudpickle

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MOVED", "dump", "load"]

_PROTOCOL: Final = 5

MOVED: Final[Mapping[str, str]] = {
    "dataflow_model.io.file_writer:Staged": "dataflow_model.io.file_writer:PendingFile",
    "dataflow_model.io.table_sinks:StagedRows": "dataflow_model.io.table_sinks:PendingRows",
    "dataflow_model.runners.sharded.publishing:Staging": "dataflow_model.runners.sharded.publishing:Pending",
    "dataflow_model.runners.spark.program": "dataflow_model.runners.sharded.program",
    "dataflow_model.runners.spark.rows": "dataflow_model.runners.sharded.rows",
    "dataflow_model.runners.spark.shard_meta": "dataflow_model.runners.sharded.state.meta",
    "dataflow_model.runners.spark.shard_state": "dataflow_model.runners.sharded.state.shard",
    "dataflow_model.runners.spark.state_log": "dataflow_model.runners.sharded.state.log",
    "dataflow_model.runners.spark.upgrade_seed": "dataflow_model.runners.sharded.upgrade.seed",
    "dataflow_model.runners.spark.upgrade_state": "dataflow_model.runners.sharded.upgrade.carried",
}
"""Where classes and functions of the package that were pickled under another name are now.

A key is an old module, `"dataflow_model.old"`, or one name in it, `"dataflow_model.old:Name"`, and the value is its new
place in the same form. A pickle stores such names, so whoever moves a class whose instances are durable (state,
elements that wait, kept outputs) adds a line; the old name may not be used for anything else.
"""


def dump(value: Any) -> bytes:
    """Pickle a value; what plain pickle cannot name, such as classes of the main program, goes by value.

    Example:
        >>> load(dump({"count": 3}))
        {'count': 3}
    """
    try:
        return pickle.dumps(value, protocol=_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        by_value: bytes = cloudpickle.dumps(value, protocol=_PROTOCOL)
        return by_value


def load(pickled: bytes) -> Any:
    """Read what `dump` wrote, in this version of the package or in one whose names are in `MOVED`."""
    try:
        return pickle.loads(pickled)
    except (ImportError, AttributeError):  # a name that is not where it was: nothing slower for the others
        return _Renaming(io.BytesIO(pickled)).load()


class _Renaming(pickle.Unpickler):
    """Looks names up where they are now."""

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        moved = MOVED.get(f"{module_name}:{global_name}") or MOVED.get(module_name) or module_name
        module, _, name = moved.partition(":")
        return super().find_class(module, name or global_name)

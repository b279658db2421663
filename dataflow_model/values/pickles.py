"""Values as bytes that later versions of the package can still read."""

from __future__ import annotations

import io
import pickle
import types
from typing import TYPE_CHECKING, Any, Final

import cloudpickle

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MOVED", "dump", "dump_by_value", "load"]

_PROTOCOL: Final = 5
_REPLACED: Final = "<dynamic-code>"

MOVED: Final[Mapping[str, str]] = {
    "dataflow_model.io.file_writer:Staged": "dataflow_model.io.file_writer:PendingFile",
    "dataflow_model.io.table_sinks:StagedRows": "dataflow_model.io.table_sinks:PendingRows",
    "dataflow_model.runners.engine.lanes:ColumnValues": "dataflow_model.runners.engine.value_lanes:ColumnValues",
    "dataflow_model.runners.engine.lanes:Pairs": "dataflow_model.runners.engine.value_lanes:Pairs",
    "dataflow_model.runners.engine.lanes:RowValues": "dataflow_model.runners.engine.value_lanes:RowValues",
    "dataflow_model.runners.engine.lanes:_unpacked": "dataflow_model.runners.engine.value_lanes:_unpacked",
    "dataflow_model.runners.sharded.publishing:Staging": "dataflow_model.runners.sharded.publishing:Pending",
    "dataflow_model.runners.spark.program": "dataflow_model.runners.sharded.program",
    "dataflow_model.runners.spark.rows": "dataflow_model.runners.sharded.rows",
    "dataflow_model.runners.spark.shard_meta": "dataflow_model.runners.sharded.state.meta",
    "dataflow_model.runners.spark.shard_state": "dataflow_model.runners.sharded.state.shard",
    "dataflow_model.runners.spark.state_log": "dataflow_model.runners.sharded.state.log",
    "dataflow_model.runners.spark.upgrade_seed": "dataflow_model.runners.sharded.upgrade.seed",
    "dataflow_model.runners.spark.upgrade_state": "dataflow_model.runners.sharded.upgrade.carried",
}
"""The current names of classes and functions of the package that were once pickled under another name.

A key is an old module, `"dataflow_model.old"`, or a name in it, `"dataflow_model.old:Name"`; the value is the current
place in the same form. Pickles store these names. When you move a class whose instances are durable (state, buffered
elements, kept outputs), add a line here, and do not use the old name for anything else.
"""


def dump(value: Any) -> bytes:
    """Pickle a value; what plain pickle cannot refer to by name, such as classes of `__main__`, is pickled by value.

    Example:
        >>> load(dump({"count": 3}))
        {'count': 3}
    """
    try:
        return pickle.dumps(value, protocol=_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        return dump_by_value(value)


def dump_by_value(value: Any) -> bytes:
    """Pickle a value, with functions and classes by value where they cannot be imported by name."""
    file = io.BytesIO()
    _ByValue(file, protocol=_PROTOCOL).dump(value)
    return file.getvalue()


def load(pickled: bytes) -> Any:
    """Load a value that `dump` wrote, in this version or in an older one whose moved names are in `MOVED`."""
    try:
        return pickle.loads(pickled)
    except (ImportError, AttributeError):  # a moved name; pickles without one take the fast path above
        return _Renaming(io.BytesIO(pickled)).load()


class _ByValue(cloudpickle.Pickler):  # type: ignore[misc]  # it ships no types
    """Keeps the names of the files with the code of functions, which errors show and cloudpickle 3.1.3 replaces."""

    def reducer_override(self, obj: Any) -> Any:
        if not isinstance(obj, types.CodeType):
            return super().reducer_override(obj)
        reduced: Any = self.dispatch_table[types.CodeType](obj)
        make, arguments = reduced
        return make, tuple(obj.co_filename if argument == _REPLACED else argument for argument in arguments)


class _Renaming(pickle.Unpickler):
    """Looks up moved names at their current place."""

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        moved = MOVED.get(f"{module_name}:{global_name}") or MOVED.get(module_name) or module_name
        module, _, name = moved.partition(":")
        return super().find_class(module, name or global_name)

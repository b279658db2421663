"""The classes of records that are keys in durable state: their fields must stay as they are.

A key is scope, and belongs to a shard, by its bytes, which contain its fields by position. If the class has other
fields, or has them in another order, the same key has other bytes, and its state would never be scope.
"""

from __future__ import annotations

import itertools
import sys
from typing import TYPE_CHECKING, Any

from dataflow_model.errors import CheckpointMismatch
from dataflow_model.values.keys import RECORD_KEYS
from dataflow_model.values.record_keys import names_of_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dataflow_model.runners.engine.machines.side_join import JoinState

KeyClasses = dict[type[Any], tuple[str, ...]]
"""The fields of each class of which there are keys."""


def further_key_classes(
    known: KeyClasses, entries: Mapping[str, Mapping[bytes, Any]], joins: Iterable[JoinState] = ()
) -> KeyClasses:
    """Return the classes of the keys in state, with their fields, except those that are known.

    Args:
        known: the classes that are known.
        entries: entries by key, by the owner of the keys.
        joins: the states of `ParDo`s with changing side inputs.
    """
    sought = {name: kind for name, kind in RECORD_KEYS.items() if kind not in known and _is_found(kind)}
    if not sought:
        return {}
    joined = b"".join(itertools.chain(_bytes_of(entries), *(join.encoded() for join in joins)))
    return {kind: names_of_key(kind) or () for name, kind in sought.items() if name in joined}


def check_key_classes(stored: KeyClasses) -> None:
    """Raise unless classes of keys still have the fields with which their keys were stored.

    Raises:
        CheckpointMismatch: for a class that has changed.
    """
    for kind, names in stored.items():
        fields = names_of_key(kind) or ()
        if fields != names:
            raise CheckpointMismatch(
                f"keys of the class {kind.__qualname__!r} of the module {kind.__module__!r} are stored with the fields "
                f"{', '.join(names)}, but the class has the fields {', '.join(fields)}",
                hint="restore the fields in their order, since a key is scope by them; or start over with another "
                "checkpoint",
            )


def _bytes_of(entries: Mapping[str, Mapping[bytes, Any]]) -> Iterable[bytes]:
    """Yield keys, and what is stored in place of keys: the ids of `Deduplicate` are in segments."""
    for of_owner in entries.values():
        for key, entry in of_owner.items():
            yield key
            if isinstance(entry, bytes):
                yield entry


def _is_found(kind: type[Any]) -> bool:
    """Return whether a class can be found by its name, by which a checkpoint refers to it."""
    scope: Any = sys.modules.get(kind.__module__)
    for name in kind.__qualname__.split("."):  # `<locals>` is never found
        scope = getattr(scope, name, None)
    return scope is kind

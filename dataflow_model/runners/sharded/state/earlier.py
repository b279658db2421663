"""Stored entries as versions of the package with earlier formats wrote them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dataflow_model.runners.engine.key_store import StoredKey

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["by_owner", "completed", "in_bytes"]


def by_owner(entries: Mapping[Any, Any]) -> dict[str, dict[bytes, Any]]:
    """Return the entries of a record of the log by owner; up to format 2 they were in one dict, by owner and key.

    Example:
        >>> by_owner({("sums", b"a"): StoredKey(b"", (), None), ("counts", b"b"): None})["counts"]
        {b'b': None}
    """
    divided: dict[str, dict[bytes, Any]] = {}
    for place, entry in entries.items():
        if isinstance(place, str):
            divided[place] = entry
        else:
            owner, key = place
            divided.setdefault(owner, {})[key] = entry
    return {owner: in_bytes(of_owner) for owner, of_owner in divided.items()}


def completed(state: Any) -> Any:
    """Return what is stored of a shard apart from its keys; up to format 4 the classes of keys were missing."""
    if not hasattr(state, "key_classes"):
        state.key_classes = {}
    return state


def in_bytes(entries: Mapping[bytes, Any]) -> dict[bytes, Any]:
    """Return the entries of one owner, in which stored keys were objects up to format 2."""
    return {key: entry.packed() if isinstance(entry, StoredKey) else entry for key, entry in entries.items()}

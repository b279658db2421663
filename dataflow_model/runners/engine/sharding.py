"""Which shard owns an element: by its key at a grouping, by its place in the input at a reshuffle."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

from dataflow_model.errors import InvalidType, KeyEncodingError, explain
from dataflow_model.plan.nodes import GroupByKeyAndWindow
from dataflow_model.runners.engine.user_code import user_error
from dataflow_model.values import encode_key, shard_hash

if TYPE_CHECKING:
    from dataflow_model.plan.stages import KeyedNode
    from dataflow_model.runners.engine.bundle import Bundle

__all__ = ["shards_of", "split_by_shard"]


def split_by_shard(node: KeyedNode, bundle: Bundle, shards: int) -> dict[int, Bundle]:
    """Return the elements of a bundle by the number of the shard that owns them.

    Raises:
        InvalidType: for an element of a grouping that is no pair.
        UserCodeError: for a key that has no deterministic encoding.
    """
    if shards == 1:
        return {0: bundle}
    rows: dict[int, list[int]] = {}
    for row, shard in enumerate(shards_of(node, bundle, shards)):
        rows.setdefault(shard, []).append(row)
    return {shard: bundle.take(some) for shard, some in rows.items()}


def shards_of(node: KeyedNode, bundle: Bundle, shards: int) -> list[int]:
    """Return the shard of each element."""
    if not isinstance(node, GroupByKeyAndWindow):
        return [zlib.crc32(repr(order).encode()) % shards for order in bundle.orders]
    known: dict[Any, int] = {}
    found = []
    for value in bundle.values:
        if not isinstance(value, tuple) or len(value) != 2:  # noqa: PLR2004 - a pair
            raise InvalidType(
                explain(f"{node.label!r} groups (key, value) pairs, got {value!r}", hint="add dm.WithKeys(…) before it")
            )
        key = value[0]
        try:
            place = (type(key), key)
            shard = known.get(place)
            if shard is None or isinstance(key, tuple):  # equal tuples may hold values of other types
                shard = known[place] = shard_hash(encode_key(key)) % shards
        except (KeyEncodingError, TypeError) as error:
            raise _refused(error, node.label, value) from error
        found.append(shard)
    return found


def _refused(error: Exception, label: str, value: Any) -> Exception:
    if isinstance(error, KeyEncodingError):
        return user_error(error, label, value)
    try:
        encode_key(value[0])
    except KeyEncodingError as said:
        return user_error(said, label, value)
    return user_error(error, label, value)

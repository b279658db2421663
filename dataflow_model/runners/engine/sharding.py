"""The shard that owns an element: by its key for a grouping, by its position in the input for a reshuffle.

For a memoised ParDo it depends on the value, since an element and its retraction must reach the same shard.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dataflow_model.errors import KeyEncodingError
from dataflow_model.plan.nodes import Deduplicate, GroupByKeyAndWindow, ParDo
from dataflow_model.runners.engine.order import shard_by_order
from dataflow_model.runners.engine.uncombining import key_of_value
from dataflow_model.runners.engine.user_code import user_error
from dataflow_model.values import as_pair, encode_key, shard_hash

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflow_model.plan.stages import KeyedNode
    from dataflow_model.runners.engine.bundle import Bundle

__all__ = ["encoded_key", "rows_by_shard", "shards_of"]


def rows_by_shard(node: KeyedNode, bundle: Bundle, shards: int) -> dict[int, Sequence[int]]:
    """Return the places of a bundle's elements by the number of the shard that owns them.

    Raises:
        InvalidType: for an element of a grouping that is not a pair.
        UserCodeError: for a key that has no deterministic encoding.
    """
    if shards == 1:
        return {0: range(len(bundle))}
    rows: dict[int, list[int]] = {}
    for row, shard in enumerate(shards_of(node, bundle, shards)):
        rows.setdefault(shard, []).append(row)
    return dict(rows)


def encoded_key(label: str, pair: tuple[Any, Any]) -> bytes:
    """Return the encoded key of a pair.

    Raises:
        UserCodeError: for a key that has no deterministic encoding, with the label.
    """
    try:
        return encode_key(pair[0])
    except KeyEncodingError as error:
        raise user_error(error, label, pair, hint=None) from error


def shards_of(node: KeyedNode, bundle: Bundle, shards: int) -> list[int]:
    """Return the shard of each element."""
    if isinstance(node, ParDo) and not node.is_stateful and node.retractable == "memoised":
        return [shard_hash(key_of_value(node.label, value)) % shards for value in bundle.values]
    if not (isinstance(node, GroupByKeyAndWindow | Deduplicate) or (isinstance(node, ParDo) and node.is_stateful)):
        return [shard_by_order(order, shards) for order in bundle.orders]
    known: dict[Any, int] = {}
    owners = []
    for value in bundle.values:
        key, _ = as_pair(value, node.label)
        place = (type(key), key) if type(key) in _PLAIN else None
        shard = None if place is None else known.get(place)
        if shard is None:
            shard = shard_hash(encoded_key(node.label, value)) % shards
            if place is not None:
                known[place] = shard
        owners.append(shard)
    return owners


_PLAIN: Final = frozenset({int, str, bytes, bool})
"""Types whose values are equal if and only if their encodings are; nested values may be equal but differ in type."""

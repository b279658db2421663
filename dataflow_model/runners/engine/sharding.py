"""The shard that owns an element: by its key for a grouping, by its position in the input for a reshuffle.

For a memoised ParDo it depends on the value, since an element and its retraction must reach the same shard.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dataflow_model.errors import KeyEncodingError
from dataflow_model.plan.nodes import Deduplicate, GroupByKeyAndWindow, ParDo
from dataflow_model.runners.engine.lanes import Pairs
from dataflow_model.runners.engine.order import shard_by_order
from dataflow_model.runners.engine.uncombining import key_of_value
from dataflow_model.runners.engine.user_code import user_error
from dataflow_model.values import as_pair, encode_key, shard_hash

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dataflow_model.plan.stages import KeyedNode
    from dataflow_model.runners.engine.bundle import Bundle

__all__ = ["encoded_key", "rows_by_shard", "shards_of"]


def rows_by_shard(node: KeyedNode, bundle: Bundle, shards: int) -> dict[int, Sequence[int] | NDArray[np.int64]]:
    """Return the places of a bundle's elements by the number of the shard that owns them.

    Raises:
        InvalidType: for an element of a grouping that is not a pair.
        UserCodeError: for a key that has no deterministic encoding.
    """
    if shards == 1:
        return {0: range(len(bundle))}
    owners = np.array(shards_of(node, bundle, shards), np.int64)
    order = np.argsort(owners, kind="stable")
    numbers, firsts = np.unique(owners[order], return_index=True)
    return dict(zip(numbers.tolist(), np.split(order, firsts[1:]), strict=True)) if len(bundle) else {}


def encoded_key(label: str, pair: tuple[Any, Any]) -> bytes:
    """Return the encoded key of a pair.

    Raises:
        UserCodeError: for a key that has no deterministic encoding, with the label.
    """
    try:
        return encode_key(pair[0])
    except KeyEncodingError as error:
        raise user_error(error, label, pair, hint=None) from error


def shards_of(node: KeyedNode, bundle: Bundle, shards: int) -> Sequence[int] | NDArray[np.int64]:
    """Return the shard of each element."""
    if isinstance(node, ParDo) and not node.is_stateful and node.retractable == "memoised":
        return [shard_hash(key_of_value(node.label, value)) % shards for value in bundle.values]
    if not (isinstance(node, GroupByKeyAndWindow | Deduplicate) or (isinstance(node, ParDo) and node.is_stateful)):
        return [shard_by_order(order, shards) for order in bundle.orders]
    if isinstance(bundle.values, Pairs) and bundle.values.keys_are_alike():
        keys = bundle.values.keys.combine_chunks().dictionary_encode()
        of_keys = [shard_hash(encode_key(key)) % shards for key in keys.dictionary.to_pylist()]
        places: NDArray[np.int32] = keys.indices.to_numpy()
        return np.array(of_keys, np.int64)[places]
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

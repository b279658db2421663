"""The shard that owns an element: by its key for a grouping, by its position in the input for a reshuffle.

For a memoised ParDo it depends on the value, since an element and its retraction must reach the same shard.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dataflow_model.errors import KeyEncodingError
from dataflow_model.plan.logical.nodes import Deduplicate, GroupByKeyAndWindow, ParDo
from dataflow_model.runners.engine.functions.uncombining import key_of_value
from dataflow_model.runners.engine.functions.user_code import user_error
from dataflow_model.runners.engine.lanes.lanes import windows_in_columns
from dataflow_model.runners.engine.lanes.order import shard_by_order
from dataflow_model.runners.engine.lanes.radix import in_order_of
from dataflow_model.runners.engine.lanes.value_lanes import Pairs, in_columns, keys_in_columns
from dataflow_model.runners.engine.lifted.keys import shard_of
from dataflow_model.values import checked_pairs, encode_key, shard_hash

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dataflow_model.plan.logical.stages import KeyedNode
    from dataflow_model.runners.engine.lanes.bundle import Bundle


def rows_by_shard(node: KeyedNode, bundle: Bundle, shards: int) -> dict[int, Sequence[int] | NDArray[np.int64]]:
    """Return the indices of a bundle's elements by the number of the shard that owns them.

    Raises:
        InvalidType: for an element of a grouping that is not a pair.
        UserCodeError: for a key that has no deterministic encoding.
    """
    if shards == 1:
        return {0: range(len(bundle))}
    owners = np.array(shards_of(node, bundle, shards), np.int64)
    order = in_order_of(owners)
    numbers, firsts = np.unique(owners[order], return_index=True)
    return dict(zip(numbers.tolist(), np.split(order, firsts[1:]), strict=True)) if len(bundle) else {}


def put_in_columns(node: KeyedNode, bundle: Bundle) -> None:
    """Put what a bundle for a node holds into columns, where it fits them: they are smaller to send."""
    if isinstance(node, GroupByKeyAndWindow):
        bundle.values = in_columns(bundle.values)
    bundle.windows = windows_in_columns(bundle.windows)


def encoded_key(label: str, pair: tuple[Any, Any]) -> bytes:
    """Return the encoded key of a pair.

    Raises:
        UserCodeError: for a key that has no deterministic encoding, with the label.
    """
    try:
        return encode_key(pair[0])
    except KeyEncodingError as error:
        raise user_error(error, label, pair, hint=None) from error


def shards_of(node: KeyedNode, bundle: Bundle, shards: int) -> Sequence[int] | NDArray[np.integer[Any]]:
    """Return the shard of each element."""
    if isinstance(node, ParDo) and not node.is_stateful and node.retractable == "memoised":
        return [shard_hash(key_of_value(node.label, value)) % shards for value in bundle.values]
    if not (isinstance(node, GroupByKeyAndWindow | Deduplicate) or (isinstance(node, ParDo) and node.is_stateful)):
        return [shard_by_order(order, shards) for order in bundle.orders]
    values = bundle.values
    if isinstance(values, Pairs) and values.key_row is None and values.keys_are_alike():
        return shard_of(values.keys, range(shards))
    encoded, indices = encoded_keys(node.label, values)
    return np.array([shard_hash(key) % shards for key in encoded], np.int64)[indices]


def encoded_keys(label: str, pairs: Sequence[Any]) -> tuple[list[bytes], NDArray[np.int64]]:
    """Return the encoded keys of some pairs, and the index among them of the key of each pair.

    Keys that fit a column are encoded once each; the others once for each pair.

    Raises:
        InvalidType: for an element that is not a pair.
        UserCodeError: for a key that has no deterministic encoding.

    Example:
        >>> encoded_keys("sum", [("UA", 7), ("AA", 9), ("UA", 1)])
        ([b'sUA', b'sAA'], array([0, 1, 0]))
    """
    columns = pairs if isinstance(pairs, Pairs) and pairs.keys_are_alike() else None
    if columns is None:
        columns = keys_in_columns([key for key, _ in checked_pairs(pairs, label)])
    if columns is not None:
        coded = columns.encoded_keys()
        return coded.values, coded.codes
    indices: dict[bytes, int] = {}
    numbers = (indices.setdefault(encoded_key(label, pair), len(indices)) for pair in pairs)
    codes = np.fromiter(numbers, np.int64, len(pairs))
    return list(indices), codes

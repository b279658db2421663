"""Types and columns of lists, structs and maps: what is inside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def with_leaves(kind: pa.DataType, change: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """Return a type in which another type replaces each one that is no list, struct or map.

    Example:
        >>> with_leaves(pa.struct({"seen": pa.list_(pa.date32())}), lambda kind: pa.int32())
        StructType(struct<seen: list<item: int32>>)
    """
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(with_leaves(field.type, change)) for field in kind])
    if pa.types.is_map(kind):
        key, item = (field.with_type(with_leaves(field.type, change)) for field in (kind.key_field, kind.item_field))
        return pa.map_(key, item, kind.keys_sorted)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        item = kind.value_field.with_type(with_leaves(kind.value_type, change))
        if pa.types.is_fixed_size_list(kind):
            return pa.list_(item, kind.list_size)
        return pa.large_list(item) if pa.types.is_large_list(kind) else pa.list_(item)
    return change(kind)


def without_views(schema: pa.Schema) -> pa.Schema:
    """Return a schema with ordinary text and bytes in place of views, of which Arrow cannot take some values.

    Example:
        >>> without_views(pa.schema({"carrier": pa.string_view(), "codes": pa.list_(pa.binary_view())}))
        carrier: large_string
        codes: list<item: large_binary>
          child 0, item: large_binary
    """
    return pa.schema([field.with_type(with_leaves(field.type, _without_view)) for field in schema], schema.metadata)


def _without_view(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, _without_view(kind.value_type), kind.ordered)
    if pa.types.is_string_view(kind):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary_view(kind) else kind


def leaves(column: pa.Array) -> Iterator[pa.Array]:
    """Yield the columns inside a column that hold no lists, structs or maps; of a slice of maps, all their items.

    Example:
        >>> [leaf.to_pylist() for leaf in leaves(pa.array([{"carrier": "UA", "delays": [4, 6]}]))]
        [['UA'], [4, 6]]
    """
    kind = column.type
    if pa.types.is_struct(kind):
        inner = column.flatten()
    elif pa.types.is_map(kind):
        inner = [column.keys, column.items]
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        inner = [column.flatten()]
    else:
        yield column
        return
    for each in inner:
        yield from leaves(each)

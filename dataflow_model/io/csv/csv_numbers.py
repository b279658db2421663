"""Numbers of CSV that Arrow would change: those beyond a float, and codes with leading zeros."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dataflow_model.io.csv.csv_options import CsvOptions

_ZERO: Final = ord("0")
_POINT: Final = ord(".")
_PART: Final = 1 << 16
"""How many bytes to look at at once, so that the masks stay in the processor's cache."""
_BREAKS: Final = b"\r\n"
_BLANKS: Final = b" \t"
_SIGNS: Final = b"+-"
_LEADING_ZERO: Final = r"^\s*[+-]?0[0-9]"
_INFINITY: Final = r"^\s*[+-]?(?i:inf(inity)?)\s*$"


def check_numbers(data: bytes, table: pa.Table, names: list[str], options: CsvOptions, *, keeps_zeros: bool) -> None:
    """Reject rows with a number that its column does not hold as it is written.

    Only columns with a suspicious value are read once more, as text.

    Args:
        data: the rows.
        table: what Arrow has read from them.
        names: of all columns of the file.
        options: how the file is written.
        keeps_zeros: whether numbers may not have leading zeros.

    Raises:
        ValueError: for a number that is too large for its column of floats, and for one with leading zeros.
    """
    infinite = [name for name in table.column_names if _has_infinity(table.column(name))]
    padded: list[str] = []
    if keeps_zeros:
        numeric = {field.name for field in table.schema if _is_number(field.type)}
        if numeric:
            padded = [names[index] for index in columns_with_zeros(data, len(names), table.num_rows, options)]
            padded = [name for name in padded if name in numeric]
    suspects = list(dict.fromkeys([*infinite, *padded]))
    if not suspects:
        return
    kinds = dict.fromkeys(suspects, pa.string())
    texts = options.read(data, names, options.conversion(include_columns=suspects, column_types=kinds))
    for name in infinite:
        is_infinite = pc.call_function("is_inf", [table.column(name).combine_chunks()])
        written = _matches(texts.column(name), _INFINITY)
        if _any(pc.call_function("and_not_kleene", [is_infinite, written])):
            raise ValueError(f"a number in {name!r} is too large for {table.schema.field(name).type}")
    for name in padded:
        if has_leading_zero(texts.column(name)):
            raise ValueError(f"a number in {name!r} has leading zeros")


def has_leading_zero(texts: pa.ChunkedArray) -> bool:
    """Return whether one of some texts is a number with leading zeros.

    Example:
        >>> has_leading_zero(pa.chunked_array([["0.5", "0", "-1"]])), has_leading_zero(pa.chunked_array([["-07"]]))
        (False, True)
    """
    return _any(_matches(texts, _LEADING_ZERO))


def separated_number(options: CsvOptions) -> str:
    r"""Return the pattern of numbers with separated thousands.

    Example:
        >>> from dataflow_model.io.csv.csv_options import CsvOptions
        >>> separated_number(CsvOptions(thousands=","))
        '^\\s*[+-]?[0-9]{1,3}(\\,[0-9]{3})+(\\.[0-9]*)?\\s*$'
    """
    mark, point = (f"\\{character}" for character in (options.thousands or "", options.decimal_point))
    return rf"^\s*[+-]?[0-9]{{1,3}}({mark}[0-9]{{3}})+({point}[0-9]*)?\s*$"


def columns_with_zeros(data: bytes, columns: int, rows: int, options: CsvOptions) -> Sequence[int]:
    r"""Return the indices of the columns that may hold numbers with leading zeros, and perhaps some others.

    Args:
        data: rows.
        columns: the number of columns.
        rows: the number of rows.
        options: how the rows are written.

    Example:
        >>> from dataflow_model.io.csv.csv_options import CsvOptions
        >>> columns_with_zeros(b"1,02139,0\n2,94107,0.5\n", 3, 2, CsvOptions())
        [1]
    """
    buffer = np.frombuffer(data, np.uint8)
    if not data:
        return ()
    delimiter = ord(options.delimiter)
    separators = [delimiter, *_BREAKS, *_BLANKS, ord(options.quote or "\n")]
    head = np.frombuffer(b"\n\n" + data[: _PART + 1], np.uint8)
    others = (_padded(buffer[low - 2 : low + _PART + 1], separators) + low for low in range(_PART, len(data), _PART))
    zeros = np.concatenate([_padded(head, separators), *others])
    if not len(zeros) or columns == 1:
        return range(columns if len(zeros) else 0)
    delimiters = np.flatnonzero(buffer == delimiter)
    if len(delimiters) != rows * (columns - 1):  # some are in quotes
        return range(columns)
    indices = np.searchsorted(delimiters, zeros) % (columns - 1)
    suspects = set(np.flatnonzero(np.bincount(indices, minlength=1)).tolist())
    if 0 in suspects:  # in the last column of a row, or the first one of the next
        doubtful = zeros[indices == 0]
        is_last = bool(doubtful[0] and (buffer[doubtful - 1] == delimiter).all())
        suspects = suspects - {0} | ({columns - 1} if is_last else {0, columns - 1})
    return sorted(suspects)


def _padded(buffer: NDArray[np.uint8], separators: list[int]) -> NDArray[np.int64]:
    """Return the indices of zeros before a digit that begin a value, perhaps behind a sign or blanks.

    The first two bytes and the last one are only looked at as neighbours.
    """
    first, second = buffer[2:-1], buffer[3:]
    is_leading = first == _ZERO
    is_leading &= second >= _ZERO
    is_leading &= second <= _ZERO + 9
    before = buffer[1:-2]
    is_start = before < _ZERO  # blanks, breaks, quotes, signs and most delimiters
    if _POINT not in separators:
        is_start &= before != _POINT
    for character in separators:
        if character > _ZERO:
            is_start |= before == character
    is_leading &= is_start
    indices: NDArray[np.int64] = np.flatnonzero(is_leading)
    is_separator, is_mark = np.zeros(256, np.bool_), np.zeros(256, np.bool_)
    is_separator[separators] = True
    is_mark[list(_SIGNS + _BLANKS)] = True
    kinds = buffer[indices + 1]
    is_first = is_separator[kinds]
    is_first[is_mark[kinds]] = is_separator[buffer[indices[is_mark[kinds]]]]
    return indices[is_first]


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _has_infinity(column: pa.ChunkedArray) -> bool:
    return pa.types.is_floating(column.type) and _any(pc.call_function("is_inf", [column]))


def _matches(texts: pa.ChunkedArray, pattern: str) -> pa.Array:
    return pc.call_function("match_substring_regex", [texts.combine_chunks()], pc.MatchSubstringOptions(pattern))


def _any(mask: Any) -> bool:
    return bool(pc.call_function("any", [mask]).as_py())

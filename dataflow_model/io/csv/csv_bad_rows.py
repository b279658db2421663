"""Find the bad rows of CSV on whole columns, where it is certain that each alone would be one, and for which reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from dataflow_model.io.text.parsing import cannot_hold

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from dataflow_model.io.csv.csv_options import CsvOptions
    from dataflow_model.io.text.row_texts import RowTexts

_LETTERS: Final = "GHJKLMOQRSUVWZghjklmoqrsuvwz/:;*#$%&?@!"
"""Characters that no number contains, be it hexadecimal, infinite or none (`nan(snan)`, which begins with an n)."""
_NO_FLOAT: Final = f"^[A-HJ-MO-Za-hj-mo-z]|^[^Nn]*[{_LETTERS}][^Nn]*$"
_NO_WHOLE: Final = f"^[A-Za-z]|[{_LETTERS}.,INPTYinpty]"
_DAY: Final = r"(1[7-9]|20|21)\d\d-(0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])"
_TIME: Final = _DAY + r"[ T]([01]\d|2[0-3]):[0-5]\d:[0-5]\d"


def wrong_count(values: int, columns: int) -> str:
    """Return the reason of a bad row with another number of values than there are columns.

    Example:
        >>> wrong_count(1, 3)
        'it has 1 value, but there are 3 columns'
    """
    return f"it has {values} value{'' if values == 1 else 's'}, but there are {columns} columns"


def certainly_bad(
    texts: RowTexts, names: list[str], columns: pa.Schema, options: CsvOptions, as_text: frozenset[str]
) -> Mapping[int, str]:
    """Return the reasons of bad rows by index: of those with another number of values, and of most that do not convert.

    A row with a quote is left out, and so is one in which a column before the bad value may have a problem too.

    Args:
        texts: the rows.
        names: of all columns of the file.
        columns: those to read, with their types.
        options: how the file is written.
        as_text: the columns that Arrow does not convert.
    """
    chosen = _without(options.quote, texts)
    if not len(chosen):
        return {}
    data = texts.chosen(chosen).text()
    counts: dict[int, int] = {}

    def skip(row: pa_csv.InvalidRow) -> str:
        counts[row.number - 1] = row.actual_columns
        return "skip"

    conversion = pa_csv.ConvertOptions(
        column_types=dict.fromkeys(columns.names, pa.string()), include_columns=columns.names
    )
    try:
        table = options.read(data, names, conversion, invalid_row_handler=skip)
    except (pa.ArrowException, ValueError):  # not UTF-8, for example
        return {}
    if table.num_rows + len(counts) != len(chosen):
        return {}
    reasons = {int(chosen[index]): wrong_count(count, len(names)) for index, count in counts.items()}
    indices = np.delete(chosen, list(counts))
    is_fine = np.ones(len(indices), np.bool_)  # as far as the columns before go
    for field, column in zip(columns, table.columns, strict=True):
        if not is_fine.any():
            break
        values = column.combine_chunks().fill_null("")
        good, bad = _judged(values, field.type, options, is_text=field.name in as_text)
        misfits = np.flatnonzero(is_fine & bad)
        for index, text in zip(indices[misfits].tolist(), values.take(pa.array(misfits)).to_pylist(), strict=True):
            reasons[index] = cannot_hold(field, text)
        is_fine &= good
    return reasons


def _without(quote: str | None, texts: RowTexts) -> NDArray[np.int64]:
    """Return the indices of the rows without a quote, which are one line each."""
    is_plain = np.ones(len(texts), np.bool_)
    if quote is not None and quote.encode() in texts.data:
        quotes = np.flatnonzero(np.frombuffer(texts.data, np.uint8) == ord(quote))
        is_plain = np.searchsorted(quotes, texts.starts) == np.searchsorted(quotes, texts.ends)
    indices: NDArray[np.int64] = np.flatnonzero(is_plain)
    return indices


def _judged(
    texts: pa.Array, kind: pa.DataType, options: CsvOptions, *, is_text: bool
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which texts certainly convert to a type, and which certainly do not."""
    nothing = np.zeros(len(texts), np.bool_)
    if pa.types.is_string(kind) or (is_text and pa.types.is_timestamp(kind)):  # their problems are no errors
        return ~nothing, nothing
    if is_text:
        return nothing, nothing
    if pa.types.is_integer(kind):
        good, bad = _judged_whole(texts, kind)
    elif pa.types.is_float32(kind) or pa.types.is_float64(kind):
        point = f"\\{options.decimal_point}"
        good, bad = _matches(texts, rf"^-?(0|[1-9]\d{{0,15}})({point}\d{{1,15}})?$"), _matches(texts, _NO_FLOAT)
    elif pa.types.is_date32(kind):
        good, bad = _matches(texts, f"^{_DAY}$"), _matches(texts, r"^\D+$")
    elif pa.types.is_timestamp(kind):
        offset = "" if kind.tz is None else "Z"
        good = _matches(texts, f"^{_TIME}{offset}$")
        bad = _matches(texts, r"^\D+$") | (_matches(texts, f"^{_TIME}$") if offset else nothing)
    else:
        return nothing, nothing
    nulls = pa_csv.ConvertOptions().null_values if options.null_values is None else [*options.null_values, ""]
    is_null = _mask(pc.call_function("is_in", [texts], pc.SetLookupOptions(pa.array(nulls, pa.string()))))
    return good | is_null, bad & ~is_null


def _judged_whole(texts: pa.Array, kind: pa.DataType) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    limits = np.iinfo(kind.to_pandas_dtype())
    least, most = int(limits.min), int(limits.max)
    digits = len(str(most))
    sign = "-?" if least else ""
    bad = _matches(texts, _NO_WHOLE) | _matches(texts, rf"^-?[1-9]\d{{{digits},}}$")
    longest = _matches(texts, rf"^[1-9]\d{{{digits - 1}}}$")
    if longest.any():
        bad |= longest & _mask(pc.call_function("greater", [texts, pa.scalar(str(most))]))
    negative = _matches(texts, rf"^-[1-9]\d{{{digits - 1}}}$")
    if negative.any():
        bad |= negative & (_mask(pc.call_function("greater", [texts, pa.scalar(str(least))])) if least else negative)
    return _matches(texts, rf"^{sign}(0|[1-9]\d{{0,{digits - 2}}})$"), bad


def _matches(texts: pa.Array, pattern: str) -> NDArray[np.bool_]:
    return _mask(pc.call_function("match_substring_regex", [texts], pc.MatchSubstringOptions(pattern)))


def _mask(values: Any) -> NDArray[np.bool_]:
    mask: NDArray[np.bool_] = values.to_numpy(zero_copy_only=False)
    return mask

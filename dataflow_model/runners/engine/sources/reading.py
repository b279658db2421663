"""Begin to read an origin of a source, which may have disappeared since it was listed."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from dataflow_model.errors import SourceError
from dataflow_model.plan.endpoints.retries import read_retried
from dataflow_model.runners.engine.functions.user_code import each_reported, source_calls

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    import pyarrow as pa

    from dataflow_model.plan.endpoints.sources import ColumnSource

Version = tuple[int | str, ...] | None


def opened(
    source: ColumnSource, label: str, origin: str, start: int, stop: int | None, counts: Counter[str], *, read: int = 0
) -> Iterator[pa.RecordBatch] | None:
    """Return the rows `[start, stop)` of an origin; `None` if it has disappeared, and is skipped.

    Args:
        source: the source.
        label: its label.
        origin: the name of the origin.
        start: the first row.
        stop: the row after the last; `None` to read to the end.
        counts: where failed attempts to read are counted.
        read: the number of rows of it that earlier micro-batches have read.

    Raises:
        SourceError: if it cannot be read, or has disappeared but must not be skipped.
    """
    opened_origin = opened_in_version(source, label, (origin, start, stop), None, counts, read=read, checks=False)
    return None if opened_origin is None else opened_origin[1]


def opened_in_version(
    source: ColumnSource,
    label: str,
    extent: tuple[str, int, int | None],
    version: Version,
    counts: Counter[str],
    *,
    read: int,
    checks: bool = True,
) -> tuple[Version, Iterator[pa.RecordBatch]] | None:
    """Return the version and the rows `[start, stop)` of an origin; `None` if it has disappeared, and is skipped.

    Args:
        source: the source.
        label: its label.
        extent: the name of the origin, the first row, and the row after the last; `None` to read to the end.
        version: the version that the origin must have; `None` for any.
        counts: where failed attempts to read are counted.
        read: the number of rows of it that earlier micro-batches have read.
        checks: whether the version matters.

    Raises:
        SourceError: if it has another version, and as for `opened`.
    """
    origin, *_ = extent
    try:
        if checks and version is None:
            version = source.version_of(origin)
        elif version is not None:
            source.check_version(origin, version)
        batches = each_reported(_read(source, label, extent, counts), label)
        first = next(batches, None)  # a file that is not there is noticed here
    except (SourceError, OSError) as error:
        if not source.is_missing(origin):
            raise
        try:
            source.check_may_skip(origin, read)
        except SourceError as refusal:
            raise refusal from error
        return None
    return version, batches if first is None else itertools.chain([first], batches)


def _read(
    source: ColumnSource, label: str, extent: tuple[str, int, int | None], counts: Counter[str]
) -> Iterator[pa.RecordBatch]:
    """Yield rows of an origin; exceptions of a user's source are reported, unless its origin is missing."""
    batches = read_retried(source, label, *extent, counts)
    while True:
        try:
            batch = next(batches, None)
        except Exception:
            with source_calls(label, "read", source.is_users and not source.is_missing(extent[0])):
                raise
        if batch is None:
            return
        yield batch


def check_unchanged(source: ColumnSource, origin: str, version: tuple[int | str, ...]) -> None:
    """Raise `SourceError` if an origin was replaced while it was read; if it was removed, all its rows were read.

    Args:
        source: the source.
        origin: the name of the origin.
        version: the version that it had before.
    """
    try:
        source.check_version(origin, version)
    except SourceError:
        if not source.is_missing(origin):
            raise

"""Injectors: sources of a topology, with the options of their watermark in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.plan.functions.typevars import ResultT
from dataflow_model.plan.watermarks.estimators import WatermarkEstimator, check_estimator
from dataflow_model.plan.watermarks.oldest_file import OldestFile
from dataflow_model.transforms.endpoints.create import Read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dataflow_model.plan.endpoints.sources import Source
    from dataflow_model.time import DurationLike, InstantLike


class Injector(Read[ResultT]):
    """Inject data with a watermark for each partition; the injector's watermark is the lowest of them.

    Args:
        read: a source of `dm.io` that reads rows. The arguments below replace its own watermark options, apart from its
            `max_skew` and `weight`.
        watermark: the estimator; by default that of the source.
        partition_by: the column that names the partition of a row, or `"file"`; by default there is one partition.
        partitions: the names of partitions that must all have reported before there is a watermark.
        idle_after: how long a partition may be silent before it no longer holds the watermark.

    Raises:
        InvalidType: if `read` is not a source of rows. `Create` and scripts have watermarks of their own.
        InvalidArgument: if a column does not exist.

    Source: MillWheel's injectors.

    Example:
        >>> import tempfile, pathlib, pyarrow as pa, pyarrow.parquet as pq
        >>> import dataflow_model as dm
        >>> folder = tempfile.TemporaryDirectory()
        >>> pq.write_table(pa.table({"at": [5], "centre": ["east"]}), pathlib.Path(folder.name, "a.parquet"))
        >>> rows = dm.io.ReadParquet(folder.name, event_time="at")
        >>> dm.Injector(rows, watermark=dm.BoundedOutOfOrderness(60), partition_by="centre").source.watermark_origins
        WatermarkOrigins(by='centre', partitions=(), idle_after=None, max_skew=None, weight='origins')
        >>> folder.cleanup()
    """

    def __init__(
        self,
        read: Read[ResultT],
        *,
        watermark: WatermarkEstimator | DurationLike | None = None,
        partition_by: str | None = None,
        partitions: Iterable[object] | None = None,
        idle_after: DurationLike | None = None,
    ) -> None:
        source: Any = _source_of(read)
        origins = attrs.evolve(source.watermark_origins, by=partition_by, partitions=partitions, idle_after=idle_after)
        estimator = source.watermark if watermark is None else check_estimator(watermark)
        columns = source.known_columns()
        if columns and partition_by is not None and partition_by not in columns:
            raise InvalidArgument(
                f"`partition_by` names the column {partition_by!r}, which does not exist",
                hint=f"the columns are {', '.join(columns)}",
            )
        evolved = attrs.evolve(source, watermark=estimator, watermark_origins=origins)
        super().__init__(evolved, element_type=read.element_type, dead_letters=read.dead_letters)
        self._label = read._label  # noqa: SLF001 - one transform in the other's place


class FileInjector(Injector[ResultT]):
    """Follow files as they appear; the watermark is the creation time of the oldest unfinished file.

    Files must appear whole: write them elsewhere on the same file system and rename them into place. A file is finished
    when its last row has been read. See `OldestFile`.

    Args:
        read: `dm.io.ReadParquet`, `ReadCsv` or `ReadJson`; use `follow=True` to read files that appear later.
        created: a pattern that reads the creation time from a file's name, or a function of the file's path; see
            `OldestFile`.

    Raises:
        InvalidType: if `read` does not read files.
        SourceError: if a file's name does not contain the time; raised when the files are listed.

    Source: the log-file injector of the MillWheel paper.

    Example:
        >>> import pyarrow as pa
        >>> import dataflow_model as dm
        >>> columns = pa.schema({"at": pa.timestamp("us"), "text": pa.string()})
        >>> rows = dm.io.ReadJson("logs/", event_time="at", schema=columns, follow=True)
        >>> dm.FileInjector(rows, created="queries-%Y%m%dT%H%M%S.json").source.watermark
        OldestFile('queries-%Y%m%dT%H%M%S.json')
    """

    def __init__(self, read: Read[ResultT], *, created: str | Callable[[str], InstantLike]) -> None:
        if _source_of(read).as_columns is None:
            raise InvalidType(
                f"expected a source of files, got {read!r}", hint="pass dm.io.ReadJson('logs/', event_time='at')"
            )
        super().__init__(read, watermark=OldestFile(created), partition_by="file")


def _source_of(read: object) -> Source:
    source = read.source if isinstance(read, Read) else None
    if source is None or not source.gives_rows:
        raise InvalidType(
            f"expected a source of rows, got {read!r}",
            hint="pass dm.io.ReadParquet(…), for example; inject dm.Create and scripts directly",
        )
    return source

"""Reading files: the transforms that users call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Unpack, cast

from dataflow_model.errors import InvalidArgument
from dataflow_model.io.parquet_source import ParquetSource
from dataflow_model.io.paths import absolute_paths
from dataflow_model.io.text_sources import CsvSource, JsonSource
from dataflow_model.plan import nodes
from dataflow_model.plan.typevars import ResultT
from dataflow_model.plan.watermark_origins import WatermarkOptions, origins_of
from dataflow_model.plan.watermarks import Arrival, BoundedOutOfOrderness, WatermarkEstimator
from dataflow_model.time import Duration
from dataflow_model.transforms.endpoints import Read
from dataflow_model.transforms.pcollection import PCollection

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from dataflow_model.io.file_source import FileSource
    from dataflow_model.io.paths import PathLike
    from dataflow_model.plan.dofn import DeadLetter

__all__ = ["ReadCsv", "ReadFiles", "ReadJson", "ReadParquet", "ReadRows"]


class ReadRows(Read[ResultT]):
    """What reading rows has in common: rows that cannot become elements may go to an output of their own."""

    def with_exception_handling(self, tag: str = "dead_letters") -> Read[tuple[ResultT, PCollection[DeadLetter]]]:
        """Send rows without event time, or that do not parse, to an output of their own, as `DeadLetter`s.

        Applying the transform then gives a pair: the rows and the dead letters. Without it such a row stops the run
        with an error that names file, row, column and value.

        Raises:
            InvalidArgument: for the tag of the main output.
        """
        if tag == nodes.MAIN:
            raise InvalidArgument(f"the dead letters need a tag that no other output has, got {tag!r}")
        return cast("Read[tuple[ResultT, PCollection[DeadLetter]]]", self._but(dead_letters=tag))


class ReadFiles(ReadRows[PCollection]):
    """Read files of one kind: a subclass names the class of its source. The arguments are those of `ReadParquet`."""

    source_type: ClassVar[type[FileSource]]

    def __init__(
        self,
        path: PathLike | Iterable[PathLike],
        *,
        event_time: str | Arrival,
        processing_time: str | None = None,
        watermark: WatermarkEstimator | None = None,
        follow: bool = False,
        schema: pa.Schema | None = None,
        **options: Unpack[WatermarkOptions],
    ) -> None:
        source = self.source_type(
            paths=absolute_paths(path),
            event_time=event_time,
            processing_time=processing_time,
            watermark=BoundedOutOfOrderness(Duration(0)) if watermark is None else watermark,
            watermark_origins=origins_of(options),
            follow=follow,
            given=schema,
        ).bound()
        super().__init__(source, element_type=Any if source.given is None else source.row_type())


class ReadParquet(ReadFiles):
    """Read the rows of Parquet files as named tuples.

    A file is an origin: its rows keep their order, and files follow each other by name. Only the row groups that a
    range of rows needs are read. The columns are those of the first file; a file that lacks one of them, or has it in
    another type, is refused by name, and further columns are passed over. Files and directories that begin with `_`
    or `.` are skipped.

    Args:
        path: a file, a directory (with what is below it), a glob, or a list of these; mounted file systems only.
        event_time: the column of the rows' event times, or `dm.ARRIVAL`. Timestamps (without a zone they are UTC),
            dates (midnight UTC), integers (microseconds since the epoch) and ISO 8601 text (without an offset: UTC).
        processing_time: the column of the replay clock, in the same forms; each file must be sorted by it. Without one
            the clock is the wall's.
        watermark: an estimator such as `dm.BoundedOutOfOrderness("30 minutes")`; by default `BoundedOutOfOrderness(0)`.
        follow: also read files that appear later, which makes the collection unbounded. A file must appear whole:
            write it elsewhere on the same file system and rename it into place.
        schema: the columns' names and types, where there is no file yet or the first is not typical.
        watermark_origin: the column that says to which partition of the input a row belongs, or `"file"`; each then
            has a watermark of its own, and the source's is the least of them. By default the whole source is one.
        partitions: names of partitions that must all have reported before there is a watermark.
        idle_after: how long a partition may give nothing before it stops holding the watermark.
        max_skew: how far a file may run ahead of the low watermark, or of the file that is furthest behind, before
            the source waits with it; in streaming, and as exact as micro-batches are long.
        weight: `"origins"` or `"records"`: what a percentile of the watermark is a percentage of.

    Raises:
        InvalidArgument: for a time column that is not there, with those that are; raised when the pipeline is built if
            there are files by then.
        SourceError: for a file that is no Parquet file, with what is wrong.

    Source: Beam's `ReadFromParquet`; event time and clock are our own.

    Example:
        >>> import tempfile, pathlib, pyarrow as pa, pyarrow.parquet as pq
        >>> import dataflow_model as dm
        >>> folder = tempfile.TemporaryDirectory()
        >>> pq.write_table(pa.table({"at": [5], "carrier": ["UA"]}), pathlib.Path(folder.name, "a.parquet"))
        >>> dm.Pipeline() | dm.io.ReadParquet(folder.name, event_time="at")
        PCollection('ReadParquet', element_type=Row)
        >>> dm.io.ReadParquet(folder.name, event_time="when")
        Traceback (most recent call last):
        ...
        dataflow_model.errors.InvalidArgument: `event_time` names the column 'when', which does not exist
        Hint: the columns are at, carrier
        >>> folder.cleanup()
    """

    source_type = ParquetSource


class ReadCsv(ReadFiles):
    """Read the rows of CSV files as named tuples; the arguments and errors are those of `ReadParquet`.

    Each file has a header. Types are given by `schema`, or inferred once from the first 16,384 rows of the first file;
    a row that does not have them (or has too few values) is a bad row. Quoted values may not hold line breaks; an empty
    value is null, in a text column it is empty text.

    Source: Beam's `ReadFromCsv`.
    """

    source_type = CsvSource


class ReadJson(ReadFiles):
    """Read files with one JSON object a line as named tuples; the arguments and errors are those of `ReadParquet`.

    Names and types are given by `schema`, or inferred once from the first 16,384 rows of the first file. A field that a
    row lacks is null, one that the schema lacks is passed over, and a row with a value of another type is a bad row.

    Source: Beam's `ReadFromJson`.
    """

    source_type = JsonSource

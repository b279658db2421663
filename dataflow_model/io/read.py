"""Reading files: the transforms that users call."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Unpack, cast, overload

import attrs

from dataflow_model.errors import InvalidArgument, InvalidType, shown
from dataflow_model.io.arguments import check_arguments, with_label_hints
from dataflow_model.io.csv.csv_options import CsvOptions
from dataflow_model.io.csv.text_sources import LINES, CsvSource, TextSource
from dataflow_model.io.json.json_documents import JsonDocumentSource
from dataflow_model.io.json.json_source import JsonSource
from dataflow_model.io.listing.paths import absolute_paths
from dataflow_model.io.parquet.parquet_source import ParquetSource
from dataflow_model.io.text.lines_of_rows import LinesOfRows
from dataflow_model.plan.columns.typed_rows import TypedRows
from dataflow_model.plan.functions.typevars import ElementT, ResultT
from dataflow_model.plan.watermarks.estimators import (
    Arrival,
    AtTheEnd,
    BoundedOutOfOrderness,
    WatermarkEstimator,
    check_estimator,
)
from dataflow_model.plan.watermarks.origins import EVERYTHING, WatermarkOptions, WatermarkOrigins, origins_of
from dataflow_model.time import Duration, DurationLike, duration
from dataflow_model.transforms.elementwise.dead_letters import WithDeadLetters
from dataflow_model.transforms.elementwise.maps import Map
from dataflow_model.transforms.elementwise.reshaping import Flatten
from dataflow_model.transforms.endpoints.create import Read
from dataflow_model.transforms.pipelines.output_tags import check_dead_letters
from dataflow_model.transforms.pipelines.pcollection import PBegin, PCollection
from dataflow_model.transforms.pipelines.ptransform import PTransform

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pyarrow as pa

    from dataflow_model.io.files.file_source import FileSource, OnMissing
    from dataflow_model.io.listing.paths import PathLike
    from dataflow_model.plan.columns.time_units import TimeUnit
    from dataflow_model.time import DurationLike

LINE_TIMEOUT: Final = "30 s"
"""How long a stream waits for the end of the last line of a file that does not change."""


def _checked_timeout(value: DurationLike | None) -> Duration | None:
    """Return the argument `line_timeout`."""
    length = None if value is None else duration(value)
    if length is not None and length < Duration(0):
        raise InvalidArgument(
            f"`line_timeout` must not be negative, got {value!r}",
            hint="pass '30 s', for example, or None to wait for the end of each line",
        )
    return length


def checked_watermark(
    event_time: str | Arrival | None, estimator: WatermarkEstimator | DurationLike | None, origins: WatermarkOrigins
) -> WatermarkEstimator:
    """Return the estimator of a source that reads rows.

    Raises:
        InvalidArgument: if an estimator or origins are given although there are no event times.
    """
    if event_time is None and origins != EVERYTHING:
        raise InvalidArgument(
            f"without event times there is no watermark, got event_time=None and {origins.describe()}",
            hint="leave the options of the watermark out, or name the column of the event times",
        )
    if event_time is None and estimator is not None:
        raise InvalidArgument(
            f"without event times there is no watermark, got event_time=None and watermark={estimator!r}",
            hint="leave `watermark` out, or name the column of the event times",
        )
    if estimator is not None:
        return check_estimator(estimator)
    return AtTheEnd() if event_time is None else BoundedOutOfOrderness(Duration(0))


class ReadRows(Read[ResultT]):
    """A source of rows, whose bad rows can be sent to a separate output, and that may be instances of a class."""

    typed_rows: TypedRows | None = None
    """What turns the rows into instances of a class."""

    if TYPE_CHECKING:

        @overload
        def with_output_types(self, element_type: type[ElementT]) -> ReadRows[PCollection[ElementT]]: ...

        @overload
        def with_output_types(self, element_type: Any) -> ReadRows[PCollection]: ...

        def with_output_types(self, element_type: Any) -> Any: ...  # noqa: D102 - see `PTransform`

    def with_exception_handling(self, dead_letter_tag: str = "dead_letters") -> Read[WithDeadLetters[ResultT]]:
        """Send rows that do not parse or have no event time to a separate output, as `DeadLetter`s.

        Applying the transform then returns a pair: the rows and the dead letters. The element of a dead letter is the
        text of a row that does not parse, and otherwise a dict of the values by column. Without this, such a row stops
        the run with an error that names the file, row, column and value.

        Raises:
            InvalidArgument: if `dead_letter_tag` is that of the main output.
            InvalidType: for a tag that is not text.
        """
        check_dead_letters(dead_letter_tag)
        return cast("Read[WithDeadLetters[ResultT]]", self._but(dead_letters=dead_letter_tag))

    def expand(self, pcoll: PBegin, /) -> ResultT:
        """Read the rows, and turn each into an instance of the class if there is one."""
        rows: Any = super().expand(pcoll)
        if self.typed_rows is None:
            return cast("ResultT", rows)
        kind = self.typed_rows.kind
        typed: Any = Map(self.typed_rows).with_output_types(kind if self._output_type is None else self._output_type)
        label = f"As {kind.__name__}"
        if self.dead_letters is None:
            return cast("ResultT", rows | label >> typed)
        rows, bad = rows
        instances, unfit = rows | label >> typed.with_exception_handling(self.dead_letters)
        letters = (bad, unfit) | "Bad rows" >> Flatten()
        return cast("ResultT", WithDeadLetters(instances, letters, tag=self.dead_letters))


class ReadFiles(ReadRows[ResultT]):
    """Read files of one format; a subclass sets the class of the source. The arguments are those of `ReadParquet`."""

    source_type: ClassVar[type[FileSource]]
    _line_timeout: Duration | None = Duration(0)

    def __init__(  # noqa: PLR0913 - the options of all formats
        self,
        path: PathLike | Iterable[PathLike],
        *,
        event_time: str | Arrival | None,
        event_time_unit: TimeUnit | None = None,
        processing_time: str | None = None,
        watermark: WatermarkEstimator | DurationLike | None = None,
        follow: bool = False,
        on_missing: OnMissing | None = None,
        schema: pa.Schema | None = None,
        row_type: type[Any] | None = None,
        hive_partitioning: bool | None = None,
        partition_filter: Sequence[tuple[str, str, Any]] | None = None,
        **options: Unpack[WatermarkOptions],
    ) -> None:
        check_arguments(type(self), options)
        origins = origins_of(options)
        made = self._source_type()
        if follow and issubclass(self.source_type, LinesOfRows):
            made = functools.partial(made, line_timeout=self._line_timeout)
        make = functools.partial(
            made,
            paths=absolute_paths(path),
            event_time=event_time,
            event_time_unit=event_time_unit,
            processing_time=processing_time,
            watermark=checked_watermark(event_time, watermark, origins),
            watermark_origins=origins,
            follow=follow,
            on_missing=on_missing,
            hive_partitioning=hive_partitioning,
            partition_filter=partition_filter,
        )
        typed_rows = None if row_type is None else checked_row_type(row_type, schema)
        if typed_rows is None:
            source = make(given=schema).bound()
        elif follow or not self.source_type.is_typed:
            source = make(given=typed_rows.schema).bound()
        else:  # the files say how many bits numbers have
            source = make().bound()
            typed_rows.check_columns(source.schema())
            source = source.project(typed_rows.names)
        super().__init__(source, element_type=Any if source.given is None else source.row_type())
        self.typed_rows = typed_rows

    def with_exception_handling(self, dead_letter_tag: str = "dead_letters") -> Read[WithDeadLetters[ResultT]]:
        """Send rows that cannot be read, and files that do not fit as a whole, to a separate output; see `ReadRows`.

        A file of which none of the first 1,024 rows fits for the same reason is one dead letter with its path.
        """
        read = super().with_exception_handling(dead_letter_tag)
        read.source = attrs.evolve(cast("FileSource", self.source), sets_aside=True)
        return read

    def _source_type(self) -> Callable[..., FileSource]:
        """Return a function that creates the source from the arguments that all formats have."""
        return self.source_type


def checked_row_type(row_type: type[Any], schema: pa.Schema | None = None) -> TypedRows:
    """Return what turns rows into instances of a class.

    Raises:
        InvalidArgument: if a schema is given too.
        InvalidType: as `TypedRows` does.
    """
    if schema is not None:
        raise InvalidArgument(
            f"the fields of `row_type` are the columns, so there must be no `schema`, got {shown(schema.names)}",
            hint="leave one of them out",
        )
    return TypedRows(row_type)


class FileOptions(WatermarkOptions, total=False):
    """The further arguments of a transform that reads files; see `ReadParquet`."""

    event_time_unit: TimeUnit | None
    processing_time: str | None
    watermark: WatermarkEstimator | DurationLike | None
    follow: bool
    on_missing: OnMissing | None
    hive_partitioning: bool | None
    partition_filter: Sequence[tuple[str, str, Any]] | None


class SchemaOptions(FileOptions, total=False):
    """The further arguments of a transform that reads files as rows or as instances of a class."""

    schema: pa.Schema | None
    row_type: type[Any] | None


@with_label_hints()
class ReadParquet(ReadFiles[ResultT]):
    """Read the rows of Parquet files as named tuples.

    Each file is an origin: its rows keep their order, and files are read in natural order of their names, `2024-1-2`
    before `2024-1-10`. Only the row groups that contain the requested rows are read. The columns are those of the first
    file that has rows, with types that hold those of the first 100 files. A column that a file lacks is null, and
    additional columns are ignored. A value of another type is converted if nothing is lost; otherwise its row is a bad
    row. A file with a column of another kind, without a time column, or that is damaged stops the run, or is one dead
    letter with its path as the element. Files and directories whose names begin with `_` or `.` are skipped.

    Args:
        path: a file, a directory (read recursively), a glob, or a list of these; mounted file systems only.
        event_time: the column that holds event times, or `dm.ARRIVAL`. The column may hold timestamps (UTC if they have
            no zone), dates (midnight UTC), integers (since the epoch) or ISO 8601 text (UTC if it has no offset). With
            `None`, rows are at −∞ until a `dm.WithTimestamps(…)` assigns their times; not with `follow`.
        event_time_unit: `"s"`, `"ms"`, `"us"` or `"ns"`: the unit of integers in the columns of `event_time` and
            `processing_time`; microseconds by default. The rows keep the integers.
        processing_time: the column of the replay clock, in the same forms; each file must be sorted by it. By default
            the source uses the wall clock.
        watermark: an estimator such as `dm.BoundedOutOfOrderness("30 minutes")`, for which its delay is short:
            `"30 minutes"`; by default `BoundedOutOfOrderness(0)`.
        follow: also read files that appear later, which makes the collection unbounded. A file must appear complete:
            write it elsewhere on the same file system and rename it into place.
        on_missing: `"fail"` or `"skip"`: what happens if a file disappears between being listed and being read. By
            default, a followed file of which no row was read is skipped if its folder is still there, and everything
            else is an error. Skipped files are logged, and counted as `files_skipped` and `rows_lost`.
        schema: the names and types of the columns, for when there is no file yet or the first files are not typical.
        row_type: a `NamedTuple`, dataclass or attrs class: the rows are instances of it. Its fields name the columns,
            and their types are as for `schema_from_type`; a `datetime` is an instant. The integers of a file may have
            fewer bits, and its timestamps other units, unless files are followed. A row with null in a field whose type
            does not include `None`, or that the class rejects, is a bad row.
        hive_partitioning: whether names of folders such as `dt=2024-05-01/hour=3` below the given path hold columns. By
            default they do if all files lie in folders of the same columns; files in different ones are rejected.
            Without a type in the files or in `schema`, a column holds whole numbers, dates or text; with a leading
            zero, as in `hour=03`, numbers are text. The types are decided once, and a row is a bad row if its folder
            does not fit them or the row itself says something else. With `schema`, only the columns in it are read.
        partition_filter: conditions on these columns that all have to be met, such as `[("dt", ">=", "2024-05-01"),
            ("hour", "in", [0, 12])]`; folders that do not meet them are neither listed nor opened. A condition
            compares text, whole numbers or dates with `==`, `!=`, `<`, `<=`, `>`, `>=`, `in` or `not in`.
        watermark_origin: the column that names the partition of the input that a row belongs to, or `"file"`. Each
            partition then has its own watermark, and the source's watermark is the lowest of them. By default the whole
            source is one partition.
        partitions: the names of partitions that must all have reported before there is a watermark.
        idle_after: how long a partition may be silent before it no longer holds the watermark.
        max_skew: how far a file may be ahead of the low watermark before the source stops reading it for a while; only
            with `watermark_origin`. Applies to streams, with the precision of a micro-batch.
        weight: `"origins"` or `"records"`: what a percentile of the watermark is a percentage of.

    Raises:
        InvalidArgument: if a time column does not exist; the hint lists the columns. Also if the first of its integers
            would be in January 1970, and are seconds or milliseconds of the years from 1990; `event_time_unit` settles
            it. Raised when the pipeline is built if there are files at that time. Also for `row_type` together with
            `schema`, and for a field of it whose column does not exist or has another type.
        InvalidType: for an argument that the transform does not have, and for a `row_type` with a field of a type that
            no column can have.
        SourceError: if none of the files that are there is a valid Parquet file. Bad files and rows raise it while the
            pipeline runs, unless `with_exception_handling` is used.

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
        >>> from typing import NamedTuple
        >>> class Departure(NamedTuple):
        ...     at: int
        ...     carrier: str
        >>> dm.Pipeline() | dm.io.ReadParquet(folder.name, event_time="at", row_type=Departure)
        PCollection('ReadParquet/As Departure', element_type=Departure)
        >>> folder.cleanup()
    """

    source_type = ParquetSource

    if TYPE_CHECKING:

        @overload
        def __init__(
            self: ReadParquet[PCollection],
            path: PathLike | Iterable[PathLike],
            *,
            event_time: str | Arrival | None,
            schema: pa.Schema | None = None,
            row_type: None = None,
            **options: Unpack[FileOptions],
        ) -> None: ...

        @overload
        def __init__(
            self: ReadParquet[PCollection[ElementT]],
            path: PathLike | Iterable[PathLike],
            *,
            event_time: str | Arrival | None,
            row_type: type[ElementT],
            **options: Unpack[FileOptions],
        ) -> None: ...

        def __init__(self, path: Any, **options: Any) -> None: ...


class CsvFileOptions(FileOptions, total=False):
    """The further arguments of `ReadCsv`."""

    delimiter: str
    quote: str | None
    header: bool | None
    columns: Sequence[str] | None
    rename: Mapping[str, str] | None
    null_values: Sequence[str] | None
    timestamp_formats: Sequence[str] | None
    zone: str | None
    ambiguous: str
    nonexistent: str
    decimal_point: str
    thousands: str | None
    comment: str | None
    skip_rows: int
    ragged: str
    encoding: str
    line_timeout: DurationLike | None


class JsonFileOptions(FileOptions, total=False):
    """The further arguments of `ReadJson`."""

    mixed: Literal["text"] | None
    lines: bool
    line_timeout: DurationLike | None


@with_label_hints()
class ReadCsv(ReadFiles[ResultT]):
    r"""Read the rows of CSV files as named tuples; the other arguments and errors are those of `ReadParquet`.

    Types are given by `schema`, or inferred once from the first 16,384 rows of the first file that has rows. A row that
    does not fit them, or has too few or too many values, is a bad row. A quoted value may contain delimiters, line
    breaks and doubled quotes, up to 1 MiB. A quote that is never closed makes its line, and no other, a bad row. A row
    of more than 64 MiB is a bad row, of which the beginning is shown.

    Lines end with `\n`, `\r\n` or `\r`. Empty lines are skipped, and so is a byte order mark at the beginning. Given
    the schema, bytes, durations, lists, maps and records are read as `WriteCsv` writes them: from base64, seconds and
    JSON. Files whose names end in `.gz`, `.bz2` or `.zst` are decompressed as they are read.

    Args:
        path, event_time, options: as in `ReadParquet`. A `datetime` of a `row_type` needs an offset in the file, or
            `zone`.
        delimiter: the ASCII character between two values.
        quote: the character around values, or `None` if quotes are ordinary text.
        header: whether the first row contains the names of the columns; by default it does, unless `columns` is given.
        columns: the names of the columns, for files without a header or, with `header=True`, instead of the header.
        rename: new names for columns, by their names in the header. `schema`, `event_time` and the rows use the new
            names.
        null_values: the texts that stand for null in columns of any type, in addition to an empty value; in quotes,
            they are text. By default, an empty value is null except in columns of text, where it is empty text, and
            words such as `NA`, `null` and `NaN` are null except in columns of text.
        timestamp_formats: how timestamps are written, as formats of Python's `strptime` that have a year. ISO 8601 is
            always accepted. A time that has none of these forms, such as a day that does not exist, makes its row a
            bad row. Time columns are read by the formats even if their values look like numbers, as 20130101 does.
            Without `zone`, a column of times of which only some have an offset holds all of them in UTC.
        zone: the time zone of timestamps without an offset, such as `"Europe/Berlin"`; they then become instants. A
            date in a time column begins with its first instant in the zone, which is midnight unless the clocks skip
            it. By default, timestamps without an offset are local times in the rows, and UTC as event times.
        ambiguous: what a local time means that occurs twice, because the clocks are set back: `"earlier"` or `"later"`
            of the two, or the name of a column that says which: it holds an offset from UTC, such as `+01:00`, or 0 for
            the earlier and 1 for the later time, and is only looked at in rows with such a time. By default, the row is
            a bad row.
        nonexistent: what a local time means that is skipped, because the clocks are set forward: `"earlier"` or
            `"later"`. These are the instants that the offsets after and before the change give, so that where 2:00 to
            3:00 is skipped, 2:30 means 1:30 or 3:30. By default, the row is a bad row.
        decimal_point: the character before the fraction of a number.
        thousands: the character between thousands, such as `"."` in 1.234,50. By default such numbers are text.
        comment: the character at the beginning of lines that are skipped, such as `"#"`.
        skip_rows: the number of lines at the beginning of each file that are skipped. A first line such as `sep=;`, as
            Excel writes it, is skipped in any case, and names the delimiter.
        ragged: what a row is that has fewer values than there are columns: `"bad row"`, or with `"pad"` a row with null
            in the columns that it lacks, columns of text included. A row with too many values is a bad row in any case.
        encoding: the encoding of the files, by its name in Python. Text in another encoding makes its row a bad row.
        line_timeout: how long a followed file must be unchanged for a last line without a line end to be a row; `None`
            to wait for the end in any case. Until then it is counted as `lines_unfinished`.

    Raises:
        InvalidArgument: if options contradict each other, `rename` names a column that does not exist, or `ReadParquet`
            would raise it.
        SourceError: if a file has other columns than the first one, unless `with_exception_handling` is used, or cannot
            be decompressed.

    Source: Beam's `ReadFromCsv`.

    Example:
        >>> import tempfile, pathlib
        >>> import dataflow_model as dm
        >>> folder = tempfile.TemporaryDirectory()
        >>> text = "user-id;when;points\nann;31.12.2012 23:30;4,5\n"
        >>> _ = pathlib.Path(folder.name, "a.csv").write_text(text)
        >>> p = dm.Pipeline()
        >>> rows = p | dm.io.ReadCsv(
        ...     folder.name,
        ...     event_time="when",
        ...     delimiter=";",
        ...     decimal_point=",",
        ...     timestamp_formats=["%d.%m.%Y %H:%M"],
        ...     zone="America/New_York",
        ...     rename={"user-id": "user"},
        ... )
        >>> _ = rows | dm.Map(lambda row: (row.user, row.when.isoformat(), row["points"])) | dm.io.Collect()
        >>> result = p.run()
        >>> _ = result.wait_until_finish()
        >>> [record.value for record in result.collected("Collect")]
        [('ann', '2013-01-01T04:30:00+00:00', 4.5)]
        >>> folder.cleanup()
    """

    source_type = CsvSource

    @overload
    def __init__(
        self: ReadCsv[PCollection],
        path: PathLike | Iterable[PathLike],
        *,
        event_time: str | Arrival | None,
        schema: pa.Schema | None = None,
        row_type: None = None,
        **options: Unpack[CsvFileOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: ReadCsv[PCollection[ElementT]],
        path: PathLike | Iterable[PathLike],
        *,
        event_time: str | Arrival | None,
        row_type: type[ElementT],
        **options: Unpack[CsvFileOptions],
    ) -> None: ...

    def __init__(  # noqa: PLR0913 - everyday files differ in as many ways
        self,
        path: PathLike | Iterable[PathLike],
        *,
        event_time: str | Arrival | None,
        delimiter: str = ",",
        quote: str | None = '"',
        header: bool | None = None,
        columns: Sequence[str] | None = None,
        rename: Mapping[str, str] | None = None,
        null_values: Sequence[str] | None = None,
        timestamp_formats: Sequence[str] | None = None,
        zone: str | None = None,
        ambiguous: str = "bad row",
        nonexistent: str = "bad row",
        decimal_point: str = ".",
        thousands: str | None = None,
        comment: str | None = None,
        skip_rows: int = 0,
        ragged: str = "bad row",
        encoding: str = "utf-8",
        line_timeout: DurationLike | None = LINE_TIMEOUT,
        **options: Unpack[SchemaOptions],
    ) -> None:
        self._line_timeout = _checked_timeout(line_timeout)
        self._written = CsvOptions(
            delimiter=delimiter,
            quote=quote,
            header=header,
            names=columns,
            rename=rename,
            null_values=null_values,
            timestamp_formats=timestamp_formats,
            zone=zone,
            ambiguous=ambiguous,
            nonexistent=nonexistent,
            decimal_point=decimal_point,
            thousands=thousands,
            comment=comment,
            skip_rows=skip_rows,
            ragged=ragged,
            encoding=encoding,
        )
        super().__init__(path, event_time=event_time, **options)

    def _source_type(self) -> Callable[..., FileSource]:
        return functools.partial(CsvSource, options=self._written)


@with_label_hints()
class ReadJson(ReadFiles[ResultT]):
    r"""Read files with one JSON object a line as named tuples; the arguments and errors are those of `ReadParquet`.

    Names and types are given by `schema`, or inferred once from the first 16,384 rows of the first file. A missing
    field is null, a field that is not in the schema is ignored, and a row with a value of another type is a bad row.
    Given the schema, values that JSON has no type for are read as `WriteJson` writes them: dates and times from ISO
    8601, durations from seconds, bytes from base64, and maps from lists of pairs. Files whose names end in `.gz`,
    `.bz2` or `.zst` are decompressed as they are read.

    A number that the type of its column cannot hold, such as `1e400`, makes its row a bad row; in a field that is
    ignored it does no harm. A column whose sample has only nulls is text. Types do not depend on how the file is cut
    into blocks. A line of more than 64 MiB is a bad row.

    Args:
        path, event_time, options: as in `ReadParquet`.
        mixed: with `"text"`, a column of text also takes values of other kinds, as their JSON, and a field that has
            values of several kinds in the sample is such a column. By default the first kind counts, and rows with
            values of another kind are bad rows.
        lines: with `False`, a file is one document: an array of objects, or objects that extend over several lines. It
            is read whole, so its text must fit in memory, in each process that reads it.

    Raises:
        InvalidArgument: if `ReadParquet` would raise it, or for another value of `mixed`.
        SourceError: if no schema is given and the sample has no object, or a file cannot be decompressed.

    Source: Beam's `ReadFromJson`; `lines` is as in pandas.

    Example:
        >>> import pathlib, tempfile
        >>> import dataflow_model as dm
        >>> folder = tempfile.TemporaryDirectory()
        >>> file = pathlib.Path(folder.name) / "delays.json"
        >>> _ = file.write_text('{"carrier": "UA", "at": "2013-01-01T05:00:00Z", "delay": 4}')
        >>> with dm.Pipeline() as p:
        ...     rows = p | dm.io.ReadJson(file, event_time="at")
        ...     _ = rows | dm.Map(lambda row: (row.carrier, row.delay)) | dm.io.Collect()
        >>> [record.value for record in p.result.collected("Collect")]
        [('UA', 4)]
        >>> _ = file.write_text('[\n  {"gate": 5},\n  {"gate": "B12"}\n]\n')
        >>> with dm.Pipeline() as p:
        ...     rows = p | dm.io.ReadJson(file, event_time=None, lines=False, mixed="text")
        ...     _ = rows | dm.Map(lambda row: row.gate) | dm.io.Collect()
        >>> [record.value for record in p.result.collected("Collect")]
        ['5', 'B12']
        >>> folder.cleanup()
    """

    source_type = JsonSource

    @overload
    def __init__(
        self: ReadJson[PCollection],
        path: PathLike | Iterable[PathLike],
        *,
        event_time: str | Arrival | None,
        schema: pa.Schema | None = None,
        row_type: None = None,
        **options: Unpack[JsonFileOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: ReadJson[PCollection[ElementT]],
        path: PathLike | Iterable[PathLike],
        *,
        event_time: str | Arrival | None,
        row_type: type[ElementT],
        **options: Unpack[JsonFileOptions],
    ) -> None: ...

    def __init__(
        self,
        path: PathLike | Iterable[PathLike],
        *,
        event_time: str | Arrival | None,
        mixed: Literal["text"] | None = None,
        lines: bool = True,
        line_timeout: DurationLike | None = LINE_TIMEOUT,
        **options: Unpack[SchemaOptions],
    ) -> None:
        self._line_timeout = _checked_timeout(line_timeout)
        self._json: Any = functools.partial(JsonSource if lines else JsonDocumentSource, mixed=mixed)
        super().__init__(path, event_time=event_time, **options)

    def _source_type(self) -> Callable[..., FileSource]:
        made: Callable[..., FileSource] = self._json
        return made


@with_label_hints()
class ReadText(PTransform[PBegin, PCollection[str]]):
    r"""Read the lines of text files as text, without their line ends; empty lines are elements too.

    Lines end with `\n` or `\r\n`. Files whose names end in `.gz`, `.bz2` or `.zst` are decompressed as they are read.

    Args:
        path, follow, on_missing: as in `ReadParquet`.
        event_time: `None`, so that lines are at −∞ until a `dm.WithTimestamps(…)` assigns their times, or `dm.ARRIVAL`,
            which a followed folder requires.
        encoding: the encoding of the files, by its name in Python. A line in another encoding, or of more than 64
            MiB, is a bad row.
        line_timeout: as in `ReadCsv`.
        skip_header_lines: the number of lines at the beginning of each file that are not read.

    Raises:
        InvalidArgument: if `follow` is set without event times, or for a number of lines that is none.
        InvalidType: if `event_time` is anything else, since lines have no columns.

    Source: Beam's `ReadFromText`.

    Example:
        >>> import tempfile, pathlib
        >>> import dataflow_model as dm
        >>> folder = tempfile.TemporaryDirectory()
        >>> _ = pathlib.Path(folder.name, "a.txt").write_text("to be\nor not\n")
        >>> p = dm.Pipeline()
        >>> _ = p | dm.io.ReadText(folder.name) | dm.FlatMap(str.split) | dm.io.Collect()
        >>> result = p.run()
        >>> _ = result.wait_until_finish()
        >>> [record.value for record in result.collected("Collect")]
        ['to', 'be', 'or', 'not']
        >>> folder.cleanup()
    """

    input_kind = "pipeline"

    def __init__(
        self,
        path: PathLike | Iterable[PathLike],
        *,
        event_time: Arrival | None = None,
        follow: bool = False,
        on_missing: OnMissing | None = None,
        encoding: str = "utf-8",
        line_timeout: DurationLike | None = LINE_TIMEOUT,
        skip_header_lines: int = 0,
    ) -> None:
        if type(skip_header_lines) is not int or skip_header_lines < 0:
            raise InvalidArgument(
                f"`skip_header_lines` must be a whole number of lines, got {skip_header_lines!r}",
                hint="pass the number of lines at the beginning of each file, such as skip_header_lines=1",
            )
        if not (event_time is None or isinstance(event_time, Arrival)):
            raise InvalidType(
                f"`event_time` of ReadText must be None or dm.ARRIVAL, since lines have no columns, got {event_time!r}",
                hint="read the times from the lines with dm.WithTimestamps(…)",
            )
        self._lines: Any = _ReadLines(
            path,
            event_time=event_time,
            follow=follow,
            on_missing=on_missing,
            encoding=encoding,
            line_timeout=line_timeout,
            skipped=skip_header_lines,
        )

    def with_exception_handling(
        self, dead_letter_tag: str = "dead_letters"
    ) -> PTransform[PBegin, WithDeadLetters[PCollection[str]]]:
        """Send lines that are too long or not in the encoding to a separate output, as `DeadLetter`s.

        Applying the transform then returns a pair: the lines and the dead letters.

        Raises:
            InvalidArgument: for the tag of the main output.
            InvalidType: for a tag that is not text.
        """
        changed: Any = self._but(_lines=self._lines.with_exception_handling(dead_letter_tag))
        return cast("PTransform[PBegin, WithDeadLetters[PCollection[str]]]", changed)

    def expand(self, pcoll: PBegin, /) -> PCollection[str]:
        """Read rows with one column, and take the text out of each."""
        rows = pcoll | "Read" >> self._lines
        text = "Text" >> Map(_line)
        lines: Any = (
            rows | text
            if self._lines.dead_letters is None
            else WithDeadLetters(rows[0] | text, rows[1], tag=self._lines.dead_letters)
        )
        return cast("PCollection[str]", lines)


class _ReadLines(ReadFiles[PCollection]):
    """Read lines as rows with one column."""

    source_type = TextSource

    def __init__(
        self,
        path: PathLike | Iterable[PathLike],
        *,
        encoding: str,
        line_timeout: DurationLike | None,
        skipped: int,
        **options: Any,
    ) -> None:
        self._encoding = encoding
        self._skipped = skipped
        self._line_timeout = _checked_timeout(line_timeout)
        super().__init__(path, schema=LINES, hive_partitioning=False, **options)

    def _source_type(self) -> Callable[..., FileSource]:
        return functools.partial(TextSource, encoding=self._encoding, skipped=self._skipped)


def _line(row: Any) -> str:
    line: str = row.line
    return line

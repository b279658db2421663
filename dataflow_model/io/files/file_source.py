"""The base class of sources that read files: origins, schema, ranges of rows, and the order of the replay clock."""

from __future__ import annotations

import abc
import contextlib
import functools
import operator
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import attrs
import numpy as np
import pyarrow as pa

from dataflow_model.errors import LOG, InvalidArgument, InvalidType, SourceError
from dataflow_model.io.files.files_at_fault import one_for_all
from dataflow_model.io.listing.file_identity import (
    FileIdentity,
    FileVersion,
    has_status,
    is_missing,
    missing,
    unfinished_since,
    unreadable,
)
from dataflow_model.io.listing.folder_columns import FolderColumns, from_folders, values_in_folders, with_folder_columns
from dataflow_model.io.listing.folder_filter import FolderFilter, checked_filter
from dataflow_model.io.listing.folder_notifier import FolderNotifier
from dataflow_model.io.listing.known_files import Compared, Listed, Unfinished, is_over
from dataflow_model.io.listing.listed_folder import HIDDEN
from dataflow_model.io.listing.matching import Watch, list_files
from dataflow_model.io.listing.paths import absolute_paths, file_below, root_of
from dataflow_model.overriding import override
from dataflow_model.plan.columns.natural_order import natural
from dataflow_model.plan.columns.nested import without_views
from dataflow_model.plan.columns.replay_clock import last_clock_before
from dataflow_model.plan.columns.rows import row_type
from dataflow_model.plan.columns.source_columns import at_the_beginning, check_time_column, instants
from dataflow_model.plan.columns.time_units import TimeUnit, check_unit, check_unit_of_columns, checked_unit
from dataflow_model.plan.endpoints.column_sources import ColumnSource
from dataflow_model.plan.endpoints.origins import Changes, Origin
from dataflow_model.plan.watermarks.estimators import (
    Arrival,
    BoundedOutOfOrderness,
    Explicit,
    WatermarkEstimator,
    check_estimator,
)
from dataflow_model.plan.watermarks.oldest_file import OldestFile
from dataflow_model.plan.watermarks.origins import EVERYTHING, WatermarkOrigins
from dataflow_model.time import Duration

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from dataflow_model.plan.columns.inferred_columns import ColumnRecord
    from dataflow_model.plan.columns.source_columns import Columns
    from dataflow_model.plan.endpoints.origins import Known

BATCH_ROWS = 65_536
"""Rows in a batch at most: some megabytes, so that a worker holds little and Arrow's overhead is small."""

HEAD_ROWS = 1_024
"""How many rows are looked at for the unit of times, and to find out whether a file is at fault as a whole."""

_MOST_SHOWN = 50
"""How many columns `explain()` shows."""

_HEADS = 3
"""How many files are looked at for the unit of times."""

_TRIES = 5
"""How often a file is examined again if it changes while it is examined."""

OnMissing = Literal["fail", "skip"]

_NO_DELAY = BoundedOutOfOrderness(Duration(0))


def _is_as_listed(path: str, version: tuple[int | str, ...]) -> bool:
    """Return whether a file is unchanged since it was listed; a file that cannot be examined counts as changed."""
    try:
        return has_status(version, os.stat(path))  # noqa: PTH116
    except OSError:
        return False


def checked_time(value: Any) -> str | Arrival | None:
    """Return the argument `event_time`; raise `InvalidType` unless it names a column, or is `dm.ARRIVAL` or `None`."""
    if value is None or isinstance(value, str | Arrival):
        return value
    raise InvalidType(
        f"`event_time` must be a column's name, dm.ARRIVAL or None, got {value!r}",
        hint="pass event_time='scheduled_at', for example",
    )


def _checked_on_missing(value: Any) -> OnMissing | None:
    if value in {None, "fail", "skip"}:
        checked: OnMissing | None = value
        return checked
    raise InvalidArgument(
        f"`on_missing` must be 'fail', 'skip' or None, got {value!r}",
        hint="pass 'skip' to count the rows of files that have disappeared instead of failing",
    )


@attrs.frozen(kw_only=True)
class FileSource(ColumnSource):
    """Files of rows; a file is an origin, named by its path below the common directory of all.

    Attributes:
        paths: absolute paths, directories and globs.
        event_time, processing_time, watermark, watermark_origins: as in `Source`.
        event_time_unit: as in `RowSource`.
        follow: whether files that appear later are read too, which makes the source unbounded. Files must appear
            whole: write them elsewhere on the same file system and rename them into place. A file that is replaced is
            read as a new one; of lines that are appended to a text file, only these.
        on_missing: `"fail"` or `"skip"`: what happens when a file that was listed has disappeared. With `None`, a
            followed source skips it if none of its rows was read and its folder is still there, and fails otherwise.
        given: the columns' names and types as the user states them, or `None` for those of the first file.
        is_inferred: whether `given` was inferred from the first file.
        record: where a run records the columns if they are not known yet.
        columns: the columns to read; `None` for all.
        sets_aside: whether bad rows have an output of their own, so that a file that does not fit stops no run.
        hive_partitioning: whether the names of folders hold columns; `None` if that depends on the names.
        partition_filter: which folders to read.
        grows: whether rows can be appended to a file of this format.
    """

    paths: tuple[str, ...] = attrs.field(converter=absolute_paths)
    event_time: str | Arrival | None = attrs.field(converter=checked_time)
    processing_time: str | None = None
    event_time_unit: TimeUnit | None = attrs.field(default=None, converter=checked_unit)
    watermark: WatermarkEstimator = _NO_DELAY
    watermark_origins: WatermarkOrigins = EVERYTHING
    follow: bool = False
    on_missing: OnMissing | None = attrs.field(default=None, converter=_checked_on_missing, eq=False)
    given: pa.Schema | None = None
    is_inferred: bool = attrs.field(default=False, eq=False, repr=False)
    record: ColumnRecord | None = attrs.field(default=None, eq=False, repr=False)
    columns: tuple[str, ...] | None = None
    sets_aside: bool = attrs.field(default=False, eq=False, repr=False)
    hive_partitioning: bool | None = None
    partition_filter: FolderFilter = attrs.field(factory=FolderFilter, converter=checked_filter)
    _listed: Listed = attrs.field(init=False, eq=False, repr=False, factory=Listed)
    _watch: Watch = attrs.field(init=False, eq=False, repr=False, factory=Watch)
    _unfinished: Unfinished = attrs.field(init=False, eq=False, repr=False, factory=Unfinished)
    _compared: Compared = attrs.field(init=False, eq=False, repr=False, factory=Compared)
    is_bounded: bool = attrs.field(init=False, default=attrs.Factory(lambda self: not self.follow, takes_self=True))
    kind: ClassVar[str] = "file"
    origins_end: ClassVar[bool] = True
    poll_interval = None
    transient_errors = ()
    sorted_by_clock: ClassVar[bool] = True
    grows: ClassVar[bool] = False

    @property
    @override
    def contents(self) -> str:
        names = [] if self.given is None else from_folders(self.given)
        folders = f" with {', '.join(names)} from the names of folders" if names else ""
        return f"{self.kind} files{folders}{f' where {self.partition_filter}' if self._skips else ''}"

    @property
    def _skips(self) -> Callable[[str], bool] | None:
        return self.partition_filter.skips if self.partition_filter.conditions else None

    @property
    def shared_paths(self) -> tuple[str, ...]:
        """The first file; if files may come and go, the directory of all."""
        root = root_of(self.paths)
        return (root if self.follow else os.path.join(root, self._files()[0]),)  # noqa: PTH118 - text is enough

    def __attrs_post_init__(self) -> None:
        """Check the options."""
        check_estimator(self.watermark)
        if self.event_time is None and self.follow:
            raise InvalidArgument(
                "a source that follows files needs event times for its watermark, got event_time=None",
                hint="pass event_time=dm.ARRIVAL; dm.WithTimestamps(…, late_data_horizon=…) can change the times later",
            )
        if isinstance(self.watermark, OldestFile) and self.watermark_origins.by != "file":
            raise InvalidArgument(
                f"{self.watermark!r} needs a watermark for each file, but the origins here are "
                f"{self.watermark_origins.by or 'the whole source'}",
                hint='pass watermark_origin="file", or use dm.FileInjector(…)',
            )
        if self.given is not None:
            if not isinstance(self.given, pa.Schema):
                raise InvalidType(
                    f"`schema` must be a pyarrow.Schema, got {self.given!r}",
                    hint="use pa.schema({'at': pa.int64()})",
                )
            self._check_columns(without_views(self.given))

    # ------------------------------------------------------------------------------------------- for subclasses

    @abc.abstractmethod
    def file_schema(self, path: str) -> pa.Schema | None:
        """Return one file's schema, inferred if the format has none; `None` if there are no rows to infer it from."""

    def first_schema(self, paths: Iterable[str]) -> pa.Schema | None:
        """Return the schema that is decided for some files in order: that of the first one that has one."""
        return next((schema for schema in map(self.file_schema, paths) if schema is not None), None)

    @abc.abstractmethod
    def check_file(self, path: str, expected: pa.Schema) -> None:
        """Raise `SourceError`, naming the file, when its columns are not the expected ones."""

    @abc.abstractmethod
    def count_rows(self, version: FileVersion) -> int:
        """Return how many rows a file has."""

    def count_appended(self, version: FileVersion, size: int, rows: int) -> int:
        """Return how many rows were appended to the first `size` bytes of a file, which hold `rows` rows.

        Raises:
            SourceError: when what was appended belongs to the last of these rows.
        """
        raise NotImplementedError

    @property
    def timeout(self) -> Duration | None:
        """How long a last line without an end is waited for; `None` for as long as the run takes."""
        return Duration(0)

    def count_unfinished(self, version: FileVersion) -> int:
        """Return how many of a file's last rows depend on what may be appended to it."""
        del version
        return 0

    def is_begun(self, version: FileVersion) -> bool:
        """Return whether a file contains enough to check its columns."""
        del version
        return True

    @abc.abstractmethod
    def read_file(self, path: str, columns: pa.Schema, start: int, stop: int | None) -> Iterator[pa.RecordBatch]:
        """Read the named columns of rows `[start, stop)`."""

    def read_head(self, path: str, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Read the named columns of some first rows."""
        return self.read_file(path, columns, 0, HEAD_ROWS)

    def own_columns(self, path: str, folders: pa.Schema) -> pa.Schema:
        """Return those columns of the folders that a file has too, with their types there."""
        schema = None
        with contextlib.suppress(SourceError):  # whoever reads it reports that it cannot be read
            schema = self.file_schema(path)
        names = set(folders.names)
        return pa.schema([] if schema is None else [field for field in schema if field.name in names])

    # ---------------------------------------------------------------------------------------------- ColumnSource

    def origins(self) -> list[Origin]:
        """List the files in natural order, with their numbers of rows; one that has not changed is not opened again.

        Raises:
            SourceError: when there is none and none is waited for, or one cannot be read or has other columns.
        """
        changes = self._changes(self._listed, full=True)
        for name in changes.gone:
            del self._listed[name]
        self._listed.update((origin.name, origin._replace(replaced=False)) for origin in changes.origins)
        return [self._listed[name] for name in sorted(self._listed, key=natural)]

    def poll(self, known: Known, clock: int) -> Changes:
        """Return the files that are new or have changed; only these are opened.

        Where there are many files, one that was written to in place, or was replaced just when others appeared, may be
        noticed some polls later; see `dataflow_model.io.listing.matching`.

        Raises:
            SourceError: as `origins` does, and when a file was changed in a way that does not tell which rows are new.
        """
        return self._changes(known, full=False, clock=clock)

    def notifier(self) -> FolderNotifier | None:
        """Return an notifier for files that appear in the directories of the last poll; `None` except on Linux."""
        return FolderNotifier.open(self._watch.folders)

    def _changes(self, known: Known, *, full: bool, clock: int | None = None) -> Changes:
        listing = self._watch.look(self.paths, full=full, skips=self._skips)
        self._check_found(listing.names)
        self._compared.compare(listing.names, known)
        removed = set(self._compared.removed)
        if removed and self.follow and self.on_missing != "skip":
            self._check_roots(removed)
        root = os.path.join(root_of(self.paths), "")  # noqa: PTH118 - text is enough
        changed = {}
        suspects: Iterable[str] = listing.suspects
        if suspects is not listing.names:
            suspects = self._compared.new | set(suspects)
        finished = self._unfinished.finished(known, clock, self.timeout) if self.grows else set()
        if finished:
            suspects = [*suspects, *(finished & listing.names.keys())]
        for name in suspects:
            before = known.get(name)
            version = None if before is None or name in finished else before.version
            if version is None or not _is_as_listed(root + name, version):
                changed[name] = before
        self._watch.looked()
        origins = []
        for name, before in sorted(changed.items(), key=operator.itemgetter(0)):
            origin = self._look_at(name, root + name, before, clock)
            if origin is not None:
                origins.append(origin)
            elif before is not None:
                removed.add(name)
        if not self.grows:
            return Changes(origins, removed)
        return Changes(origins, removed, self._unfinished.note(origins, removed, known))

    def version_of(self, origin: str) -> FileIdentity:
        """Return the identity of a file, which distinguishes it from another one of the same name.

        Raises:
            SourceError: if it cannot be read.
        """
        path = file_below(self.paths, origin)
        try:
            return FileIdentity.of(FileVersion.of(path))
        except OSError as error:
            raise unreadable(path, error) from error

    def check_version(self, origin: str, version: tuple[int | str, ...]) -> None:
        """Raise `SourceError` if a file was replaced after it was listed."""
        path = file_below(self.paths, origin)
        listed = FileIdentity.from_version(version)
        try:
            if has_status(listed, os.stat(path)):  # noqa: PTH116
                return
            now = FileIdentity.of(FileVersion.of(path))
            if (listed.size, listed.digest) == (now.size, now.digest):
                return
            if self.grows and listed.is_beginning_of(path, now):
                return
        except OSError as error:
            raise unreadable(path, error) from error
        raise SourceError(
            f"{path} was replaced before all rows of the old file had been read",
            hint="restore the old file until its rows are committed, and give the new file another name",
        )

    def is_missing(self, origin: str) -> bool:
        """Return whether there is no file of this name any more."""
        return is_missing(file_below(self.paths, origin))

    def awaits_more(self, version: tuple[int | str, ...] | None) -> bool:
        """Return whether a file ends with a line that is waited for."""
        return unfinished_since(version) > 0

    def check_may_skip(self, origin: str, rows: int) -> None:
        """Log that a file which has disappeared is skipped, or raise `SourceError` according to `on_missing`."""
        path = file_below(self.paths, origin)
        folder_is_there = os.path.isdir(os.path.dirname(path))  # noqa: PTH112, PTH120 - text is enough
        skips = self.follow and not rows and folder_is_there
        if self.on_missing == "skip" or (self.on_missing is None and skips):
            LOG.warning("%s has disappeared since it was listed; its unread rows are skipped", path)
            return
        raise missing(path, "" if folder_is_there else ", nor its folder", rows)

    def read(self, origin: str, start: int, stop: int | None) -> Iterator[pa.RecordBatch]:
        """Read rows `[start, stop)` of a file, to its end when `stop` is `None`.

        Raises:
            SourceError: when the file cannot be read, or is not sorted by the replay clock.
        """
        path = file_below(self.paths, origin)
        if self.processing_time is None:
            return self._rows(origin, path, start, stop)
        first = max(start - 1, 0)  # the row before the range shows whether the clock goes back to the first one
        return self._in_order(self._rows(origin, path, first, stop), origin, first, start - first)

    def _rows(self, origin: str, path: str, start: int, stop: int | None) -> Iterator[pa.RecordBatch]:
        """Read rows of a file together with the columns that the names of its folders hold."""

        def rows(start: int, stop: int | None) -> Iterator[pa.RecordBatch]:
            return self._with_values(origin, path, self.schema(), lambda read: self.read_file(path, read, start, stop))

        if not self.sets_aside:
            return rows(start, stop)
        head = functools.partial(rows, 0, HEAD_ROWS)
        return one_for_all(rows(start, stop), start, path, head, lambda: self.count_rows(FileVersion.of(path)))

    def _with_values(
        self, origin: str, path: str, columns: pa.Schema, read: Callable[[pa.Schema], Iterator[pa.RecordBatch]]
    ) -> Iterator[pa.RecordBatch]:
        """Read columns of a file, and take those that the names of its folders hold from these."""
        folders = self._folders_of(origin)
        return read(columns) if folders is None else folders.rows(columns, self.own_columns(path, folders.fields), read)

    def _folders_of(self, origin: str) -> FolderColumns | None:
        if self.hive_partitioning is False:
            return None
        is_stated = self.given is not None and not self.is_inferred
        full = self.full_schema()
        return FolderColumns.of(full, origin, is_stated=is_stated, required=self.hive_partitioning is True)

    def expected_in(self, path: str) -> pa.Schema:
        """Return the columns that a file must have."""
        folders = self._folders_of(path.removeprefix(os.path.join(root_of(self.paths), "")))  # noqa: PTH118
        if folders is None:
            return self.full_schema()
        return pa.schema([*folders.others, *self.own_columns(path, folders.fields)])

    def columns_of(self, batch: pa.RecordBatch) -> Columns:
        """Split a batch; without event times, the rows are at −∞, as the elements of `Create` are."""
        columns = super().columns_of(batch)
        return at_the_beginning(columns) if self.event_time is None else columns

    def follows(self, directory: str) -> bool:
        """Return whether a directory is one that it follows, or below one and not hidden."""
        followed = [Path(os.path.realpath(path)) for path in self.paths] if self.follow else []
        below = [Path(directory).relative_to(path) for path in followed if Path(directory).is_relative_to(path)]
        return any(not any(part[0] in HIDDEN for part in path.parts) for path in below)

    def size(self) -> int:
        """Return how many bytes the files have now."""
        return sum(FileVersion.of(str(Path(root_of(self.paths), name))).size for name in self._files())

    def schema(self) -> pa.Schema:
        """Return the names and types of the columns that are read.

        Raises:
            SourceError: when they are neither given nor to be had from a file.
            InvalidArgument: when a time column is not among them.
        """
        full = self.full_schema()
        return full if self.columns is None else pa.schema([full.field(name) for name in self.columns])

    def project(self, columns: Collection[str]) -> Self:
        """Return the source with only these columns and those of time and watermark, in the files' order."""
        if isinstance(self.watermark, Explicit):
            return self  # its predicate may look at any column
        needed = {self.event_time, self.processing_time, self.watermark_origins.by_column}
        names = tuple(name for name in self.schema().names if name in columns or name in needed)
        return attrs.evolve(self, columns=names)

    # --------------------------------------------------------------------------------------------------- schema

    def full_schema(self) -> pa.Schema:
        """Return all columns' names and types."""
        if self.given is not None:
            return without_views(pa.schema([field.with_nullable(nullable=True) for field in self.given]))
        recorded = None if self.record is None else self.record.read()
        if recorded is not None:
            return recorded
        names = self._files()
        if not names:
            raise SourceError(
                f"there is no {self.kind} file in {', '.join(self.paths)} yet, so the columns are not known",
                hint="pass schema=pa.schema({…})",
            )
        first_schema = self._first_schema(names)
        if first_schema is None:
            raise SourceError(
                f"{Path(root_of(self.paths), names[0])} has no rows, so the types of its columns are not known",
                hint="pass schema=pa.schema({…}) to set the columns and their types",
            )
        first_schema = self._with_folders(first_schema, names, is_stated=False)
        self._check_columns(first_schema)
        if self.record is not None:
            self.record.record(first_schema)
            attrs.evolve(self, given=first_schema, is_inferred=True).log_columns()
            self._check_unit(first_schema)
        return first_schema

    def _first_schema(self, names: Iterable[str]) -> pa.Schema | None:
        """Return the columns of the first file that has rows to infer them from; `None` if there is no such file."""
        root = root_of(self.paths)
        return self.first_schema(str(Path(root, name)) for name in names)

    def log_columns(self) -> None:
        """Log the columns that were inferred; not those that the files themselves declare."""
        if not self.is_typed:
            LOG.info("%s in %s: %s", self.contents, ", ".join(self.paths), self._columns_text())

    def describe(self) -> str:
        """Return what `explain()` says about the source, with the columns that were inferred."""
        text = super().describe()
        return text if self.is_typed or not self.is_inferred else f"{text}, {self._columns_text()}"

    def _columns_text(self) -> str:
        schema = self.full_schema()
        names = [f"{field.name} {field.type}" for field in schema][:_MOST_SHOWN]
        others = "" if len(names) == len(schema) else f" and {len(schema) - len(names)} more"
        times = self.zone_text(schema)
        return f"columns inferred: {', '.join(names)}{others}{times and '; '}{times}"

    def zone_text(self, schema: pa.Schema) -> str:
        """Return in which zone times without an offset are read, if there are any."""
        local = [repr(field.name) for field in schema if pa.types.is_timestamp(field.type) and field.type.tz is None]
        return f"times without an offset in {', '.join(local)} are UTC as event times" if local else ""

    def bound(self) -> Self:
        """Return the source with the columns of its current files stored in it, if there are files.

        Raises:
            InvalidArgument: when a time column is not among them.
            SourceError: when a file cannot be read.
        """
        if self.given is not None:
            return self if self.is_inferred else self._with_stated_folders(self.given)
        names = list_files(self.paths, self._skips)
        if not names:
            return self
        if self.follow and self._first_schema(names) is None:
            return self  # the first file with rows decides
        bound = attrs.evolve(self, given=self.full_schema(), is_inferred=True)
        bound.log_columns()
        bound._check_unit(bound.full_schema())  # noqa: SLF001 - it is of this class
        return bound

    def _check_unit(self, schema: pa.Schema) -> None:
        """Raise `InvalidArgument` if whole numbers in a time column of the first files have another unit."""
        for option, name in (("event_time", self.event_time), ("processing_time", self.processing_time)):
            if self.event_time_unit is not None or not isinstance(name, str):
                continue
            if not pa.types.is_integer(schema.field(name).type):
                continue
            for file in self._files()[:_HEADS]:
                with contextlib.suppress(OSError, SourceError):  # reading the rows reports it
                    path = str(Path(root_of(self.paths), file))
                    columns = pa.schema([schema.field(name)])
                    for batch in self._with_values(file, path, columns, functools.partial(self.read_head, path)):
                        check_unit(batch.column(0), name, option)

    def _with_stated_folders(self, stated: pa.Schema) -> Self:
        """Return the source with the columns marked that the folders hold, if there are files."""
        try:
            names = list_files(self.paths, self._skips)
        except SourceError:  # a run raises it
            return self
        bound = self
        if names and self.hive_partitioning is not False and not from_folders(stated):
            bound = attrs.evolve(self, given=self._with_folders(stated, names, is_stated=True))
        if names:
            bound._check_unit(bound.full_schema())  # noqa: SLF001 - it is of this class
        return bound

    def _with_folders(self, columns: pa.Schema, files: list[str], *, is_stated: bool) -> pa.Schema:
        """Return columns together with those in the names of folders."""
        values: dict[str, set[str | None]] = {}
        if self.hive_partitioning is not False:
            values = values_in_folders(files, required=self.hive_partitioning is True, mixed=self.follow)
            columns = with_folder_columns(columns, values, is_stated=is_stated, types=self.partition_filter.types())
        self.partition_filter.check(columns, values)
        return columns

    def stated_columns(self) -> pa.Schema | None:
        """Return the columns if the program states them, and they are not those of the first file."""
        return None if self.given is None or self.is_inferred else self.full_schema()

    def recorded_in(self, record: ColumnRecord) -> Self:
        """Return the source with the columns that the run has recorded, or record its own: now, or once it has a file.

        Args:
            record: the record of the run.
        """
        columns = record.read()
        if columns is not None:
            return attrs.evolve(self, given=columns, is_inferred=True)
        if self.given is None:
            return attrs.evolve(self, record=record)
        record.record(self.full_schema())
        return self

    def _check_columns(self, schema: pa.Schema) -> None:
        row_type(schema)  # refuses names that cannot be fields
        if not schema.names:  # Arrow keeps no number of rows without columns
            where = f"the {self.kind} files in {', '.join(self.paths)} have" if self.given is None else "`schema` has"
            raise InvalidArgument(
                f"a row must have at least one column, but {where} none",
                hint="pass schema=pa.schema({…}) with the columns to read",
            )
        for field in schema:
            if pa.types.is_interval(field.type) or pa.types.is_run_end_encoded(field.type):
                raise InvalidArgument(
                    f"column {field.name!r} has type {field.type}, which is not supported in {self.kind} files",
                    hint="use pa.duration('us') for times, and the type of the values for runs of them",
                )
        if isinstance(self.event_time, str):
            check_time_column(schema, self.event_time, "event_time")
        if self.processing_time is not None:
            check_time_column(schema, self.processing_time, "processing_time")
        times = [name for name in (self.event_time, self.processing_time) if isinstance(name, str)]
        check_unit_of_columns(schema, times, self.event_time_unit)
        by = self.watermark_origins.by_column
        names = set(schema.names)
        for name in (*(self.columns or ()), *(() if by is None else (by,))):
            if name not in names:
                hint = f"the columns are {', '.join(schema.names)}"
                raise InvalidArgument(f"there is no column {name!r}", hint=hint)

    def _files(self) -> list[str]:
        names = list_files(self.paths, self._skips)
        self._check_found(names)
        return names

    def _check_found(self, names: Collection[str]) -> None:
        if not names and not self.follow:
            raise SourceError(
                f"there is no file in {', '.join(self.paths)}",
                hint="check the path; names that begin with '_' or '.' are skipped; follow=True waits for files"
                + ("; `partition_filter` skips other folders" if self._skips else ""),
            )

    def _check_roots(self, removed: Collection[str]) -> None:
        """Raise `SourceError` if files are missing since the folder that is followed is, such as an unmounted one.

        If they were forgotten, all their rows would be read again once the folder is back.
        """
        absent = self._watch.absent_roots(self.paths)
        if not absent:
            return
        for name in sorted(removed):
            path = file_below(self.paths, name)
            for root in absent:
                if path.startswith(os.path.join(root, "")):  # noqa: PTH118
                    raise missing(path, f", since the folder {root} that is followed is missing or not mounted", 0)

    # ------------------------------------------------------------------------------------------------------ polls

    def _look_at(self, name: str, path: str, before: Origin | None, clock: int | None) -> Origin | None:
        """Return a new or changed file as an origin; `None` if it has disappeared from a followed folder."""
        if isinstance(self.watermark, OldestFile):
            self.watermark.created_at(name)  # a name that does not tell is refused here, not by a worker
        for _ in range(_TRIES):
            try:
                version = FileVersion.of(path)
                origin = self._origin(name, version, before, clock)
                status = os.stat(path)  # noqa: PTH116
            except (OSError, SourceError) as error:
                if (self.follow or self.on_missing == "skip") and is_missing(path):
                    return None
                if isinstance(error, OSError):
                    raise unreadable(path, error) from error
                raise
            has_grown = self.grows and version.inode == status.st_ino and version.size < status.st_size
            if has_grown or has_status((version.size, version.modified, version.inode), status):
                return origin
        raise SourceError(
            f"{path} keeps changing while it is read",
            hint="write the file elsewhere on the same file system, and rename it into place when it is complete",
        )

    def _origin(self, name: str, version: FileVersion, before: Origin | None, clock: int | None) -> Origin:
        """Return a file as an origin: the known one, the known one with more rows, or a new one."""
        path, identity = version.path, FileIdentity.of(version)
        rows = 0 if before is None else before.row_count
        if before is not None and before.version is not None:
            was = FileIdentity.from_version(before.version)
            if was.is_same_file(identity):
                if was.since and is_over(was.since, clock, self.timeout):
                    if not rows:
                        self.check_file(path, self.drained().expected_in(path))
                    return Origin(name, max(rows, self.count_rows(version)), identity)
                return Origin(name, rows, identity._replace(since=was.since))
            if self.grows and was.is_beginning_of(path, identity):
                if rows:
                    total = rows + self.count_appended(version, was.size, rows)
                    return self._with_rows(name, total, version, identity, rows, clock)
                self._check_new(version, clock)
                return self._with_rows(name, self.count_rows(version), version, identity, 0, clock)
        self._check_new(version, clock)
        origin = self._with_rows(name, self.count_rows(version), version, identity, 0, clock)
        is_another = before is not None and (before.version is not None or origin.row_count < rows)
        return origin._replace(replaced=is_another)

    def _check_new(self, version: FileVersion, clock: int | None) -> None:
        """Check the columns of a file, unless they are not known before its first line is finished."""
        if clock is None or self.is_begun(version) or (self.timeout == Duration(0) and self.count_rows(version)):
            self.check_file(version.path, self.expected_in(version.path))

    def _with_rows(
        self, name: str, total: int, version: FileVersion, identity: FileIdentity, before: int, clock: int | None
    ) -> Origin:
        """Return a file as an origin, without the rows that may not be finished.

        Args:
            name: the name of the file.
            total: the number of its rows, if nothing is appended.
            version: the file.
            identity: that of the file.
            before: the number of its rows that have been listed before.
            clock: the clock of the stream; `None` if nothing is waited for.
        """
        unfinished = 0 if clock is None or self.timeout == Duration(0) else self.count_unfinished(version)
        if clock is None or not unfinished:
            return Origin(name, total, identity)
        return Origin(name, max(before, total - unfinished), identity._replace(since=max(clock, 1)))

    # ---------------------------------------------------------------------------------------------------- clock

    def _in_order(
        self, batches: Iterator[pa.RecordBatch], origin: str, first: int, before: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches without the rows before the range, and raise an error if the replay clock goes backward."""
        name = str(self.processing_time)
        last: int | None = None
        row = first
        for batch in batches:
            times, known = instants(batch.column(name), self.event_time_unit)
            indices = np.arange(len(times)) if known is None else np.flatnonzero(known)
            times = times[indices]
            if before and not (len(indices) and indices[0] == 0):  # the row before the range has no clock
                read = functools.partial(self._rows, origin, file_below(self.paths, origin))
                last = last_clock_before(read, name, first, self.event_time_unit)
            if len(times):
                steps = np.diff(times, prepend=times[0] if last is None else last)
                if (steps < 0).any():
                    at = int(np.argmax(steps < 0))
                    values = batch.column(name).take(pa.array(indices[max(at - 1, 0) : at + 1])).to_pylist()
                    earlier = values[0] if at else _instant_text(last)
                    raise self._unsorted(origin, earlier, values[-1], row + int(indices[at]))
                last = int(times[-1])
            row += batch.num_rows
            if batch.num_rows > before:
                yield batch.slice(before)
            before = 0

    def _unsorted(self, origin: str, earlier: Any, later: Any, row: int) -> SourceError:
        return SourceError(
            f"{file_below(self.paths, origin)} is not sorted by its replay clock: column "
            f"{self.processing_time!r} goes backward from {earlier} to {later} at {self.where(origin, row)}",
            hint=f"sort each file by {self.processing_time!r}, or leave `processing_time` out (the wall clock)",
        )


def _instant_text(micros: int | None) -> str:
    return "nothing" if micros is None else str(pa.scalar(micros, pa.timestamp("us", "UTC")).as_py())

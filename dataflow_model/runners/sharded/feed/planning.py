"""Plan micro-batches: how far each reads, and what every shard has to know about it."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.micros import wall_clock
from dataflow_model.plan.columns.natural_order import natural
from dataflow_model.plan.endpoints.retries import RETRIES, retried
from dataflow_model.plan.watermarks.oldest_file import OldestFile
from dataflow_model.runners.engine.functions.user_code import exits_reported, source_calls
from dataflow_model.runners.engine.sources.in_program import script_events
from dataflow_model.runners.engine.sources.script_instants import script_instants
from dataflow_model.runners.engine.sources.timeline import NOTHING_AWAITED, TO_COME, Awaited
from dataflow_model.runners.sharded.checkpoint.requests import signal_of
from dataflow_model.runners.sharded.feed.origins import OriginOffset, SourceOffset
from dataflow_model.runners.sharded.feed.pacing import shares, unread
from dataflow_model.runners.sharded.feed.polls import Polls
from dataflow_model.runners.sharded.feed.slices import Slice
from dataflow_model.runners.sharded.tasks.faults import NO_FAULT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dataflow_model.plan.endpoints.column_sources import ColumnSource
    from dataflow_model.plan.endpoints.origins import ChangeNotifier
    from dataflow_model.plan.logical.nodes import Read
    from dataflow_model.runners.engine.lanes.order import At
    from dataflow_model.runners.engine.sources.script_instants import ScriptInstant
    from dataflow_model.runners.sharded.feed.offsets import Offset
    from dataflow_model.runners.sharded.tasks.program import Program

NOTHING_COMMITTED: Final[dict[str, Any]] = {}
_WORTH_A_TASK: Final = 20_000
"""A row range is divided among tasks that read this many rows or more."""


@attrs.frozen(kw_only=True)
class Control:
    """The driver's decisions for one micro-batch, which every shard receives.

    Attributes:
        wall: the tick of the wall clock, or `None` with a replay clock or a script.
        begins: the labels of sources that start with this micro-batch: all sources of a new run, later added ones.
        open_origins: the (label, origin) pairs that may have rows in a later micro-batch.
        ended: the labels of sources whose last row is in this micro-batch or an earlier one.
        steps: for scripts, the steps of this micro-batch; otherwise `None`.
        last: whether the input ends with this micro-batch.
        signals: the names of the signals that take effect at its start.
        declared: by label, the watermark origins that must all report: of sources that start, and new ones of a source
            whose origins are listed.
        finished: by label, the origins without rows after this micro-batch: they have been read completely, or no
            longer exist.
        changes: by label, the changes of a followed source that are reported to users; see `SourceOffset`.
        drains: whether the run is being drained, so that functions end the work that outlasts the input.
    """

    wall: int | None = None
    begins: tuple[str, ...]
    open_origins: tuple[tuple[str, str], ...] = ()
    ended: tuple[str, ...] = ()
    steps: tuple[ScriptInstant, ...] | None = None
    last: bool
    signals: tuple[str, ...] = ()
    declared: tuple[tuple[str, tuple[str, ...]], ...] = ()
    finished: tuple[tuple[str, tuple[str, ...]], ...] = ()
    changes: tuple[tuple[str, dict[str, int]], ...] = ()
    drains: bool = False


@attrs.define
class Feed:
    """Decides what each micro-batch reads; runs on the driver.

    Args:
        reads: the sources to read.
        rows_per_batch: the maximum number of rows, or of steps of a script.
        parallelism: the number of tasks that read a micro-batch.
        awaited: what the plan's triggers wait for.
        read_clock: a function from the wall clock to the time to use, in which tests inject faults.
        sequencer: the sequencer of this start of the run, which is logged with what it plans; 0 without a checkpoint.
        polls: when each source is polled.
        outlasts: whether a function may have work left when the input has ended.
    """

    reads: Sequence[Read]
    rows_per_batch: int
    parallelism: int
    awaited: Awaited = NOTHING_AWAITED
    read_clock: Callable[[int], int] = NO_FAULT.read_clock
    sequencer: int = 0
    polls: Polls = attrs.field(factory=Polls)
    outlasts: bool = False
    _instants: Sequence[ScriptInstant] | None = attrs.field(default=None, init=False)

    @classmethod
    def of(
        cls,
        program: Program,
        *,
        rows_per_batch: int,
        parallelism: int,
        read_clock: Callable[[int], int],
        polls: Polls | None = None,
    ) -> Feed:
        """Return the feed of a program; see `Feed` for the arguments."""
        return cls(
            program.staged.sources,
            rows_per_batch,
            parallelism,
            program.awaited,
            read_clock,
            program.sequencer,
            Polls() if polls is None else polls,
            program.outlasts,
        )

    @property
    def replays(self) -> bool:
        """Whether the data determine the clock."""
        return any(read.source.processing_time is not None for read in self.reads)

    @property
    def scripts(self) -> bool:
        """Whether the sources are scripts."""
        return any(read.source.as_script is not None for read in self.reads)

    def next(
        self,
        start: Offset,
        *,
        drain: bool,
        until_drained: bool = False,
        signals: Sequence[str] = (),
        committed: Mapping[str, Any] = NOTHING_COMMITTED,
    ) -> Offset:
        """Return the end of the micro-batch that starts at `start`; `start` itself if the run is over.

        A run goes on after the end of its input as long as something is due: the work that outlasts the input.

        Args:
            start: the offset at which the micro-batch starts.
            drain: whether to end the input here.
            until_drained: whether to end the input once the data that exist now have been read.
            signals: the pending requests for signals, in order; each is taken once.
            committed: the progress that the last commit wrote.
        """
        if start.last and not (self.outlasts and committed.get("moment") is not None):
            return start
        labels = tuple(read.label for read in self.reads)
        end = attrs.evolve(
            start,
            batch=start.batch + 1,
            clock=max(start.clock + 1, self.wall()),
            sequencer=self.sequencer,
            begun=labels,
            signals=tuple(signals),
            signalled=max([start.signalled, *signals]),
            drains=start.drains or drain or (until_drained and start.last),
        )
        if start.last:
            return attrs.evolve(end, sources={label: source.unpolled() for label, source in start.sources.items()})
        if self.scripts:
            steps = len(self._script())
            return attrs.evolve(end, step=min(start.step + self.rows_per_batch, steps), last=start.step >= steps)
        follows = self._follows() and not (until_drained and start.listed == self.sequencer)
        begins = not set(labels) <= set(start.begun)
        listed = self._list(start, end.clock, committed, polls=begins or follows, is_last=until_drained)
        is_complete = not follows or self.polls.complete.issuperset(self._followed())
        over = not (follows or any(unread(listed).values()))
        enough = bool(committed.get("enough"))
        read = listed
        if not drain and not enough:
            counts = shares(unread(listed), self.rows_per_batch, self.reads, committed)
            read = {label: source.advanced(counts.get(label, {})) for label, source in listed.items()}
        nothing_listed = drain and not listed
        last = enough or nothing_listed or (not begins and (over or drain))
        return attrs.evolve(
            end,
            listed=self.sequencer if until_drained and is_complete else None,
            last=last,
            drains=end.drains or (until_drained and last),
            sources={label: source.finished() if source.is_followed else source for label, source in read.items()},
        )

    def notifiers(self) -> list[ChangeNotifier]:
        """Return the notifiers of the sources that have one; the caller closes them."""
        sources = [read.source.as_columns for read in self.reads if not read.source.is_bounded]
        notifiers = [source.notifier() for source in sources if source is not None]
        return [notifier for notifier in notifiers if notifier is not None]

    def wall(self) -> int:
        """Return the wall clock, in microseconds."""
        return self.read_clock(wall_clock())

    def control(self, start: Offset, end: Offset) -> Control:
        """Return the decisions for a micro-batch, which every shard receives."""
        # A micro-batch that is repeated after a restart with more sources does not have them; the next one does.
        begun = [read for read in self.reads if read.label in end.begun]
        begins = tuple(read.label for read in begun if read.label not in start.begun)
        static = tuple(read.label for read in begun if read.source.as_elements is not None)
        signals = tuple(signal_of(request) for request in end.signals if request > start.signalled)
        if self.scripts:
            steps = tuple(self._script()[start.step : end.step])
            return Control(begins=begins, steps=steps, last=end.last, signals=signals)
        open_origins: list[tuple[str, str]] = []
        ended = list(static)
        for read in begun:
            if read.source.as_dataframe is not None and end.last:
                ended.append(read.label)
            columns = read.source.as_columns
            if columns is None:
                continue
            after = end.of_source(read.label)
            left = [(read.label, name) for name, origin in after.open.items() if origin.left]
            if end.last or (not left and read.source.is_bounded and self._settled(start, read.label)):
                ended.append(read.label)
            elif read.source.is_bounded:
                open_origins += left
            elif self.replays:  # not needed with the wall clock, and a folder may contain many files
                open_origins += _open_origins(read.label, columns, after)
        wall = None if self.replays else end.clock
        return Control(
            wall=wall,
            begins=begins,
            open_origins=tuple(open_origins) if self.replays and not end.last else (),
            ended=tuple(ended),
            last=end.last,
            signals=signals,
            declared=self._declared(start, end, begins),
            finished=self._finished(start, end),
            changes=tuple((label, dict(source.changes)) for label, source in end.sources.items() if source.changes),
            drains=end.drains,
        )

    def slices(self, start: Offset, end: Offset) -> list[Slice]:
        """Return the row ranges of a micro-batch."""
        slices = []
        # A micro-batch of an earlier release may have rows of sources that only static side inputs need.
        readable = {read.label for read in self.reads if read.source.as_columns is not None}
        for label in sorted(readable & end.sources.keys()):
            before, after = start.of_source(label), end.of_source(label)
            for name in sorted([*after.open, *after.completed], key=natural):
                origin = after.find(name)
                assert origin is not None  # noqa: S101 - it is open or done
                earlier = before.find(name) if after.is_same(name, before) else None
                begin_at = 0 if earlier is None else earlier.read
                if origin.read > begin_at:
                    part = Slice(label, name, begin_at, origin.read, origin.first, origin.version, read=begin_at)
                    slices += self._cut(part)
        return slices

    def script_rows(self, start: Offset, end: Offset) -> list[tuple[str, int, int, dict[int, At]]]:
        """Return, for each script, the events of a micro-batch and the instant of each."""
        instants_of: dict[str, dict[int, At]] = {}
        for instant in self._script()[start.step : end.step]:
            instants_of.setdefault(instant.label, {})[instant.row] = instant.at
        return [(label, min(rows), max(rows) + 1, rows) for label, rows in instants_of.items() if label]

    def _declared(self, start: Offset, end: Offset, begins: Sequence[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
        declared = []
        for read in self.reads:
            origins = read.source.watermark_origins
            before, after = start.of_source(read.label), end.of_source(read.label)
            # All listed files count, whether they have been read or not.
            listed = isinstance(read.source.watermark, OldestFile)
            names = set(origins.partitions) if read.label in begins else set()
            if listed or (origins.by == "file" and read.source.is_bounded and read.label in begins):
                names.update({*after.open, *after.completed}.difference(before.open))
            source = read.source.as_columns
            if source is not None and source.origin_column is not None and source.origin_column == origins.by:
                names.update(after.names() - before.names())
            if names:
                declared.append((read.label, tuple(sorted(names))))
        return tuple(declared)

    def _finished(self, start: Offset, end: Offset) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Return the origins that were read completely in this micro-batch, and those that disappeared before that."""
        finished = []
        for read in self.reads:
            before, after = start.of_source(read.label), end.of_source(read.label)
            names = [name for name in after.completed if not _awaits_more(read, after, name)]
            names += [
                name
                for name, origin in after.open.items()
                if not origin.left
                and not (after.is_same(name, before) and name in before.open and before.is_read(name))
            ]
            names += [name for name, origin in before.open.items() if origin.left and after.find(name) is None]
            if before.done is not after.done:
                names += [
                    name
                    for name in sorted(before.done.keys() - after.done.keys() - after.open.keys())
                    if _awaits_more(read, before, name)
                ]
            if names:
                finished.append((read.label, tuple(names)))
        return tuple(finished)

    def _settled(self, start: Offset, label: str) -> bool:
        """Return whether a source can end: with the wall clock only at the tick after its last rows."""
        return self.replays or (label in start.sources and not any(unread({label: start.sources[label]}).values()))

    def _cut(self, part: Slice) -> list[Slice]:
        """Divide a row range among several tasks, if it is long enough."""
        length = part.stop - part.start
        parts = max(1, min(self.parallelism, length // _WORTH_A_TASK))
        bounds = [part.start + length * number // parts for number in range(parts + 1)]
        return [attrs.evolve(part, start=first, stop=last) for first, last in itertools.pairwise(bounds)]

    def _follows(self) -> bool:
        return any(not read.source.is_bounded for read in self.reads)

    def _followed(self) -> list[str]:
        return [read.label for read in self.reads if read.source.as_columns and not read.source.is_bounded]

    def _list(
        self, start: Offset, clock: int, committed: Mapping[str, Any], *, polls: bool, is_last: bool
    ) -> dict[str, SourceOffset]:
        """Return what there is to read; bounded sources are listed once, others whenever `polls` is set.

        If this `is_last` poll, sources wait for nothing.
        """
        listed: dict[str, SourceOffset] = {}
        for read in self.reads:
            source, label = read.source.as_columns, read.label
            if source is None:
                continue
            with exits_reported(label):
                if not source.is_bounded:
                    before = start.of_source(label)
                    polled = self._polled(label, source, before, clock, is_last=is_last) if polls else None
                    listed[label] = before.unpolled() if polled is None else polled
                elif label in start.sources:
                    listed[label] = _versions_read(
                        start.sources[label], source, committed.get("versions", {}).get(label)
                    )
                elif polls:
                    listed[label] = _counted(label, source)
        return listed

    def _polled(
        self, label: str, source: ColumnSource, before: SourceOffset, clock: int, *, is_last: bool
    ) -> SourceOffset | None:
        """Poll a source and return its origins; `None` if it is not due, or fails for now.

        If this `is_last` poll, it does not wait until the source is due.
        """
        if not self.polls.is_due(label, at_once=is_last and label not in self.polls.complete):
            return None
        source = source.drained() if is_last else source
        with source_calls(label, "poll", source.is_users):
            polled = self.polls.poll(label, source, lambda: source.poll(before, clock))
        if polled is None:
            return None
        listing, retries = polled
        if is_last and not listing.has_more:
            self.polls.complete.add(label)
        after = before.listed(source, listing, label)
        return attrs.evolve(after, changes={**after.changes, RETRIES: retries}) if retries else after

    def _script(self) -> Sequence[ScriptInstant]:
        if self._instants is None:
            self._instants = script_instants(script_events(self.reads, self.awaited.percentiles))
        return self._instants


def _counted(label: str, source: ColumnSource) -> SourceOffset:
    """Return the origins of a bounded source, of which nothing has been read."""
    counts: Counter[str] = Counter()
    with source_calls(label, "origins", source.is_users):
        origins = retried(source, label, "origins", source.counted_origins, counts)
    has_gaps = source.position_column is not None
    keeps_version = has_gaps or source.holds_rows
    listed = {
        origin.name: OriginOffset(
            origin.first if has_gaps else 0,
            origin.first if has_gaps else 0,
            (origin.first if has_gaps else 0) + origin.row_count,
            origin.version if keeps_version else None,
        )
        for origin in origins
    }
    return SourceOffset(is_followed=False, open=listed, changes=dict(counts))


def _versions_read(
    origins: SourceOffset, source: ColumnSource, versions: Mapping[str, Sequence[int | str]] | None
) -> SourceOffset:
    """Return the origins of a bounded source for its next micro-batch.

    An origin may change before its first row is read, for example if a damaged file is repaired. From then on it has
    the version that was read. A source that holds its rows always has its own.
    """
    if source.holds_rows or source.position_column is not None:
        return attrs.evolve(origins, changes={})
    known = versions or {}
    after = {name: attrs.evolve(origin, version=known.get(name)) for name, origin in origins.open.items()}
    return attrs.evolve(origins, open=after, changes={})


def _open_origins(label: str, source: ColumnSource, after: SourceOffset) -> list[tuple[str, str]]:
    """Return the origins of an unbounded source that may have rows later, and that to come if there may be more."""
    if source.origins_end:
        return [*((label, name) for name, origin in after.open.items() if origin.left), (label, TO_COME)]
    names = (*after.open, *after.done)
    stay = [name for name in names if not source.ends(name)]
    left = [name for name, origin in after.open.items() if origin.left and source.ends(name)]
    return [(label, name) for name in (*left, *(stay or (TO_COME,)))]


def _awaits_more(read: Read, offset: SourceOffset, name: str) -> bool:
    source, origin = read.source.as_columns, offset.find(name)
    return source is not None and source.awaits_more(None if origin is None else origin.version)

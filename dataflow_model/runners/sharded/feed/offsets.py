"""Offsets: how far a micro-batch reads, and its clock. They are logged, so a repeated micro-batch is the same."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final, TypedDict, cast

import attrs

from dataflow_model.micros import wall_clock
from dataflow_model.plan.columns.natural_order import natural
from dataflow_model.plan.endpoints.retries import RETRIES, retried
from dataflow_model.plan.watermarks.oldest_file import OldestFile
from dataflow_model.runners.engine.functions.user_code import exits_reported
from dataflow_model.runners.engine.sources.timeline import NOTHING_AWAITED, TO_COME, Awaited
from dataflow_model.runners.sharded.checkpoint.durable import FORMAT
from dataflow_model.runners.sharded.checkpoint.requests import signal_of
from dataflow_model.runners.sharded.feed.followed import BY_SOURCE, Followed
from dataflow_model.runners.sharded.feed.pacing import advance
from dataflow_model.runners.sharded.feed.polls import Polls
from dataflow_model.runners.sharded.feed.script_places import script_places
from dataflow_model.runners.sharded.feed.slices import Slice
from dataflow_model.runners.sharded.tasks.faults import NO_FAULT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dataflow_model.plan.endpoints.sources import ChangeNotifier, ColumnSource
    from dataflow_model.plan.logical.nodes import Read
    from dataflow_model.runners.engine.lanes.order import At
    from dataflow_model.runners.sharded.feed.followed import Entry
    from dataflow_model.runners.sharded.feed.script_places import ScriptPlace
    from dataflow_model.runners.sharded.tasks.program import Program

NOTHING_COMMITTED: Final[dict[str, Any]] = {}
_WORTH_A_TASK: Final = 20_000
"""A row range is divided among tasks that read this many rows or more."""


class Offset(TypedDict):
    """How far the sources have been read after a micro-batch; Spark and the checkpoint log it as JSON.

    Keys:
        format: the format of the checkpoint.
        batch: the number of micro-batches.
        sequencer: the sequencer of the start that planned the micro-batch; 0 without a checkpoint.
        clock: the wall clock of the micro-batch; it increases with each.
        begun: the labels of the sources that have started.
        listed: under `until="drained"`, the sequencer of the start that has listed the sources since; else `None`.
        step: the number of steps that scripts have made.
        last: whether the input ends with the micro-batch.
        signals: the requests for signals that were pending when the micro-batch was planned.
        signalled: the last of all requests for signals that were taken; `""` before the first.
        rows: by source, the number of rows read of each open origin; see `followed` for this and the following keys.
        totals: by source, the number of rows of each open origin; of a bounded source, of all its origins.
        versions: by source, the base and the version of each open origin.
        done: by unbounded source, the number of rows, the base and the version of each origin that is done.
        completed: by unbounded source, the origins that the micro-batch has finished.
        passed: by unbounded source, the number of rows read of origins that are not open.
        changes: by unbounded source, the changes that are reported to users.
    """

    format: int
    batch: int
    sequencer: int
    clock: int
    begun: list[str]
    listed: int | None
    step: int
    last: bool
    signals: list[str]
    signalled: str
    rows: dict[str, dict[str, int]]
    totals: dict[str, dict[str, int]]
    versions: dict[str, dict[str, Entry]]
    done: dict[str, dict[str, Entry]]
    completed: dict[str, list[str]]
    passed: dict[str, int]
    changes: dict[str, dict[str, int]]


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
        changes: by label, the changes of a followed source that are reported to users; see `Followed`.
    """

    wall: int | None = None
    begins: tuple[str, ...]
    open_origins: tuple[tuple[str, str], ...] = ()
    ended: tuple[str, ...] = ()
    steps: tuple[ScriptPlace, ...] | None = None
    last: bool
    signals: tuple[str, ...] = ()
    declared: tuple[tuple[str, tuple[str, ...]], ...] = ()
    finished: tuple[tuple[str, tuple[str, ...]], ...] = ()
    changes: tuple[tuple[str, dict[str, int]], ...] = ()


def begin() -> Offset:
    """Return the initial offset, before anything is read."""
    return {
        "format": FORMAT,
        "batch": 0,
        "sequencer": 0,
        "clock": 0,
        "begun": [],
        "listed": None,
        "step": 0,
        "last": False,
        "signals": [],
        "signalled": "",
        "rows": {},
        "totals": {},
        "versions": {},
        "done": {},
        "completed": {},
        "passed": {},
        "changes": {},
    }


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
    """

    reads: Sequence[Read]
    rows_per_batch: int
    parallelism: int
    awaited: Awaited = NOTHING_AWAITED
    read_clock: Callable[[int], int] = NO_FAULT.read_clock
    sequencer: int = 0
    polls: Polls = attrs.field(factory=Polls)
    _places: Sequence[ScriptPlace] | None = attrs.field(default=None, init=False)

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
        """Return the end of the micro-batch that starts at `start`; `start` itself if the input has ended.

        Args:
            start: the offset at which the micro-batch starts.
            drain: whether to end the input here.
            until_drained: whether to end the input once the data that exist now have been read.
            signals: the pending requests for signals, in order; each is taken once.
            committed: the progress that the last commit wrote.
        """
        if start["last"]:
            return start
        wall = self.wall()
        end: Offset = {**start, "batch": start["batch"] + 1, "clock": max(start["clock"] + 1, wall)}
        end["sequencer"] = self.sequencer
        end["begun"] = [read.label for read in self.reads]
        end["signals"] = list(signals)
        end["signalled"] = max([start["signalled"], *signals])
        if self.scripts:
            steps = len(self._script())
            end["step"] = min(start["step"] + self.rows_per_batch, steps)
            end["last"] = start["step"] >= steps
            return end
        follows = self._follows() and not (until_drained and start["listed"] == self.sequencer)
        begins = not set(end["begun"]) <= set(start["begun"])
        is_listed = self._list(start, end, committed, polls=begins or follows, is_last=until_drained)
        end["listed"] = self.sequencer if until_drained and is_listed else None
        rows, totals = end["rows"], end["totals"]
        enough = bool(committed.get("enough"))
        if not drain and not enough:
            advance(rows, totals, self.rows_per_batch, self.reads, committed)
        over = not (follows or self._left(start["rows"], totals))
        nothing_listed = drain and not totals
        end["last"] = enough or nothing_listed or (not begins and (over or drain))
        self._complete(end)
        return end

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
        begun = [read for read in self.reads if read.label in end["begun"]]
        begins = tuple(read.label for read in begun if read.label not in start["begun"])
        static = tuple(read.label for read in begun if read.source.as_elements is not None)
        signals = tuple(signal_of(request) for request in end["signals"] if request > start["signalled"])
        if self.scripts:
            steps = tuple(self._script()[start["step"] : end["step"]])
            return Control(begins=begins, steps=steps, last=end["last"], signals=signals)
        open_origins: list[tuple[str, str]] = []
        ended = list(static)
        for read in begun:
            if read.source.as_dataframe is not None and end["last"]:
                ended.append(read.label)
            columns = read.source.as_columns
            if columns is None:
                continue
            totals = end["totals"].get(read.label, {})
            rows = end["rows"].get(read.label, {})
            left = [(read.label, origin) for origin, total in totals.items() if rows.get(origin, 0) < total]
            if end["last"] or (not left and read.source.is_bounded and self._settled(start, read.label)):
                ended.append(read.label)
            elif read.source.is_bounded:
                open_origins += left
            elif columns.origins_end:
                open_origins += [*left, (read.label, TO_COME)]
            elif self.replays:  # not needed with the wall clock, and a folder may contain many files
                names = [*totals, *Followed.of(end, read.label).done]
                open_origins += [(read.label, origin) for origin in names] or [(read.label, TO_COME)]
        wall = None if self.replays else end["clock"]
        return Control(
            wall=wall,
            begins=begins,
            open_origins=tuple(open_origins) if self.replays and not end["last"] else (),
            ended=tuple(ended),
            last=end["last"],
            signals=signals,
            declared=self._declared(start, end, begins),
            finished=self._finished(start, end),
            changes=tuple((label, changes) for label, changes in end["changes"].items() if changes),
        )

    def slices(self, start: Offset, end: Offset) -> list[Slice]:
        """Return the row ranges of a micro-batch."""
        slices = []
        # A micro-batch of an earlier release may have rows of sources that only static side inputs need.
        readable = {read.label for read in self.reads if read.source.as_columns is not None}
        for label in sorted(readable & end["rows"].keys()):
            before, after = Followed.of(start, label), Followed.of(end, label)
            for origin in sorted([*after.rows, *after.completed], key=natural):
                stop = after.place_of(origin)
                begin_at = before.place_of(origin) if after.is_same(origin, before) else 0
                if stop > begin_at:
                    base, version = after.base(origin), after.version(origin)
                    slices += self._cut(Slice(label, origin, begin_at, stop, base, version, read=begin_at))
        return slices

    def script_rows(self, start: Offset, end: Offset) -> list[tuple[str, int, int, dict[int, At]]]:
        """Return, for each script, the events of a micro-batch and the instant of each."""
        places_of: dict[str, dict[int, At]] = {}
        for place in self._script()[start["step"] : end["step"]]:
            places_of.setdefault(place.label, {})[place.row] = place.at
        return [(label, min(places), max(places) + 1, places) for label, places in places_of.items() if label]

    def _declared(self, start: Offset, end: Offset, begins: Sequence[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
        declared = []
        for read in self.reads:
            origins = read.source.watermark_origins
            # All listed files count, whether they have been read or not.
            listed = isinstance(read.source.watermark, OldestFile)
            names = set(origins.partitions) if read.label in begins else set()
            if listed or (origins.by == "file" and read.source.is_bounded and read.label in begins):
                before, after = Followed.of(start, read.label), Followed.of(end, read.label)
                names.update({*after.totals, *after.completed}.difference(before.totals))
            source = read.source.as_columns
            if source is not None and source.origin_column is not None and source.origin_column == origins.by:
                before, after = Followed.of(start, read.label), Followed.of(end, read.label)
                names.update(after.names() - before.names())
            if names:
                declared.append((read.label, tuple(sorted(names))))
        return tuple(declared)

    def _finished(self, start: Offset, end: Offset) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Return the origins that were read completely in this micro-batch, and those that disappeared before that."""
        finished = []
        for read in self.reads:
            before, after = Followed.of(start, read.label), Followed.of(end, read.label)
            names = [name for name in after.completed if not _awaits_more(read, after.version(name))]
            names += [
                name
                for name, total in after.totals.items()
                if after.place_of(name) >= total
                and not (after.is_same(name, before) and name in before.totals and before.place_of(name) >= total)
            ]
            names += [
                name
                for name, total in before.totals.items()
                if before.place_of(name) < total and name not in after.totals and name not in after.done
            ]
            if before.done is not after.done:
                names += [
                    name
                    for name in sorted(before.done.keys() - after.done.keys() - after.totals.keys())
                    if _awaits_more(read, before.version(name))
                ]
            if names:
                finished.append((read.label, tuple(names)))
        return tuple(finished)

    def _settled(self, start: Offset, label: str) -> bool:
        """Return whether a source can end: with the wall clock only at the tick after its last rows."""
        if self.replays:
            return True
        totals, rows = start["totals"].get(label), start["rows"].get(label, {})
        return totals is not None and all(rows.get(origin, 0) >= total for origin, total in totals.items())

    def _cut(self, part: Slice) -> list[Slice]:
        """Divide a row range among several tasks, if it is long enough."""
        length = part.stop - part.start
        parts = max(1, min(self.parallelism, length // _WORTH_A_TASK))
        bounds = [part.start + length * number // parts for number in range(parts + 1)]
        return [attrs.evolve(part, start=first, stop=last) for first, last in itertools.pairwise(bounds)]

    def _follows(self) -> bool:
        return any(not read.source.is_bounded for read in self.reads)

    def _list(self, start: Offset, end: Offset, committed: Mapping[str, Any], *, polls: bool, is_last: bool) -> bool:
        """Store in `end` what there is to read; bounded sources are listed once, others whenever `polls` is set.

        Return whether all sources have listed all that there is.

        If this `is_last` poll, sources wait for nothing.

        An origin of a bounded source may change before its first row is read, for example if a damaged file is
        repaired. From then on it has the version that was read. A source that holds its rows always has its own.
        """
        _by_source(end).update({name: {} for name in BY_SOURCE})
        is_complete = True
        for read in self.reads:
            source, label = read.source.as_columns, read.label
            if source is None:
                continue
            with exits_reported(label):
                if not source.is_bounded:
                    followed = Followed.of(start, label)
                    polled = self._polled(label, source, followed, end["clock"], is_last=is_last) if polls else None
                    _store(end, label, followed.unpolled() if polled is None else polled)
                    is_complete = is_complete and (not polls or label in self.polls.complete)
                    continue
                end["rows"][label] = dict(start["rows"].get(label, {}))
                versions = committed.get("versions", {}).get(label, {})
                if source.holds_rows:
                    versions = {origin.name: origin.version or () for origin in source.origins()}
                end["versions"][label] = {name: [0, *version] for name, version in versions.items()}
                if label in start["totals"]:
                    end["totals"][label] = start["totals"][label]
                    if source.position_column is not None:
                        end["versions"][label] = start["versions"][label]
                elif polls:
                    origins = retried(source, label, "origins", source.counted_origins)
                    end["totals"][label] = {origin.name: origin.row_count for origin in origins}
                    if source.position_column is not None:
                        end["versions"][label] = {
                            origin.name: [origin.first, *(origin.version or ())] for origin in origins
                        }
        return is_complete

    def _polled(
        self, label: str, source: ColumnSource, before: Followed, clock: int, *, is_last: bool
    ) -> Followed | None:
        """Poll a source and return its origins; `None` if it is not due, or fails for now.

        If this `is_last` poll, it does not wait until the source is due.
        """
        if not self.polls.is_due(label, at_once=is_last and label not in self.polls.complete):
            return None
        source = source.drained() if is_last else source
        polled = self.polls.poll(label, source, lambda: source.poll(before, clock))
        if polled is None:
            return None
        listing, retries = polled
        if is_last and not listing.has_more:
            self.polls.complete.add(label)
        after = before.after(source, listing)
        if retries:
            after.changes = {**after.changes, RETRIES: retries}
        return after

    def _complete(self, end: Offset) -> None:
        """Store in `end` which origins of unbounded sources have been read completely with this micro-batch."""
        for read in self.reads:
            if read.source.as_columns is not None and not read.source.is_bounded:
                followed = Followed.of(end, read.label)
                followed.complete()
                _store(end, read.label, followed)

    def _left(self, rows: dict[str, dict[str, int]], totals: dict[str, dict[str, int]]) -> int:
        return sum(
            total - rows.get(label, {}).get(origin, 0)
            for label, origins in totals.items()
            for origin, total in origins.items()
        )

    def _script(self) -> Sequence[ScriptPlace]:
        if self._places is None:
            self._places = script_places(self.reads, self.awaited.percentiles)
        return self._places


def _store(end: Offset, label: str, followed: Followed) -> None:
    entries = _by_source(end)
    for name in BY_SOURCE:
        entries[name][label] = getattr(followed, name)


def _by_source(offset: Offset) -> dict[str, dict[str, Any]]:
    """Return an offset for access to the keys in `BY_SOURCE` by name."""
    return cast("dict[str, dict[str, Any]]", offset)


def _awaits_more(read: Read, version: tuple[int | str, ...] | None) -> bool:
    source = read.source.as_columns
    return source is not None and source.awaits_more(version)

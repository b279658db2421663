"""What a task counts and observes, for the progress of the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping


class TaskMetrics(TypedDict):
    """The metrics of one task; a plain dict, since a commit that is not yet published contains its pickle.

    A bounded job reports the first entries. The shards of a stream report `cache` to `moment` too, and those that
    follow the sources, the entries after it, from which the driver decides how far the next micro-batch reads. Without
    keyed stages there are no shards, and no `shard`, `cache` and `state`.

    Keys:
        depth: the stage; 0 for the tasks of a bounded job, whose counts of a source are added up.
        shard: the shard id of the task.
        counters: the counters of each keyed node.
        sources: the counters of each source. Every shard that follows the sources counts the same.
        watermarks: the low output watermark of each source and keyed node.
        cache: whether the shard was `"fresh"`, `"behind"` or `"void"` in the cache of the process.
        state: the number of entries and bytes of each keyed node's state.
        clock: the clock of the last instant that was run; `None` if there was none.
        moment: the wall-clock time at which something happens without new data; `None` if nothing does.
        reach: by source, the watermark of each of its origins.
        clocks: by source with a replay clock, the last value of the clock of each origin that was read, and how far a
            row advances it on average; `None` for an origin without unread rows.
        versions: by bounded source, the version of each origin that was read; `None` for one without unread rows.
        enough: whether the input has ended before all rows were read.
        ended: the labels of the sources whose last row has been read.
        jumps: by source, an event that has moved its watermark far ahead of the clock: its event time, and the clock.
        skipped: the row ranges that were skipped, since their files have disappeared: label, origin and first row.
        followed: the state of the sources of a stream without keyed stages.
    """

    depth: int
    shard: NotRequired[int]
    counters: Mapping[str, Mapping[str, int]]
    sources: Mapping[str, Mapping[str, int]]
    watermarks: Mapping[str, int]
    cache: NotRequired[str]
    state: NotRequired[Mapping[str, tuple[int, int]]]
    clock: NotRequired[int | None]
    moment: NotRequired[int | None]
    reach: NotRequired[dict[str, dict[str, int]]]
    clocks: NotRequired[dict[str, dict[str, tuple[int, float] | None]]]
    versions: NotRequired[dict[str, dict[str, Any]]]
    enough: NotRequired[bool]
    ended: NotRequired[list[str]]
    jumps: NotRequired[dict[str, tuple[int, ...]]]
    skipped: NotRequired[list[tuple[str, str, int]]]
    followed: NotRequired[str]

"""What the cases of chains exercise: a law that never sees the thing it is about says nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.values import encode_key, shard_hash
from tests.support.laws.chains import by_specification
from tests.support.spec import spec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.laws.chains import Case
    from tests.support.spec.spec import Live
    from tests.support.spec.spec_triggers import Watermark


@attrs.define(eq=False)
class Watched(spec.Grouping):
    """A grouping of the specification that notes what happens in it.

    Attributes:
        depth: its place in the chain.
        shards: among how many its keys are shared out.
        seen: what has happened.
    """

    depth: int = 1
    shards: int = 1
    seen: set[str] = attrs.field(factory=set)

    def incorporate(self, key: Any, window: Any, at: int, new: list[Any], old: Sequence[tuple[Any, int]] = ()) -> None:
        if self.depth > 1:
            late = self.watermark.at() > at
            self.note("late data", late and not self.expired(window))
            self.note("data on time", not late)
            self.note("dropped", self.expired(window))
            self.note("a retraction", bool(old))
        super().incorporate(key, window, at, new, old)

    def merged(self, key: Any, window: Any, sources: list[Live]) -> Live:
        if self.depth > 1:
            self.note("a session grows or merges", bool(sources))
        return super().merged(key, window, sources)

    def output_watermark(self) -> Watermark:
        held = super().output_watermark()
        pending = [live for live in self.live if live.news]
        own = {shard_hash(encode_key(live.key)) % self.shards for live in pending}
        self.note("several shards hold", len(own) > 1)
        times = {int(self.event_time(live)) for live in pending}
        self.note("several shards hold, behind the watermark", len(own) > 1 and min(times) < self.watermark.at())
        return held

    def note(self, what: str, happened: bool) -> None:
        if happened:
            self.seen.add(f"{what}, at grouping {self.depth}")


def sightings(drawn: Case) -> set[str]:
    """Return what happens in a case: in the order of the words, what and at which grouping."""
    groupings: list[Watched] = []

    def watched(strategy: Any, combine: Any, emit: Any) -> Watched:
        depth, shards = len(groupings) + 1, drawn.schedule.shards
        groupings.append(Watched(strategy, combine, emit, depth=depth, shards=shards))
        return groupings[-1]

    by_specification(drawn, watched)
    return set().union(*(grouping.seen for grouping in groupings))

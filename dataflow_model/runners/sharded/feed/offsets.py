"""Offsets: how far a micro-batch reads, and its clock. They are logged, so a repeated micro-batch is the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Self

import attrs

from dataflow_model.runners.sharded.checkpoint.durable import FORMAT
from dataflow_model.runners.sharded.feed.origins import SourceOffset

if TYPE_CHECKING:
    from collections.abc import Mapping

_NOT_READ: Final = SourceOffset()


@attrs.frozen(kw_only=True)
class Offset:
    """How far the sources have been read after a micro-batch; by default, before anything is read.

    Attributes:
        batch: the number of micro-batches.
        sequencer: the sequencer of the start that planned the micro-batch; 0 without a checkpoint.
        clock: the wall clock of the micro-batch; it increases with each.
        begun: the labels of the sources that have started.
        listed: under `until="drained"`, the sequencer of the start that has listed the sources since; else `None`.
        step: the number of steps that scripts have made.
        last: whether the input ends with the micro-batch, or has ended before.
        drains: whether the run is being drained.
        signals: the requests for signals that were pending when the micro-batch was planned.
        signalled: the last of all requests for signals that were taken; `""` before the first.
        sources: the origins of each source of rows that has been listed.
    """

    batch: int = 0
    sequencer: int = 0
    clock: int = 0
    begun: tuple[str, ...] = ()
    listed: int | None = None
    step: int = 0
    last: bool = False
    drains: bool = False
    signals: tuple[str, ...] = ()
    signalled: str = ""
    sources: Mapping[str, SourceOffset] = attrs.field(factory=dict)

    def of_source(self, label: str) -> SourceOffset:
        """Return the origins of a source, of which there are none if it has not been listed."""
        return self.sources.get(label, _NOT_READ)

    def to_json(self) -> dict[str, Any]:
        """Return the offset as JSON values, with the format of the checkpoint, as Spark logs it."""
        own = attrs.asdict(self, recurse=False)
        sources = {label: source.to_json() for label, source in self.sources.items()}
        return {"format": FORMAT, **own, "begun": [*self.begun], "signals": [*self.signals], "sources": sources}

    @classmethod
    def of_json(cls, fields: Mapping[str, Any]) -> Self:
        """Return the offset that `to_json` has written.

        Example:
            >>> Offset.of_json(Offset(batch=3).to_json()) == Offset(batch=3)
            True
        """
        own = {name: value for name, value in fields.items() if name != "format"}
        sources = {label: SourceOffset.of_json(source) for label, source in fields["sources"].items()}
        own |= {"begun": tuple(fields["begun"]), "signals": tuple(fields["signals"]), "sources": sources}
        return cls(**own)

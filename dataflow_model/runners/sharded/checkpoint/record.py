"""The record of a run and its pipeline in a checkpoint: `run.json`."""

from __future__ import annotations

import json
import pathlib
import uuid
from typing import TYPE_CHECKING, Any, Final, Self

import attrs

from dataflow_model.errors import CheckpointMismatch
from dataflow_model.plan.fingerprint import definitions, fingerprint
from dataflow_model.plan.sink_places import change_of_destination, destinations
from dataflow_model.plan.state_parts import change_of_parts, parts_of_state
from dataflow_model.runners.sharded.checkpoint.durable import FORMAT, check_format, read_file, write_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dataflow_model.plan.stages import StagedPlan
    from dataflow_model.plan.state_parts import Parts

__all__ = ["RunRecord"]

_NAME: Final = "run.json"
_LATER: Final = ("parts", "dataframes", "destinations")
"""The fields that earlier versions did not record."""


@attrs.frozen
class RunRecord:
    """A run and its pipeline.

    Attributes:
        run_id: the id of the run, which upgrades keep.
        shards: the number of shards that own the state.
        fingerprint, definitions: those of the plan, by label.
        stages: the labels of the keyed nodes, stage by stage.
        percentiles: the percentiles of the watermark that the plan uses.
        parts: the parts of the state of transforms that have several, by label; earlier versions did not record them.
        dataframes: the labels of the streaming DataFrames, in the order in which Spark numbers them: it takes up each
            where the one of that number stopped. `None` if an earlier version wrote the record.
        destinations: what decides where the output of each sink goes and in which form, by label; earlier versions did
            not record it.
        columns: whether each grouping keeps its state in columns; decided once.
        edition: with `run_id` it identifies the run's commits; each upgrade creates a new one, since micro-batches are
            numbered from 0 again.
        upgraded: for a run that was upgraded from an older one: the `offset` at which the sources start, the
            transforms that continue with their state (`known`), and the sources among them whose watermark starts
            `anew`.
        format: the format of everything in the checkpoint.
    """

    run_id: str
    shards: int
    fingerprint: dict[str, str]
    definitions: dict[str, str]
    stages: list[list[str]]
    percentiles: list[float]
    parts: dict[str, Parts] = attrs.field(factory=dict)
    dataframes: list[str] | None = None
    destinations: dict[str, dict[str, str]] = attrs.field(factory=dict)
    columns: dict[str, bool] = attrs.field(factory=dict)
    edition: str = ""
    upgraded: dict[str, Any] | None = None
    format: int = FORMAT

    @classmethod
    def of(cls, staged: StagedPlan, shards: int) -> Self:
        """Return the record of a new run."""
        frames = [read for read in staged.sources if read.source.as_dataframe is not None]
        return cls(
            uuid.uuid4().hex[:12],
            shards,
            fingerprint(staged.whole),
            definitions(staged.whole),
            [[node.label for node in stage] for stage in staged.stages],
            list(staged.percentiles),
            parts_of_state(staged),
            [read.label for read in frames if not read.source.is_bounded],
            destinations(staged.whole),
        )

    @classmethod
    def read(cls, common_part: str) -> Self | None:
        """Return the record in a folder; `None` if no run has started.

        Args:
            common_part: the part of a checkpoint that is the same for all hosts.

        Raises:
            CheckpointMismatch: if its content makes no sense, or another version of the package wrote it in another
                format.
            SinkError: if it cannot be read.
        """
        path = pathlib.Path(common_part, _NAME)
        try:
            fields = json.loads(read_file(path))
            check_format(fields.get("format"), repr(str(path)))
            names = [name for name in attrs.fields_dict(cls) if name in fields or name not in _LATER]
            return cls(**{name: fields[name] for name in names})
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointMismatch(
                f"{str(path)!r} cannot be read: {error!r}",
                hint="restore it from a copy, or pass a new directory as checkpoint=",
            ) from error

    def changed_parts(self, before: Mapping[str, Parts]) -> dict[str, str]:
        """Return how the parts of the state of transforms differ from those in another record, by label.

        Args:
            before: the parts in the other record; those of transforms that no longer exist are ignored.
        """
        changes = {
            label: change_of_parts(parts, self.parts.get(label, []))
            for label, parts in before.items()
            if label in self.fingerprint
        }
        return {label: change for label, change in changes.items() if change is not None}

    def changed_destinations(self, before: Self) -> dict[str, str]:
        """Return how the destinations of sinks differ from those in an earlier start's record, by label."""
        changes = {
            label: change_of_destination(before.destinations[label], destination)
            for label, destination in self.destinations.items()
            if label in before.destinations
        }
        return {label: change for label, change in changes.items() if change is not None}

    def in_order_of(self, before: Self) -> list[str]:
        """Return the labels of the streaming DataFrames in the order of an earlier start's record.

        Args:
            before: the earlier record, of the same transforms in any order.
        """
        labels = self.dataframes or []
        order = list(before.fingerprint) if before.dataframes is None else before.dataframes
        return sorted(labels, key=order.index)

    def changed_dataframes(self, before: Self) -> list[str]:
        """Return which DataFrames were bounded and are streams now, or the reverse, a line for each."""
        kinds = {True: "a streaming DataFrame", False: "a bounded DataFrame"}
        was, now = before.dataframes, self.dataframes or []
        return [
            f"{label!r} was: {kinds[label in was]}; it is: {kinds[label in now]}"
            for label in self.fingerprint
            if was is not None and label in before.fingerprint and (label in was) is not (label in now)
        ]

    def write(self, common_part: str) -> None:
        """Write the record atomically."""
        write_file(pathlib.Path(common_part, _NAME), json.dumps(attrs.asdict(self), indent=1).encode(), sync=True)

"""The record of a run and its pipeline in a checkpoint: `run.json`."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Final, Self

import attrs

from dataflow_model.plan.checks.sink_directories import change_of_destination, destinations
from dataflow_model.plan.logical.fingerprint import definitions, fingerprint
from dataflow_model.plan.logical.state_parts import change_of_parts, parts_of_state
from dataflow_model.runners.sharded.checkpoint.groupings import (
    FunctionRecord,
    GroupingRecord,
    functions_of,
    groupings_of,
)
from dataflow_model.runners.sharded.checkpoint.parts import read_document, write_document

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from dataflow_model.plan.logical.stages import StagedPlan
    from dataflow_model.plan.logical.state_parts import Parts

_NAME: Final = "run.json"
WITH_DIGEST: Final = " with the digest "
"""What is in front of the digest of elements in the line of their source."""


@attrs.frozen
class RunRecord:
    """A run and its pipeline.

    Attributes:
        run_id: the id of the run, which upgrades keep.
        shards: the number of shards that own the state.
        fingerprint, definitions: those of the plan, by label.
        stages: the labels of the keyed nodes, stage by stage.
        percentiles: the percentiles of the watermark that the plan uses.
        parts: the parts of the state of transforms that have several, by label.
        dataframes: the labels of the streaming DataFrames, in the order in which Spark numbers them: it takes up each
            where the one of that number stopped.
        destinations: what decides where the output of each sink goes and in which form, by label.
        columns: whether each grouping keeps its state in columns; decided once.
        edition: with `run_id` it identifies the run's commits; each upgrade creates a new one, since micro-batches are
            numbered from 0 again.
        upgraded: for a run that was upgraded from an older one: the `offset` at which the sources start, the
            transforms that continue with their state (`known`), and the sources among them whose watermark starts
            `anew`.
        groupings: what the state of each grouping means, a `GroupingRecord` by label.
        functions: the lateness of each function with state, a `FunctionRecord` by label.
        marks: the labels under which sinks note their commits, by label, where these differ: upgrades rename sinks.
    """

    run_id: str
    shards: int
    fingerprint: dict[str, str]
    definitions: dict[str, str]
    stages: list[list[str]]
    percentiles: list[float]
    parts: dict[str, Parts] = attrs.field(factory=dict)
    dataframes: list[str] = attrs.field(factory=list)
    destinations: dict[str, dict[str, str]] = attrs.field(factory=dict)
    columns: dict[str, bool] = attrs.field(factory=dict)
    edition: str = ""
    upgraded: dict[str, Any] | None = None
    marks: dict[str, str] = attrs.field(factory=dict)
    groupings: dict[str, dict[str, Any]] = attrs.field(factory=dict)
    functions: dict[str, dict[str, Any]] = attrs.field(factory=dict)

    @classmethod
    def of(cls, staged: StagedPlan, shards: int) -> Self:
        """Return the record of a new run."""
        frames = [read for read in staged.sources if read.source.as_dataframe is not None]
        return cls(
            uuid.uuid4().hex[:12],
            shards,
            fingerprint(staged.whole) | _elements_read(staged),
            definitions(staged.whole),
            [[node.label for node in stage] for stage in staged.stages],
            list(staged.percentiles),
            parts_of_state(staged),
            [read.label for read in frames if not read.source.is_bounded],
            destinations(staged.whole),
            groupings=groupings_of(staged.plan),
            functions=functions_of(staged),
        )

    @classmethod
    def read(cls, common_part: str) -> Self | None:
        """Return the record in a folder; `None` if no run has started.

        Args:
            common_part: the part of a checkpoint that is the same for all hosts.

        Raises:
            CheckpointMismatch: if another version of the package wrote it in another format.
            SinkError: if it cannot be read.
            StateCorruption: if it is damaged.
        """
        fields = read_document(common_part, _NAME)
        return None if fields is None else cls(**fields)

    def with_marks(self, before: Mapping[str, str]) -> Self:
        """Return the record with the labels under which the sinks note their commits.

        A new sink with the label that another one had before notes them under a label of its own.

        Args:
            before: the labels so far; those of sinks that no longer exist are ignored.
        """
        marks = {label: mark for label, mark in before.items() if label in self.destinations}
        taken = {label for label in marks.values() if label not in marks}
        marks |= {label: f"{label}{self.edition}" for label in self.destinations if label in taken}
        return attrs.evolve(self, marks=marks)

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

    def may_continue(self, before: Self, label: str) -> bool:
        """Return whether a transform may continue with its state; that of a grouping may depend on its open windows.

        Args:
            before: the record of the old pipeline.
            label: the label of the transform.
        """
        if before.definitions[label] == self.definitions.get(label):
            return True
        was, now = before.groupings.get(label), self.groupings.get(label)
        return was is not None and now is not None and GroupingRecord(**now).goes_on_from(GroupingRecord(**was))

    def renamed_from(self, before: Self, gone: Collection[str]) -> list[tuple[str, str]]:
        """Return the transforms that may only have another label: the old label and the new one of each.

        Args:
            before: the record of the old pipeline.
            gone: the labels of transforms that have no state now.
        """
        added = {label: line for label, line in self.definitions.items() if label not in before.definitions}
        pairs = []
        for old in gone:
            definition = before.definitions[old]
            alike = [label for label, line in added.items() if line == definition]
            others = [label for label in gone if before.definitions[label] == definition]
            if len(alike) == len(others) == 1 and old not in self.definitions:
                pairs.append((old, alike[0]))
        return pairs

    def changed_functions(self, before: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
        """Return why functions cannot continue with their state, since they allow more lateness than before, by label.

        Args:
            before: the functions in another record; those that no longer exist are ignored.
        """
        changes = {
            label: FunctionRecord(**self.functions[label]).change_from(FunctionRecord(**function))
            for label, function in before.items()
            if label in self.functions
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
        return sorted(self.dataframes, key=before.dataframes.index)

    def changed_dataframes(self, before: Self) -> list[str]:
        """Return which DataFrames were bounded and are streams now, or the reverse, a line for each."""
        kinds = {True: "a streaming DataFrame", False: "a bounded DataFrame"}
        was, now = before.dataframes, self.dataframes
        return [
            f"{label!r} was: {kinds[label in was]}; it is: {kinds[label in now]}"
            for label in self.fingerprint
            if label in before.fingerprint and (label in was) is not (label in now)
        ]

    def write(self, common_part: str) -> None:
        """Write the record atomically."""
        write_document(common_part, _NAME, attrs.asdict(self), sync=True)


def _elements_read(staged: StagedPlan) -> dict[str, str]:
    """Return a line for each source of elements of the program, with what these are; others would never be read.

    Those that only static side inputs need are read ahead; `ahead_of_stream` reports if they have changed.
    """
    lines = fingerprint(staged.whole)
    return {
        read.label: f"{lines[read.label]}, {source.describe()}{WITH_DIGEST}{source.digest()}"
        for read in staged.sources
        if (source := read.source.as_elements) is not None
    }

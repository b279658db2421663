"""The checkpoint directory: the part of the host, and next to it the part that is common to all hosts."""

from __future__ import annotations

import pathlib
import shlex
from typing import TYPE_CHECKING, Final

import attrs

from dataflow_model.errors import CheckpointMismatch, SinkError
from dataflow_model.plan.logical.fingerprint import added_sources, differences
from dataflow_model.plan.logical.nodes import GroupByKeyAndWindow
from dataflow_model.plan.rewrites.lifting import lift_by_elements
from dataflow_model.runners.sharded.checkpoint.durable import corrupt, make_folder
from dataflow_model.runners.sharded.checkpoint.parts import check_present, common_part
from dataflow_model.runners.sharded.checkpoint.record import RunRecord
from dataflow_model.runners.sharded.checkpoint.requests import check_written, expect_requests, is_drained
from dataflow_model.runners.sharded.commits.progress import WRITTEN, read_progress
from dataflow_model.runners.sharded.feed.offsets import Offset
from dataflow_model.runners.sharded.upgrade.adopting import adopt, seed_in, upgrade_command
from dataflow_model.runners.sharded.upgrade.seed import Seed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dataflow_model.plan.logical.stages import StagedPlan
    from dataflow_model.plan.rewrites.lifting import Lift

_HOSTS: Final = {"spark": "SparkRunner", "local": "LocalRunner"}
_OF_PROGRAM: Final = ("parts", "dataframes", "destinations", "marks", "groupings", "functions")
"""What a record has of the program, apart from the fingerprint, that may differ at a restart."""
_NOT_OURS: Final = ("spark", "offsets", "commits", "metadata", "state")
"""The contents of a Spark checkpoint; without the common part next to them, it belongs to another query."""


def _has_started(checkpoint: pathlib.Path) -> bool:
    """Return whether a run has written its host's part of a checkpoint, which it does after its record."""
    return (checkpoint / "local" / "run.sqlite").exists() or (
        common_part(checkpoint).is_dir() and (checkpoint / "spark").exists()
    )


@attrs.define
class Checkpoint:
    """The checkpoint of one run.

    Attributes:
        path: the directory; `dataflow/` in it is the part that is the same for all hosts.
        record: the record of the run and its pipeline.
        host: the name of the other part, which belongs to the host of the run.
    """

    path: pathlib.Path
    record: RunRecord
    host: str

    @property
    def host_part(self) -> str:
        """The path of the host's part."""
        return str(self.path / self.host)

    @property
    def common_part(self) -> str:
        """The path of the part that is the same for all hosts."""
        return str(common_part(self.path))

    @property
    def requests(self) -> pathlib.Path:
        """The folder of requests to the run, such as that of `drain`."""
        return common_part(self.path) / "requests"

    @property
    def run_id(self) -> str:
        """The id of the run, which its commits contain."""
        return self.record.run_id

    @property
    def shards(self) -> int:
        """The number of shards that own the state; fixed when the run starts."""
        return self.record.shards

    @property
    def seed(self) -> Seed | None:
        """The initial state of the shards, if the run was upgraded from an older one."""
        upgraded = self.record.upgraded
        if upgraded is None:
            return None
        known, anew, renewed = (frozenset(upgraded.get(name, ())) for name in ("known", "anew", "renewed"))
        return Seed(str(seed_in(self.common_part)), known, anew, renewed)

    @property
    def begins(self) -> Offset:
        """The offset at which the sources start."""
        upgraded = self.record.upgraded
        return Offset() if upgraded is None else Offset.of_json(upgraded["offset"])

    @staticmethod
    def check_path(path: str, host: str) -> RunRecord | None:
        """Return the record of the run in a directory, or `None` if no run has started; nothing is written.

        Args:
            path: the directory.
            host: the name of the host that will continue the run.

        Raises:
            CheckpointMismatch: if the checkpoint is not ours, or belongs to another host, whose state differs in form.
            StateCorruption: if the record of a run that has started is missing or damaged.
        """
        folder = pathlib.Path(path).absolute()
        record = RunRecord.read(str(common_part(folder)))
        if record is None:
            if _has_started(folder):
                raise corrupt(repr(str(common_part(folder) / "run.json")), "it is missing")
            if any((folder / name).exists() for name in _NOT_OURS):
                raise CheckpointMismatch(
                    f"{path!r} contains a checkpoint that was not written by dataflow_model",
                    hint="pass a separate directory as checkpoint=",
                )
            return None
        for other, runner in _HOSTS.items():
            if other != host and (folder / other).exists():
                raise CheckpointMismatch(
                    f"the run in {path!r} was made by {runner}, and this is {_HOSTS[host]}",
                    hint="continue with that runner; or stop the run, carry its state over, and start with the new "
                    f"checkpoint:\n  {upgrade_command(path)}",
                )
        return record

    @classmethod
    def open(cls, path: str, staged: StagedPlan, shards: int, host: str, is_over: Callable[[str], bool]) -> Checkpoint:
        """Open the checkpoint of a run that continues, or create one for a new run.

        A run that continues may have more sources than before, which start now.

        Args:
            path: the directory.
            staged: the plan.
            shards: the number of shards of a new run.
            host: the name of the host's part of the directory.
            is_over: a function from the path of that part to whether the run's input has ended.

        Raises:
            CheckpointMismatch: if it belongs to another pipeline, or the run was drained.
            StateCorruption: if a part of it is missing or damaged.
            SinkError: if the directory cannot be written.
        """
        before = cls.check_path(path, host)
        checkpoint = cls(pathlib.Path(path).absolute(), RunRecord.of(staged, shards), host)
        check_present(checkpoint.common_part, read_progress(checkpoint.common_part).get(WRITTEN, ()))
        if before is None:
            checkpoint.record = adopt(checkpoint.common_part, staged, checkpoint.record) or checkpoint.record
            checkpoint._write(path)
            return checkpoint
        check_written(checkpoint.requests)
        added = checkpoint._check(path, before, staged)
        if added and is_over(checkpoint.host_part):
            raise CheckpointMismatch(
                f"the input of the run in {path!r} is complete, so {', '.join(map(repr, sorted(added)))} cannot be "
                "added",
                hint="pass a new directory as checkpoint=",
            )
        checkpoint.record = attrs.evolve(
            checkpoint.record,
            run_id=before.run_id,
            shards=before.shards,
            columns=before.columns,
            dataframes=checkpoint.record.in_order_of(before),
            edition=before.edition,
            upgraded=before.upgraded,
        ).with_marks(before.marks)
        record = checkpoint.record
        is_recorded = all(getattr(record, name) == getattr(before, name) for name in _OF_PROGRAM)
        if added or not is_recorded:
            checkpoint._write(path)
        return checkpoint

    def feeding(self, staged: StagedPlan, lifted: Mapping[str, Lift]) -> tuple[dict[str, Lift], dict[str, Lift]]:
        """Return the groupings that get columns, and those that keep their state in columns but get elements.

        The form of a grouping's state is decided when the grouping starts. If a changed pipeline would feed it
        differently, it keeps the form of its state.

        Args:
            staged: the plan.
            lifted: the groupings that could get columns now.
        """
        groupings = {node.label: node for node in staged.keyed if isinstance(node, GroupByKeyAndWindow)}
        columns = {label: self.record.columns.get(label, label in lifted) for label in groupings}
        if columns != self.record.columns:
            self.record = attrs.evolve(self.record, columns=columns)
            self.record.write(self.common_part)
        labels = [label for label, in_columns in columns.items() if in_columns]
        fed = {label: lifted[label] for label in labels if label in lifted}
        return fed, {label: lift_by_elements(groupings[label]) for label in labels if label not in lifted}

    def _write(self, path: str) -> None:
        try:
            make_folder(self.requests, sync=True)
            expect_requests(self.requests)
            self.record.write(self.common_part)
            make_folder(
                pathlib.Path(self.host_part)
            )  # after the record, without which the folder would belong to another query
        except OSError as error:
            raise SinkError(
                f"the checkpoint directory {path!r} cannot be written: {error}",
                hint="pass another directory as checkpoint=",
            ) from error

    def _check(self, path: str, before: RunRecord, staged: StagedPlan) -> frozenset[str]:
        """Reject a changed pipeline; if it only has more sources, return the added labels."""
        now = self.record
        added = added_sources(before.fingerprint, staged.whole)
        changed = differences(
            {label: line for label, line in before.fingerprint.items() if label not in added},
            {label: line for label, line in now.fingerprint.items() if label not in added},
        )
        of_parts = now.changed_parts(before.parts) | now.changed_functions(before.functions)
        changed += [f"{label!r} {change}" for label, change in of_parts.items()]
        changed += now.changed_dataframes(before)
        changed += [f"{label!r} {change}" for label, change in now.changed_destinations(before).items()]
        if before.percentiles != now.percentiles:
            changed.append(f"the watermark's percentiles were {before.percentiles}; they are now {now.percentiles}")
        if changed:
            lost = [label for stage in before.stages for label in stage]
            lost += [label for label, line in before.fingerprint.items() if line.startswith("source ")]
            drop = [label for label in lost if label in of_parts or not now.may_continue(before, label)]
            names = ", ".join(map(repr, drop))
            renames = "".join(f" --rename {shlex.quote(f'{old}={new}')}" for old, new in now.renamed_from(before, drop))
            renamed = f", or pass{renames} instead if only the label has changed" if renames else ""
            discards = (
                f"; --drop discards the state of {names}: to keep it, keep the label and the rest as it was{renamed}"
            )
            way_out = (
                "stop the run, carry over the state that has not changed, and start the new pipeline with the new "
                f"checkpoint{discards if drop else ''}:\n  {upgrade_command(path, drop)}"
            )
            if now.dataframes or before.dataframes:
                way_out = (
                    "start the new pipeline with a new checkpoint, and the DataFrames where this run stopped, since "
                    "only Spark knows how far it has read them"
                )
            raise CheckpointMismatch(
                f"the checkpoint {path!r} was made by another pipeline:\n  " + "\n  ".join(changed),
                hint=f"restore the old pipeline; or {way_out}",
            )
        if is_drained(self.requests):
            raise CheckpointMismatch(
                f"the run in {path!r} was drained and cannot be resumed: its windows have emitted their last panes",
                hint="pass a new directory as checkpoint=",
            )
        return added

"""What a checkpoint remembers of the pipeline that it belongs to: `run.json`."""

from __future__ import annotations

import json
import pathlib
import uuid
from typing import TYPE_CHECKING, Any, Final, Self

import attrs

from dataflow_model.errors import CheckpointMismatch
from dataflow_model.plan.fingerprint import definitions, fingerprint
from dataflow_model.plan.triggering import awaited_percentiles
from dataflow_model.runners.sharded.checkpoint.durable import FORMAT, check_format, write_file

if TYPE_CHECKING:
    from dataflow_model.plan.stages import StagedPlan

__all__ = ["RunRecord"]

_NAME: Final = "run.json"


@attrs.frozen
class RunRecord:
    """A run and its pipeline.

    Attributes:
        run_id: names the run; it keeps it through upgrades.
        shards: how many shards own the state.
        fingerprint, definitions: of the plan, by label.
        stages: the labels of the keyed nodes, stage by stage.
        percentiles: of the watermark, those that the plan asks for.
        columns: of groupings, whether they keep their state in columns; decided once.
        edition: with `run_id` it names the run's commits; each upgrade makes another, since it numbers
            micro-batches anew.
        upgraded: for a run that began from an older one: where the sources begin (`offset`), which transforms go
            on with what they had (`known`), and for which sources among them the watermark begins `anew`.
        format: of everything in the checkpoint.
    """

    run_id: str
    shards: int
    fingerprint: dict[str, str]
    definitions: dict[str, str]
    stages: list[list[str]]
    percentiles: list[float]
    columns: dict[str, bool] = attrs.field(factory=dict)
    edition: str = ""
    upgraded: dict[str, Any] | None = None
    format: int = FORMAT

    @classmethod
    def of(cls, staged: StagedPlan, shards: int) -> Self:
        """Return the record of a new run."""
        return cls(
            uuid.uuid4().hex[:12],
            shards,
            fingerprint(staged.plan),
            definitions(staged.plan),
            [[node.label for node in stage] for stage in staged.stages],
            list(awaited_percentiles(staged.plan)),
        )

    @classmethod
    def read(cls, folder: str) -> Self | None:
        """Return what a folder has; `None` where no run has begun.

        Args:
            folder: our part of a checkpoint.

        Raises:
            CheckpointMismatch: if it cannot be read, or another version of the package wrote it in another format.
        """
        path = pathlib.Path(folder, _NAME)
        try:
            fields = json.loads(path.read_text(encoding="utf-8"))
            check_format(fields.get("format"), repr(str(path)))
            return cls(**{name: fields[name] for name in attrs.fields_dict(cls)})
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointMismatch(
                f"{str(path)!r} cannot be read: {error!r}",
                hint="restore it from a copy, or pass a new directory as checkpoint=",
            ) from error

    def write(self, folder: str) -> None:
        """Write the record so that it is there whole or not at all."""
        write_file(pathlib.Path(folder, _NAME), json.dumps(attrs.asdict(self), indent=1).encode(), sync=True)

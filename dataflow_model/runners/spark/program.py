"""The program: what every task of a run needs to know, pickled once and unpickled once per worker."""

from __future__ import annotations

import hashlib
import pickle
from typing import TYPE_CHECKING, Any, Final

import attrs
import cloudpickle

from dataflow_model.runners.engine.elementwise import Fragment

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dataflow_model.plan.nodes import SideInput
    from dataflow_model.plan.stages import StagedPlan
    from dataflow_model.values import Window

__all__ = ["PackedProgram", "Program"]

_KEPT: Final = 4
_loaded: dict[str, Program] = {}
_fragments: dict[tuple[str, str], Fragment] = {}


@attrs.frozen(eq=False)
class Program:
    """A staged plan and how it is run.

    Attributes:
        staged: the chain of stages.
        side_values: the static side inputs.
        labels: the shard labels.
        run_id: names the run's commits; a resumed run keeps it.
        buckets: into how many parts a bounded job cuts each shard's keys, so that one fits in memory.
        digest: names the program in this worker.
    """

    staged: StagedPlan
    side_values: Mapping[SideInput, Callable[[Window], Any]]
    labels: tuple[int, ...]
    run_id: str
    buckets: int = 1
    digest: str = ""

    def pack(self) -> PackedProgram:
        """Return it in a form that travels."""
        blob: bytes = cloudpickle.dumps(self, protocol=5)
        return PackedProgram(hashlib.sha256(blob).hexdigest(), blob)

    def fragment(self, producer: str) -> Fragment:
        """Return this worker's fragment behind a source; DoFns are set up once per worker."""
        place = (self.digest, producer)
        if place not in _fragments:
            _fragments[place] = Fragment(self.staged.plan, producer, self.staged.cuts, self.side_values)
        return _fragments[place]


@attrs.frozen
class PackedProgram:
    """A program as bytes."""

    digest: str
    blob: bytes

    def unpack(self) -> Program:
        """Return the program; a worker that has seen it already has it still."""
        program = _loaded.get(self.digest)
        if program is None:
            program = attrs.evolve(pickle.loads(self.blob), digest=self.digest)  # noqa: S301 - made by the driver
            while len(_loaded) >= _KEPT:
                gone = next(iter(_loaded))
                del _loaded[gone]
                for place in [place for place in _fragments if place[0] == gone]:
                    _fragments.pop(place).tear_down()
            _loaded[self.digest] = program
        return program

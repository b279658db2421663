"""Parts of this package in a pipeline of Beam's: a collection that comes from outside or goes there, or a transform."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false, reportIncompatibleMethodOverride=false

from __future__ import annotations

import abc
import uuid
import weakref
from typing import TYPE_CHECKING, Any, Final

import attrs
from apache_beam import pvalue
from apache_beam.transforms import ptransform

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dataflow_model.plan.logical.nodes import Node, Ref
    from dataflow_model.plan.logical.strategy import WindowingStrategy

URN: Final = "dataflow_model:part:v1"
"""The kind of transform that a part is in Beam's description of a pipeline."""
_PARTS: Final[weakref.WeakValueDictionary[str, OwnPart]] = weakref.WeakValueDictionary()
"""The parts of the pipelines of this process, since a description is run where it is made."""


@attrs.frozen
class Added:
    """What a part adds to a plan.

    Attributes:
        nodes: its nodes, whose labels begin with that of the part.
        strategies: the strategies of their outputs, and of the collections from outside.
        outputs: the collection that is each of its outputs, by tag.
    """

    nodes: tuple[Node, ...] = ()
    strategies: Mapping[Ref, WindowingStrategy] = attrs.field(factory=dict)
    outputs: Mapping[str, Ref] = attrs.field(factory=dict)


@attrs.frozen
class OwnOutput:
    """An output of a part.

    Attributes:
        windowing: its windowing strategy, as Beam's `Windowing`.
        is_bounded: whether it ends.
    """

    windowing: Any
    is_bounded: bool


class OwnPart(ptransform.PTransform):  # type: ignore[misc] # Beam ships no types that mypy takes
    """A transform of Beam's that stands for a part of ours, whose outputs it names `0`, `1`, and so on.

    Applied to collections or to the beginning of a pipeline, it returns a tuple of its outputs. One without any has an
    output that nothing reads, since Beam leaves out a transform without outputs.

    Args:
        outputs: its outputs.
    """

    def __init__(self, outputs: tuple[OwnOutput, ...] = ()) -> None:
        super().__init__()
        self._outputs = outputs
        self.id = uuid.uuid4().hex
        _PARTS[self.id] = self

    @abc.abstractmethod
    def added(self, label: str, inputs: Mapping[str, tuple[Ref, WindowingStrategy]]) -> Added:
        """Return what the part adds to a plan.

        Args:
            label: the label of the part.
            inputs: the collections that it reads, by tag, with their strategies.
        """

    def expand(self, pvalueish: Any) -> tuple[Any, ...]:
        """Return the outputs."""
        members = pvalueish if isinstance(pvalueish, tuple) else (pvalueish,)
        pipeline = members[0].pipeline
        if not self._outputs:
            return (pvalue.PCollection(pipeline, windowing=members[0].windowing, is_bounded=members[0].is_bounded),)
        return tuple(
            pvalue.PCollection(pipeline, str(tag), None, output.windowing, output.is_bounded)
            for tag, output in enumerate(self._outputs)
        )

    def to_runner_api_parameter(self, context: Any) -> tuple[str, bytes]:
        """Return the kind of the transform, and its id."""
        del context
        return URN, self.id.encode()


def part_of(transform: Any) -> OwnPart:
    """Return the part that a transform stands for, given Beam's description of the transform."""
    return _PARTS[transform.spec.payload.decode()]


@ptransform.PTransform.register_urn(URN, None)  # type: ignore[untyped-decorator]
def _from_description(transform: Any, payload: bytes, context: Any) -> OwnPart:
    del transform, context
    return _PARTS[payload.decode()]

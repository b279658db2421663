"""Functions of Beam's classes as those of this package, where a transform of this package is given one."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import apache_beam as beam
from apache_beam.transforms.combiners import curry_combine_fn

from dataflow_model.beam.applying import apply_to
from dataflow_model.errors import InvalidType
from dataflow_model.runners.beam.lowering import BeamCombineFn
from dataflow_model.runners.beam.strategies import window_fn_of
from dataflow_model.transforms.pipelines.ptransform import PTransform

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dataflow_model.transforms.pipelines.pcollection import PCollection
    from dataflow_model.windowing import WindowFn


class BeamParDo(PTransform):
    """What `dm.ParDo(fn)` is for a `DoFn` of Beam's: `Apply(beam.ParDo(fn))`, whose side inputs are ours.

    Args:
        fn: the `DoFn`.
        args, kwargs: further arguments of `process`, including side inputs.
    """

    input_kind = "collection"

    def __init__(self, fn: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self.fn, self.args, self.kwargs = fn, args, kwargs
        self._changes: tuple[tuple[str, tuple[Any, ...], Mapping[str, Any]], ...] = ()

    def default_label(self) -> str:
        """Return the label that it would have with a function of ours."""
        return "ParDo"

    def label_by_code(self) -> str:
        """Return the name with the class of the function."""
        return f"ParDo({type(self.fn).__name__})"

    def with_outputs(self, *tags: str, main: str = "main") -> BeamParDo:
        """Name the outputs, as `dm.ParDo` and Beam's do."""
        return self._changed("with_outputs", tags, {"main": main})

    def with_exception_handling(self, *args: Any, **kwargs: Any) -> BeamParDo:
        """Send elements that fail to a second output, as Beam does and with its arguments."""
        return self._changed("with_exception_handling", args, kwargs)

    def expand(self, pcoll: PCollection, /) -> Any:
        """Add the nodes of the function."""

        def transform(to_beam: Any) -> Any:
            args = map(to_beam, self.args)
            made = beam.ParDo(self.fn, *args, **{name: to_beam(value) for name, value in self.kwargs.items()})
            for method, given, by_name in self._changes:
                made = getattr(made, method)(*given, **by_name)
            return made

        return apply_to(pcoll, transform)

    def _changed(self, method: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> BeamParDo:
        return self._but(_changes=(*self._changes, (method, args, kwargs)))


def par_do(fn: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> PTransform:
    """Return the transform that runs a `DoFn` of Beam's.

    Raises:
        InvalidType: for a class instead of an instance.
    """
    if isinstance(fn, type):
        raise InvalidType(
            f"ParDo takes an instance of DoFn, got the class {fn.__name__}", hint=f"write {fn.__name__}(…)"
        )
    return BeamParDo(fn, args, kwargs)


def combine_fn(fn: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> BeamCombineFn:
    """Return a combiner of Beam's as one of ours.

    Args:
        fn: the combiner, or its class.
        args: further arguments of its methods.
        kwargs: the same, by name.
    """
    instance = fn() if isinstance(fn, type) else fn
    return BeamCombineFn(curry_combine_fn(instance, args, dict(kwargs)), label=None)


def window_fn(fn: Any) -> WindowFn:
    """Return a window function of Beam's as one of ours."""
    return window_fn_of(fn)

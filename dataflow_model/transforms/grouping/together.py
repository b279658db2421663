"""Several combiners over the same input, in one grouping."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dataflow_model.arguments import EXTRA, calls_explained
from dataflow_model.errors import InvalidArgument
from dataflow_model.plan.columns.rows import named_row_type
from dataflow_model.plan.functions.combine import CombineFn, KernelForm, WrappingFn, output_of
from dataflow_model.transforms.grouping.associative import as_combine_fn
from dataflow_model.transforms.grouping.combiner_forms import Combiner
from dataflow_model.transforms.pipelines.typehints import combined_type, rows_of_types

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class SideBySide(WrappingFn[Any, tuple[Any, ...], Any]):
    """Several combiners in one grouping: the accumulator and the output have a field for each.

    Subclasses define `add_input` and `subtract_input`, which decide what each combiner gets of an input.

    Attributes:
        names: the names of their outputs.
        parts: the combiners.
    """

    def __init__(self, names: tuple[str, ...], parts: tuple[CombineFn[Any, Any, Any], ...]) -> None:
        self.names = names
        self.parts = parts

    def wrapped(self) -> tuple[CombineFn[Any, Any, Any], ...]:
        """Return the combiners."""
        return self.parts

    def named_parts(self) -> Sequence[tuple[str, str]]:
        """Return the name of each combiner's output, and the combiner's title."""
        return [(name, _kind_of(part)) for name, part in zip(self.names, self.parts, strict=True)]

    def create_accumulator(self) -> tuple[Any, ...]:
        """Return one accumulator for each combiner."""
        return tuple([part.create_accumulator() for part in self.parts])

    def merge_accumulators(self, accumulators: Iterable[tuple[Any, ...]]) -> tuple[Any, ...]:
        """Merge the accumulators of each combiner."""
        columns = list(zip(*accumulators, strict=True))
        if not columns:
            return self.create_accumulator()
        return tuple([part.merge_accumulators(column) for part, column in zip(self.parts, columns, strict=True)])

    def extract_output(self, accumulator: tuple[Any, ...]) -> Any:
        """Return the tuple of outputs."""
        return tuple([output_of(part, own) for part, own in zip(self.parts, accumulator, strict=True)])

    @property
    def can_subtract(self) -> bool:
        """Whether every combiner can subtract an input."""
        return all(part.can_subtract for part in self.parts)

    def side_by_side(self, row: type[tuple[Any, ...]], *, by_position: bool) -> KernelForm | None:
        """Return how the combiners are computed from kernels; `None` if one of them is not a plain kernel.

        Args:
            row: the type of the output.
            by_position: whether an element has an input for each combiner.
        """
        forms = [part.kernel_form() for part in self.parts]
        kernels = [kernel for form in forms if form is not None and form.row is None for kernel in form.kernels]
        return KernelForm(tuple(kernels), row, by_position) if len(kernels) == len(forms) else None


@calls_explained({EXTRA: "name each result, as in dm.Together(count=dm.Count(), mean=dm.Mean())"})
class Together(SideBySide, Combiner[Any, tuple[Any, ...], Any]):
    """Run several combiners over the same inputs; the output is a named tuple with a field for each.

    Args:
        combiners: the combiners by the names of their fields; each is a `CombineFn`, its class, or an associative
            function.

    Raises:
        InvalidArgument: if there is no combiner.

    Source: Beam's `SingleInputTupleCombineFn`.

    Example:
        >>> import dataflow_model as dm
        >>> both = dm.Together(count=dm.Count(), mean=dm.Mean())
        >>> both.extract_output(both.add_input(both.create_accumulator(), 4))
        Row(count=1, mean=4.0)
        >>> both.per_key().label
        'Together.PerKey'
    """

    def __init__(self, **combiners: Any) -> None:
        if not combiners:
            raise InvalidArgument(
                "Together() needs at least one combiner, got none",
                hint="use Together(count=dm.Count(), mean=dm.Mean())",
            )
        parts = tuple(as_combine_fn(combiner, f"Together({name}=…)") for name, combiner in combiners.items())
        super().__init__(tuple(combiners), parts)
        self._row = named_row_type(tuple((name, "Any") for name in self.names))

    def add_input(self, accumulator: tuple[Any, ...], element: Any) -> tuple[Any, ...]:
        """Add the element to each accumulator."""
        return tuple([part.add_input(own, element) for part, own in zip(self.parts, accumulator, strict=True)])

    def extract_output(self, accumulator: tuple[Any, ...]) -> Any:
        """Return the row of outputs."""
        return self._row(*super().extract_output(accumulator))

    def subtract_input(self, accumulator: tuple[Any, ...], element: Any) -> tuple[Any, ...]:
        """Subtract the element from each accumulator."""
        return tuple([part.subtract_input(own, element) for part, own in zip(self.parts, accumulator, strict=True)])

    def kernel_form(self) -> KernelForm | None:
        """Return how the combiners are computed from kernels."""
        return self.side_by_side(self._row, by_position=False) if type(self) is Together else None

    def output_type(self, value_type: Any) -> Any:
        """Return rows with the types of the combiners' outputs, as far as these are known."""
        parts = zip(self.names, self.parts, strict=True)
        return rows_of_types({name: combined_type(part, value_type) for name, part in parts})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Together) and (self.names, self.parts) == (other.names, other.parts)

    def __hash__(self) -> int:
        return hash((self.names, self.parts))

    def __repr__(self) -> str:
        return f"Together({', '.join(f'{name}={part!r}' for name, part in zip(self.names, self.parts, strict=True))})"


def _kind_of(combine: CombineFn[Any, Any, Any]) -> str:
    """Return a combiner's title, with those of the combiners that it is made of."""
    parts = ", ".join("=".join(filter(None, part)) for part in combine.named_parts())
    return f"{combine.title()}({parts})" if parts else combine.title()

"""Combiners: associative and commutative functions, in the form that the engine needs."""

from __future__ import annotations

import copy
import itertools
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar

import attrs

from dataflow_model.errors import InvalidArgument, refuse_async
from dataflow_model.plan.functions.kernels import Kernel, kernel_of
from dataflow_model.plan.functions.parameters import check_method
from dataflow_model.plan.functions.typevars import AccumT, InputT, OutputT
from dataflow_model.plan.names.spellings import with_spellings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_STEPS: Final = {
    "create_accumulator": ("self",),
    "add_input": ("self", "accumulator", "element"),
    "merge_accumulators": ("self", "accumulators"),
    "extract_output": ("self", "accumulator"),
}
"""The methods that a combiner must define, with their parameters."""
_NEVER_CHANGE: Final = frozenset({type(None), bool, int, float, complex, str, bytes, tuple, frozenset})
"""Types of values that need no copy: `copy.copy` returns them as they are."""
_OPTIONAL: Final = {"subtract_input": ("self", "accumulator", "element")}


@attrs.frozen
class KernelForm:
    """How a combiner is computed from kernels: a single one, or several side by side.

    Attributes:
        kernels: each kernel; see `CombineFn.kernel`.
        row: the type of the output, a tuple with a field for each kernel; `None` for the plain output of a single one.
        by_position: whether an element is a tuple with an input for each kernel, rather than the input of all.
    """

    kernels: tuple[Kernel, ...]
    row: type[tuple[Any, ...]] | None = None
    by_position: bool = False

    @property
    def counts(self) -> bool:
        """Whether a kernel counts the elements."""
        return any(kernel.counts for kernel in self.kernels)

    @property
    def compares(self) -> bool:
        """Whether the result of a kernel is one of its inputs."""
        return any(kernel.compares for kernel in self.kernels)


@with_spellings
class CombineFn(Generic[InputT, AccumT, OutputT]):
    """The base class of combiners, which work in four steps: create, add, merge, extract.

    Accumulators must be picklable, and merging them must be associative and commutative. An accumulator may be changed
    in place; if an output is the accumulator itself, the engine emits a shallow copy. The value of an empty pane is
    `extract_output(create_accumulator())`. Define `subtract_input` if an input can be removed again exactly.

    Attributes:
        kernel: the name of the vectorised kernel that does the same on columns (`"sum"`, `"count"`, `"mean"`, `"min"`
            or `"max"`), or `None`. The engine uses both the kernel and the methods, so a combiner with a kernel must
            have the same accumulators as the built-in combiner of that name: a number; for `"mean"`, the pair of sum
            and count; for `"min"` and `"max"`, `None` if there are no inputs. A subclass does not inherit it.

    Raises:
        InvalidArgument: when a subclass is created whose `kernel` does not exist, or compares inputs although the class
            defines `subtract_input`.

    Source: Beam's `CombineFn`; `subtract_input` is the papers' uncombine.

    Example:
        >>> import dataflow_model as dm
        >>> class Spread(dm.CombineFn[float, tuple[float, float], float]):
        ...     def create_accumulator(self):
        ...         return float("inf"), float("-inf")
        ...     def add_input(self, accumulator, element):
        ...         return min(accumulator[0], element), max(accumulator[1], element)
        ...     def merge_accumulators(self, accumulators):
        ...         least, greatest = zip(*accumulators)
        ...         return min(least), max(greatest)
        ...     def extract_output(self, accumulator):
        ...         return accumulator[1] - accumulator[0]
        >>> with dm.Pipeline() as p:
        ...     delays = p | dm.Create([("UA", 4.0), ("UA", 9.5), ("AA", 1.0)])
        ...     _ = delays | dm.CombinePerKey(Spread()) | dm.io.Collect()
        >>> sorted(record.value for record in p.result.collected("Collect"))
        [('AA', 0.0), ('UA', 5.5)]
    """

    kernel: ClassVar[str | None] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Check the kernel."""
        super().__init_subclass__(**kwargs)
        kernel = kernel_of(cls)
        if kernel is not None and kernel.compares and cls.subtract_input is not CombineFn.subtract_input:
            raise InvalidArgument(
                f"{cls.__name__} defines `subtract_input`, but its kernel {kernel.value!r} cannot subtract an input",
                hint="leave `kernel` out: the methods of the combiner are then called",
            )

    def setup(self) -> None:
        """Acquire expensive resources, such as a connection or a model, once per worker and before any other call."""

    def create_accumulator(self) -> AccumT:
        """Return the accumulator of no inputs."""
        raise NotImplementedError(f"{type(self).__name__} must define `create_accumulator(self)`")

    def add_input(self, accumulator: AccumT, element: InputT) -> AccumT:
        """Return the accumulator with one more input; `accumulator` may be changed in place."""
        raise NotImplementedError(f"{type(self).__name__} must define `add_input(self, accumulator, element)`")

    def merge_accumulators(self, accumulators: Iterable[AccumT]) -> AccumT:
        """Return one accumulator for the inputs of all; the first may be changed in place."""
        raise NotImplementedError(f"{type(self).__name__} must define `merge_accumulators(self, accumulators)`")

    def extract_output(self, accumulator: AccumT) -> OutputT:
        """Return the output; the accumulator stays usable."""
        raise NotImplementedError(f"{type(self).__name__} must define `extract_output(self, accumulator)`")

    def subtract_input(self, accumulator: AccumT, element: InputT) -> AccumT:
        """Return the accumulator as if `element` had never been added; optional."""
        del accumulator, element
        raise NotImplementedError(f"{type(self).__name__} cannot subtract an input")

    def teardown(self) -> None:
        """Release what `setup` acquired, also if the run fails; not called in a worker that is killed."""

    def title(self) -> str:
        """Return the combiner's name in explanations and fingerprints."""
        return type(self).__name__

    def named_parts(self) -> Sequence[tuple[str, str]]:
        """Return the name and the kind of each part of the accumulator, if it consists of several parts.

        The arguments that decide what the accumulator keeps are parts too, with their values as kinds.
        """
        return ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'…' if getattr(self, '__dict__', None) else ''})"

    @property
    def can_subtract(self) -> bool:
        """Whether the combiner defines `subtract_input`."""
        return type(self).subtract_input is not CombineFn.subtract_input

    @property
    def own_kernel(self) -> Kernel | None:
        """The kernel that the combiner's own class names; `None` in a subclass, which may compute something else."""
        return kernel_of(type(self))

    def kernel_form(self) -> KernelForm | None:
        """Return how the combiner is computed from kernels; `None` if only its methods can compute it."""
        kernel = self.own_kernel
        return None if kernel is None else KernelForm((kernel,))


class WrappingFn(CombineFn[InputT, AccumT, OutputT]):
    """The base class of combiners that are made of others, whose `setup` and `teardown` are those of the others."""

    def wrapped(self) -> Sequence[CombineFn[Any, Any, Any]]:
        """Return the other combiners; one of them may occur several times."""
        raise NotImplementedError

    def setup(self) -> None:
        """Set each of the others up, once."""
        for owner in self.owners():
            owner.setup()

    def teardown(self) -> None:
        """Tear each of the others down, once."""
        for owner in self.owners():
            owner.teardown()

    def named_parts(self) -> Sequence[tuple[str, str]]:
        """Return the parts of the accumulators of the only one of the others; a subclass with several names them."""
        wrapped = self.wrapped()
        return wrapped[0].named_parts() if len(wrapped) == 1 else ()

    def owners(self) -> list[CombineFn[Any, Any, Any]]:
        """Return the combiners to set up for the others to be called, each object once."""
        return list({id(owner): owner for part in self.wrapped() for owner in owners_of(part)}.values())


def output_of(combine: CombineFn[Any, AccumT, OutputT], accumulator: AccumT) -> OutputT:
    """Return a combiner's output, which further inputs do not change: a copy, if it is the accumulator itself.

    Example:
        >>> from dataflow_model.transforms import ToSet
        >>> accumulator = {"UA"}
        >>> output_of(ToSet(), accumulator) is accumulator
        False
    """
    output = combine.extract_output(accumulator)
    changes: bool = output is accumulator and type(output) not in _NEVER_CHANGE
    return copy.copy(output) if changes else output


FnT = TypeVar("FnT")


def owners_of(fn: FnT) -> list[FnT | CombineFn[Any, Any, Any]]:
    """Return the functions to set up for a function to be called: itself, or what it is made of, each object once.

    Example:
        >>> import dataflow_model as dm
        >>> mean = dm.Mean()
        >>> owners_of(mean), owners_of(dm.Together(one=mean, other=mean))
        ([Mean()], [Mean()])
    """
    kind: type[Any] = type(fn)
    if not isinstance(fn, WrappingFn) or (kind.setup, kind.teardown) != (WrappingFn.setup, WrappingFn.teardown):
        return [fn]  # a subclass that overrides one of the two acquires something of its own
    return [*fn.owners()]


def check_combine_fn(combiner: CombineFn[Any, Any, Any], *, further: bool = False) -> None:
    """Check that a combiner defines the four methods without which nothing can be combined, as they are called.

    Args:
        combiner: the combiner.
        further: whether its methods take further arguments, which the caller checks.

    Raises:
        InvalidArgument: if it leaves one of them to the base class, or one cannot be called as it will be.
        InvalidType: if one is `async`.

    Example:
        >>> class Longest(CombineFn):
        ...     def add_input(self, accumulator, element):
        ...         return max(accumulator, element, key=len)
        >>> check_combine_fn(Longest())
        Traceback (most recent call last):
        ...
        dataflow_model.errors.InvalidArgument: Longest must define `create_accumulator(self)`
        Hint: a CombineFn has four methods: create_accumulator, add_input, merge_accumulators and extract_output
    """
    for name, parameters in _STEPS.items():
        if getattr(getattr(combiner, name), "__func__", None) is getattr(CombineFn, name):
            raise InvalidArgument(
                f"{type(combiner).__name__} must define `{name}({', '.join(parameters)})`",
                hint=f"a CombineFn has four methods: {', '.join(list(_STEPS)[:-1])} and {list(_STEPS)[-1]}",
            )
        refuse_async(getattr(combiner, name), type(combiner).__name__)
    if not further:
        for name, parameters in (_STEPS | (_OPTIONAL if combiner.can_subtract else {})).items():
            any_number = "; `accumulators` is an iterable of any number of them" if name == "merge_accumulators" else ""
            check_method(combiner, name, parameters[1:], any_number)
    for name in ("setup", "teardown"):
        check_method(combiner, name, ())


class ListFn(CombineFn[Any, list[Any], list[Any]]):
    """A combiner whose output is the list of its inputs, in order of arrival."""

    def create_accumulator(self) -> list[Any]:
        """Return an empty list."""
        return []

    def add_input(self, accumulator: list[Any], element: Any) -> list[Any]:
        """Append the element."""
        accumulator.append(element)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[list[Any]]) -> list[Any]:
        """Concatenate the lists."""
        return list(itertools.chain.from_iterable(accumulators))

    def extract_output(self, accumulator: list[Any]) -> list[Any]:
        """Return a copy, so that a pane does not grow after it has been emitted."""
        return list(accumulator)


class GroupFn(ListFn):
    """The combiner of a plain grouping: a pane's value is the list of its elements, in order of arrival.

    Args:
        inputs: if the elements say by its index from which of several inputs they are, the names of the inputs.
    """

    def __init__(self, inputs: Sequence[str] = ()) -> None:
        self.inputs = tuple(inputs)

    def named_parts(self) -> Sequence[tuple[str, str]]:
        """Return the inputs."""
        return [("", f"input {name}") for name in self.inputs]

"""The kernels: the combiners that are also computed on whole columns."""

from __future__ import annotations

import enum
from typing import Any, assert_never

from dataflow_model.errors import InvalidArgument


class Reduction(enum.Enum):
    """How a kernel makes one number of several."""

    SUM = enum.auto()
    MIN = enum.auto()
    MAX = enum.auto()


class Kernel(enum.StrEnum):
    """A combiner that is also computed on whole columns; see `CombineFn.kernel`.

    Example:
        >>> Kernel.MEAN.reduction, Kernel.MEAN.counts, Kernel.MEAN.divides
        (<Reduction.SUM: 1>, True, True)
    """

    SUM = "sum"
    COUNT = "count"
    MEAN = "mean"
    MIN = "min"
    MAX = "max"

    @property
    def reduction(self) -> Reduction | None:
        """How the inputs are reduced; `None` if they are only counted."""
        match self:
            case Kernel.SUM | Kernel.MEAN:
                return Reduction.SUM
            case Kernel.MIN:
                return Reduction.MIN
            case Kernel.MAX:
                return Reduction.MAX
            case Kernel.COUNT:
                return None
            case _:
                assert_never(self)

    @property
    def counts(self) -> bool:
        """Whether the inputs are counted."""
        return self.reduction is None or self.divides

    @property
    def compares(self) -> bool:
        """Whether the result is one of the inputs, and `None` for no inputs."""
        reduction = self.reduction
        match reduction:
            case Reduction.MIN | Reduction.MAX:
                return True
            case Reduction.SUM | None:
                return False
            case _:
                assert_never(reduction)

    @property
    def divides(self) -> bool:
        """Whether the accumulator is the pair of the reduced inputs and their count, and the output their quotient.

        Otherwise, the output is the accumulator.
        """
        match self:
            case Kernel.MEAN:
                return True
            case Kernel.SUM | Kernel.COUNT | Kernel.MIN | Kernel.MAX:
                return False
            case _:
                assert_never(self)


def kernel_of(kind: type[Any]) -> Kernel | None:
    """Return the kernel that a class of combiners names itself; `None` in a subclass, which may compute something else.

    Raises:
        InvalidArgument: if there is no kernel of that name.

    Example:
        >>> import dataflow_model as dm
        >>> class Total(dm.Sum):
        ...     pass
        >>> kernel_of(dm.Sum), kernel_of(Total)
        (<Kernel.SUM: 'sum'>, None)
    """
    kernel: Any = vars(kind).get("kernel")
    if kernel is None or isinstance(kernel, Kernel):
        return kernel
    try:
        return Kernel(kernel)
    except ValueError:
        names = ", ".join(repr(known.value) for known in Kernel)
        raise InvalidArgument(
            f"`kernel` of {kind.__name__} must be the name of a kernel, {names}, or None, got {kernel!r}",
            hint="leave it out: the methods of the combiner are then called",
        ) from None

"""The stored form of the accumulators and emitted values of kernels."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dataflow_model.plan.functions.combine import KernelForm
    from dataflow_model.plan.functions.kernels import Kernel

WHOLE, FLOAT, NO_NUMBERS = "q", "d", "-"
"""The type codes of numbers, and that of a kernel without any yet."""


@attrs.frozen(eq=False)
class KernelColumns:
    """The stored form of the accumulators of cells and of emitted values, in columns of 64 bits; floats as their bits.

    Attributes:
        form: the kernels.
        codes: the type code of each kernel's numbers; "-" if there are none.
        cells: for each cell the count, if there is one, then for each kernel its number and whether it is present, if
            it is a least or greatest value, then whether the cell has had an element, if that is noted.
        standing: for each emitted value the output of each kernel, then whether it is of an element, if that is noted.
    """

    form: KernelForm
    codes: str
    cells: Sequence[NDArray[np.int64]]
    standing: Sequence[NDArray[np.int64]]

    @staticmethod
    def counts(form: KernelForm, codes: str) -> tuple[int, int]:
        """Return the number of columns for cells, and for emitted values."""
        touched = FLOAT in codes or form.compares
        numbers = sum(0 if kernel.reduction is None else 2 if kernel.compares else 1 for kernel in form.kernels)
        return form.counts + numbers + touched, len(form.kernels) + touched

    def accumulators(self) -> list[Any]:
        """Return the accumulators of the cells, as the combiner has them."""
        columns = iter(self.cells)
        counts: list[Any] = next(columns).tolist() if self.form.counts else []
        touched = self.cells[-1] if self._is_touch_noted else None
        parts: list[list[Any]] = []
        for kernel, code in zip(self.form.kernels, self.codes, strict=True):
            if kernel.reduction is None:
                parts.append(counts)
                continue
            part = _with_nothing(decoded(next(columns), code), touched, kernel, code)
            if kernel.compares:
                next(columns)
            parts.append(list(zip(part, counts, strict=True)) if kernel.divides else part)
        return parts[0] if self.form.row is None else list(zip(*parts, strict=True))

    def standing_values(self) -> list[Any]:
        """Return the emitted values."""
        types = [FLOAT if kernel.divides else code for kernel, code in zip(self.form.kernels, self.codes, strict=True)]
        outputs = [decoded(column, code) for column, code in zip(self.standing, types, strict=False)]
        touched = self.standing[-1] if self._is_touch_noted else None
        return in_python(self.form, self.codes, outputs, touched)

    @property
    def _is_touch_noted(self) -> bool:
        return FLOAT in self.codes or self.form.compares


def in_python(
    form: KernelForm, codes: str, columns: Sequence[NDArray[Any]], touched: NDArray[np.int64] | None
) -> list[Any]:
    """Return outputs as Python values, with the outputs of kernels for an empty input."""
    parts = [
        _with_nothing(outputs, touched, kernel, NO_NUMBERS if kernel.divides else code)
        for kernel, code, outputs in zip(form.kernels, codes, columns, strict=True)
    ]
    return (
        parts[0]
        if form.row is None
        else list(map(functools.partial(tuple.__new__, form.row), zip(*parts, strict=True)))
    )


def decoded(bits: NDArray[np.int64], code: str) -> NDArray[Any]:
    """Return the numbers of a stored column."""
    return bits.view(np.float64) if code == FLOAT else bits


def _with_nothing(numbers: NDArray[Any], touched: NDArray[np.int64] | None, kernel: Kernel, code: str) -> list[Any]:
    """Return numbers as Python values, with the value of nothing where there has been no element."""
    values: list[Any] = numbers.tolist()
    if touched is not None and (kernel.compares or code == FLOAT):
        nothing = nothing_of(kernel)
        for row in np.flatnonzero(touched == 0).tolist():
            values[row] = nothing
    return values


def nothing_of(kernel: Kernel) -> int | None:
    """Return the accumulator of an empty input; for a mean, without its count."""
    return None if kernel.compares else 0

"""The settings of a program that Python keeps apart for each thread, carried to wherever users' functions run."""

from __future__ import annotations

import contextlib
import contextvars
import decimal
from typing import TYPE_CHECKING, Any, Self

import attrs
import numpy as np

from dataflow_model.metrics.collecting import leave_task
from dataflow_model.runners.engine.functions.forks import run_here
from dataflow_model.values.pickles import dump_with_classes, load_with_classes
from dataflow_model.values.variables import ModuleVariables

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

_OURS = __name__.partition(".")[0]


@attrs.frozen(eq=False)
class Ambient:
    """The decimal context, NumPy's handling of floating-point errors, and the context variables, when a run starts.

    Its pickle contains the variables at the top level of modules, as far as their values can be pickled.

    Attributes:
        decimal: the decimal context.
        errors: how NumPy handles each kind of error; see `numpy.seterr`.
        call: the function or the log that NumPy calls for errors, if there is one.
        variables: the values of the context variables.

    Example:
        >>> with decimal.localcontext(prec=3):
        ...     ambient = Ambient.here()
        >>> context = contextvars.copy_context()
        >>> context.run(ambient.apply)
        >>> context.run(lambda: 1 / decimal.Decimal(3)), len(str(1 / decimal.Decimal(3)))
        (Decimal('0.333'), 30)
    """

    decimal: decimal.Context
    errors: Mapping[str, Any]
    call: Any
    variables: Mapping[contextvars.ContextVar[Any], Any]

    @classmethod
    def here(cls) -> Self:
        """Return the current settings."""
        variables = dict(contextvars.copy_context().items())
        return cls(decimal.getcontext().copy(), np.geterr(), np.geterrcall(), variables)

    def without(self, packages: Collection[str]) -> Self:
        """Return the settings without the context variables of these packages."""
        modules = ModuleVariables()
        packages_of = {variable: (modules.module_of(variable) or "").partition(".")[0] for variable in self.variables}
        kept = {variable: value for variable, value in self.variables.items() if packages_of[variable] not in packages}
        return attrs.evolve(self, variables=kept)

    def apply(self) -> None:
        """Make these the settings of the current context, which is one of its own, or that of a process of ours."""
        for variable, value in self.variables.items():
            variable.set(value)
        decimal.setcontext(self.decimal.copy())
        np.seterrcall(self.call)
        np.seterr(**self.errors)
        leave_task()
        run_here()

    def __reduce__(self) -> tuple[Any, ...]:
        modules = ModuleVariables()
        carried = []
        for variable, value in self.variables.items():
            module = modules.module_of(variable)
            if module is not None and module.partition(".")[0] not in {_OURS, "numpy"}:
                with contextlib.suppress(Exception):  # any error of the value's `__reduce__`: it is not carried
                    carried.append(dump_with_classes((variable, value)))
        errors, call = self.errors, None
        with contextlib.suppress(Exception):
            call = dump_with_classes(self.call)
        if call is None:
            errors = {kind: "warn" if how in {"call", "log"} else how for kind, how in errors.items()}
        return _restored, (self.decimal, errors, call, carried)


def _restored(
    context: decimal.Context, errors: Mapping[str, Any], call: bytes | None, carried: Iterable[bytes]
) -> Ambient:
    variables = {}
    for pickled in carried:
        with contextlib.suppress(Exception):  # such as a class that this process cannot import
            (variable, value), _ = load_with_classes(pickled)
            variables[variable] = value
    return Ambient(context, errors, None if call is None else load_with_classes(call)[0], variables)

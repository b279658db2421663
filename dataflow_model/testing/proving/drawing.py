"""Draw cases with hypothesis and keep the smallest that fails; raise an error if hypothesis is missing."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from dataflow_model.errors import InvalidArgument, InvalidType, explain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hypothesis.strategies import SearchStrategy

CaseT = TypeVar("CaseT")


class Broken(Exception):
    """Raised by a check for a case that fails; it never leaves the testing tools.

    Args:
        problem: a description of the problem.
        law: the rule that is broken.
        columns: the titles of the two sides that differ.
        sides: the two sides.
    """

    def __init__(
        self,
        problem: str,
        *,
        law: str = "",
        columns: tuple[str, str] = ("", ""),
        sides: tuple[Sequence[Any], Sequence[Any]] = ((), ()),
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.law = law
        self.columns = columns
        self.sides = sides


def check_subject(value: object, kind: type, tool: str, example: str) -> None:
    """Raise `InvalidType` unless a tool was given an instance of the class that it checks.

    Args:
        value: what it was given.
        kind: the class.
        tool: the name of the tool.
        example: an instance, as a user writes it.

    Example:
        >>> check_subject(5, str, "check_text", "'a'")
        Traceback (most recent call last):
        ...
        dataflow_model.errors.InvalidType: check_text checks an instance of str, got 5
        Hint: write check_text('a'), for example
    """
    if not isinstance(value, kind):
        written = f"{value.__name__}(…)" if isinstance(value, type) and issubclass(value, kind) else example
        raise InvalidType(
            f"{tool} checks an instance of {kind.__name__}, got {value!r}",
            hint=f"write {tool}({written}), for example",
        )


def checked_examples(values: object, name: str, tool: str) -> list[Any]:
    """Return the values from which a tool draws.

    Args:
        values: what it was given.
        name: the name of the argument.
        tool: the name of the tool.

    Raises:
        InvalidType: for something that is no collection of values.
        InvalidArgument: if there are no values.

    Example:
        >>> checked_examples((1, 2), "elements", "check_trigger")
        [1, 2]
    """
    if not isinstance(values, Iterable):
        raise InvalidType(
            f"{tool} draws from `{name}`, which must be a list of values, got {values!r}",
            hint=f"write [{values!r}] for this value alone",
        )
    examples = list(values)
    if not examples:
        raise InvalidArgument(f"{tool} draws from `{name}`, got none", hint="pass a few values")
    return examples


def require_hypothesis(tool: str) -> None:
    """Raise an error that says how to install hypothesis, unless it is installed.

    Args:
        tool: the name of the tool that needs hypothesis, for the message.

    Raises:
        ModuleNotFoundError: if hypothesis is not installed.
    """
    if importlib.util.find_spec("hypothesis") is None:
        raise ModuleNotFoundError(
            explain(
                f"{tool} needs the package hypothesis to draw cases, but it is not installed",
                hint="run pip install 'dataflow-model[testing]'",
            ),
            name="hypothesis",
        )


def smallest_broken(
    cases: SearchStrategy[CaseT], check: Callable[[CaseT], None], examples: int
) -> tuple[CaseT, Broken] | None:
    """Return the smallest case found for which a check fails, or `None` if it passes for all drawn cases.

    Args:
        cases: the strategy to draw from; the same cases are drawn each time.
        check: a function of a case that raises `Broken`.
        examples: the number of cases to draw.

    Example:
        >>> from hypothesis import strategies as st
        >>> def is_small(number: int) -> None:
        ...     if number > 9:
        ...         raise Broken("large")
        >>> case, broken = smallest_broken(st.integers(), is_small, 100)
        >>> case, broken.problem
        (10, 'large')
    """
    from hypothesis import HealthCheck, Phase, given, settings

    failures: list[tuple[CaseT, Broken]] = []

    @settings(
        max_examples=examples,
        phases=(Phase.generate, Phase.shrink),  # `explain` traces every line, for a report that is not shown
        derandomize=True,
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),  # pyright: ignore[reportArgumentType] - its metaclass iterates
    )
    @given(cases)
    def search(case: CaseT) -> None:
        try:
            check(case)
        except Broken as broken:
            failures.append((case, broken))
            raise

    try:
        search()
    except Exception:
        # hypothesis reports a case that fails only sometimes as flaky, but it has failed.
        if not failures:
            raise
    return failures[-1] if failures else None  # hypothesis runs the smallest case last


def drawn_cases(cases: SearchStrategy[CaseT], count: int) -> list[CaseT]:
    """Return `count` drawn cases, the same each time.

    Example:
        >>> from hypothesis import strategies as st
        >>> len(drawn_cases(st.integers(), 3))
        3
    """
    drawn: list[CaseT] = []

    def keep(case: CaseT) -> None:
        drawn.append(case)

    smallest_broken(cases, keep, count)
    return drawn[:count]

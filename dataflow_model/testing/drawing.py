"""Draw cases, and keep the smallest that breaks something: hypothesis, and the error where it is missing."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any, TypeVar

from dataflow_model.errors import explain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hypothesis.strategies import SearchStrategy

__all__ = ["Broken", "drawn_cases", "require_hypothesis", "smallest_broken"]

CaseT = TypeVar("CaseT")


class Broken(Exception):
    """What a check found wrong with a case; never leaves the testing tools.

    Args:
        problem: what is wrong, in words.
        law: the rule.
        columns: titles of the two sides that differ.
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


def require_hypothesis(what: str) -> None:
    """Raise an error that says how to install hypothesis, unless it is there.

    Raises:
        ModuleNotFoundError: with the tool that wants it.
    """
    if importlib.util.find_spec("hypothesis") is None:
        raise ModuleNotFoundError(
            explain(
                f"{what} needs the package hypothesis to draw cases, but it is not installed",
                hint="run pip install 'dataflow-model[testing]'",
            ),
            name="hypothesis",
        )


def smallest_broken(
    cases: SearchStrategy[CaseT], check: Callable[[CaseT], None], examples: int
) -> tuple[CaseT, Broken] | None:
    """Return the smallest case that a check finds broken, or `None` when none of those drawn is.

    Args:
        cases: what to draw from; the same cases each time.
        check: raises `Broken`.
        examples: how many to draw.

    Example:
        >>> from hypothesis import strategies as st
        >>> def is_small(number: int) -> None:
        ...     if number > 9:
        ...         raise Broken("large")
        >>> case, broken = smallest_broken(st.integers(), is_small, 100)
        >>> case, broken.problem
        (10, 'large')
    """
    from hypothesis import HealthCheck, given, settings

    failures: list[tuple[CaseT, Broken]] = []

    @settings(
        max_examples=examples,
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
        # What breaks only now and then is reported as flaky; the case has been seen broken all the same.
        if not failures:
            raise
    return failures[-1] if failures else None  # the smallest is run once more at the end


def drawn_cases(cases: SearchStrategy[CaseT], count: int) -> list[CaseT]:
    """Return some cases, the same each time.

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

"""A check for user-defined functions on columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.errors import InvalidArgument, UserCodeError, explain
from dataflow_model.plan.logical.nodes import ParDo as ParDoNode
from dataflow_model.runners.engine.elementwise.vectorized import run_on_columns
from dataflow_model.runners.engine.functions.lifetimes import Lifetime
from dataflow_model.testing.comparing import same
from dataflow_model.testing.proving.drawing import (
    Broken,
    check_subject,
    checked_examples,
    require_hypothesis,
    smallest_broken,
)
from dataflow_model.transforms.elementwise.pardo import ParDo
from dataflow_model.transforms.endpoints.create import Create
from dataflow_model.transforms.pipelines.pipeline import Pipeline

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_EXAMPLES: Final = 100
_MOST_ELEMENTS: Final = 6


def check_vectorized(transform: ParDo[Any, Any], elements: Iterable[Any]) -> None:
    """Check that a function on columns returns the same outputs whatever batches it is called with.

    The check draws some of the elements, calls the function for all of them at once, for each alone, and for the two
    parts of a cut, and compares the outputs. If a `DoFn` also defines `process`, its outputs are compared too. Floats
    are compared with a relative tolerance of 1e-9.

    The same cases are drawn every time. This needs the package hypothesis (the extra `testing`).

    Args:
        transform: `Map(…, vectorized=True)`, `Filter(…, vectorized=True)`, or a `ParDo` of a `DoFn` that defines
            `process_batch`.
        elements: the elements to draw from; their types determine the columns that the function is given.

    Raises:
        AssertionError: with the broken rule and the smallest elements found that show it.
        InvalidArgument: without elements, or for a transform that has no function on columns.
        InvalidType: for something that is none of these transforms, such as the function alone.

    Example:
        >>> import dataflow_model as dm
        >>> import pyarrow.compute as pc
        >>> check_vectorized(dm.Map(lambda batch: pc.negate(batch["value"]), vectorized=True), [1, 2, 3])
        >>> mean = dm.Map(lambda batch: pc.subtract(batch["value"], pc.mean(batch["value"])), vectorized=True)
        >>> check_vectorized(mean, [1, 2, 3])
        Traceback (most recent call last):
        AssertionError: 'Map' gives [-0.5, 0.5] for a whole batch, but [0.0, 0.0] for its rows one by one
          elements: [1, 2]
        Hint: let each output depend on its own row alone; a runner may begin a new batch before every row
    """
    check_subject(transform, ParDo, "check_vectorized", "dm.Map(fn, vectorized=True), [1, 2]")
    require_hypothesis("check_vectorized")
    from hypothesis import strategies as st

    examples = checked_examples(elements, "elements", "check_vectorized")
    if not transform.fn.takes_batches:
        raise InvalidArgument(
            f"{transform!r} has no function on columns",
            hint="write vectorized=True, or define process_batch in the DoFn",
        )
    pipeline = Pipeline()
    _ = pipeline | "elements" >> Create(examples) | transform
    node = pipeline.plan().nodes[-1]
    assert isinstance(node, ParDoNode)  # noqa: S101 - what a ParDo expands to
    # Failures of the function are the user's to see, not rows to put aside.
    checked = _Checked(attrs.evolve(node, dead_letters=None))
    lifetime = Lifetime(node.label, node.fn)
    lifetime.set_up()
    cases = st.tuples(
        st.lists(st.sampled_from(examples), min_size=1, max_size=_MOST_ELEMENTS), st.integers(0, _MOST_ELEMENTS)
    )
    try:
        failure = smallest_broken(cases, lambda case: checked.check(*case), _EXAMPLES)
    finally:
        lifetime.tear_down()
    if failure is not None:
        (smallest, _), broken = failure
        said = f"{node.label!r} {broken.problem}\n  elements: {smallest!r}"
        raise AssertionError(explain(said, hint=broken.law or None)) from broken.__cause__


@attrs.frozen(eq=False)
class _Checked:
    """The rules on one function; the hint of a broken one stands where others name a law."""

    node: ParDoNode

    def check(self, elements: Sequence[Any], cut: int) -> None:
        """Check all rules on some elements and one cut."""
        own_row = "let each output depend on its own row alone; a runner may begin a new batch before every row"
        try:
            whole = self._outputs([elements])
            self._compare(whole, self._outputs([[element] for element in elements]), "for its rows one by one", own_row)
            cut %= len(elements)
            parts = [part for part in (elements[:cut], elements[cut:]) if part]
            self._compare(whole, self._outputs(parts), f"if it is cut after {cut} rows", own_row)
            if self.node.fn.takes_elements:
                both = "make `process` and `process_batch` agree; which of them is called is up to the runner"
                self._compare(whole, self._one_by_one(elements), "from `process`", both)
        except UserCodeError as error:
            raise Broken(f"fails: {error}") from error

    def _compare(self, whole: list[Any], other: list[Any], how: str, hint: str) -> None:
        if not same(tuple(whole), tuple(other)):
            raise Broken(f"gives {whole!r} for a whole batch, but {other!r} {how}", law=hint)

    def _outputs(self, batches: Sequence[Sequence[Any]]) -> list[Any]:
        return [output for batch in batches for output in run_on_columns(self.node, batch).values]

    def _one_by_one(self, elements: Sequence[Any]) -> list[Any]:
        fn, node = self.node.fn, self.node
        return [output for element in elements for output in fn.process(element, *node.args, **node.kwargs) or ()]

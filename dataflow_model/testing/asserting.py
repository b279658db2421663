"""`assert_that` and `equal_to`: state in a pipeline what a collection contains; the run fails if it does not."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from dataflow_model.arguments import calls_explained
from dataflow_model.errors import InvalidType, explain, refuse_async
from dataflow_model.testing.comparing import identical
from dataflow_model.transforms import CoGroupByKey, Create, Map, PCollection, PTransform, Window
from dataflow_model.windowing import GlobalWindows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dataflow_model.values import PaneInfo


@calls_explained(
    {
        "reify_windows": "put dm.Map(lambda element, window: (window, element)) in front",
        "use_global_window": "put dm.WindowInto(dm.GlobalWindows()) in front",
    }
)
def assert_that(actual: PCollection, matcher: Callable[[list[Any]], Any], label: str = "assert_that") -> None:
    """Add a check of a whole collection to its pipeline: the run fails if the matcher raises.

    The matcher is called once, with all elements of all windows in a list, without retracted elements. The collection
    must be bounded. Spark batch runs the check on a worker.

    Args:
        actual: the collection.
        matcher: a function of the list that raises an `AssertionError`, such as the result of `equal_to`.
        label: the label of the check; each check of a pipeline needs its own.

    Raises:
        InvalidType: if `actual` is not a collection, or `matcher` cannot be called.
        UserCodeError: by the run, with the matcher's message, or if the matcher returns `False` or a function.

    Source: Beam's `apache_beam.testing.util.assert_that`.

    Example:
        >>> import dataflow_model as dm
        >>> from dataflow_model.testing import assert_that, equal_to
        >>> with dm.Pipeline() as p:
        ...     doubled = p | dm.Create([1, 2]) | dm.Map(lambda x: 2 * x)
        ...     assert_that(doubled, equal_to([4, 2]))
    """
    if not isinstance(actual, PCollection):
        raise InvalidType(
            f"assert_that checks a collection, got {actual!r}",
            hint="call it inside the pipeline: assert_that(p | …, …)",
        )
    if not callable(matcher):
        raise InvalidType(f"`matcher` must be a function, got {matcher!r}", hint=f"use equal_to({matcher!r})")
    refuse_async(matcher, "assert_that")
    _ = actual | label >> _AssertThat(matcher)


def equal_to(expected: Iterable[Any]) -> Callable[[list[Any]], None]:
    """Return a matcher that accepts exactly these elements in any order, each the same number of times.

    Elements are compared with `==`, apart from NumPy arrays, which are compared by content, and NaN, which equals NaN.

    Raises:
        InvalidType: if `expected` is not iterable, or is text.
        AssertionError: by the matcher, with the missing and the unexpected elements.

    Source: Beam's `equal_to`.

    Example:
        >>> equal_to([1, 2, 2])([2, 1, 3])
        Traceback (most recent call last):
        ...
        AssertionError: expected 3 elements and got 3; missing: [2]; not expected: [3]
        Hint: compare the two lists: the pipeline or the expectation is wrong
    """
    if isinstance(expected, str | bytes) or not hasattr(expected, "__iter__"):
        raise InvalidType(
            f"equal_to takes the elements in a list, got {expected!r}", hint=f"use equal_to([{expected!r}])"
        )
    return _EqualTo(list(expected))


class _EqualTo:
    """Compares in any order; elements need not be hashable."""

    def __init__(self, expected: list[Any]) -> None:
        self.expected = expected

    def __call__(self, actual: list[Any]) -> None:
        by_hash: defaultdict[int | None, list[Any]] = defaultdict(list)
        for element in self.expected:
            by_hash[_hash_of(element)].append(element)
        others, unexpected = [], []
        for element in actual:
            try:
                by_hash[_hash_of(element)].remove(element)
            except ValueError:  # it is not there, or `==` has no truth value, as for NumPy arrays
                others.append(element)
        missing = [element for elements in by_hash.values() for element in elements]
        for element in others:
            try:
                missing.remove(element)
            except ValueError:
                index = next((index for index, other in enumerate(missing) if identical(element, other)), None)
                if index is None:
                    unexpected.append(element)
                else:
                    del missing[index]
        if missing or unexpected:
            raise AssertionError(
                explain(
                    f"expected {len(self.expected)} elements and got {len(actual)}; "
                    f"missing: {missing!r}; not expected: {unexpected!r}",
                    hint="compare the two lists: the pipeline or the expectation is wrong",
                )
            )


def _hash_of(element: Any) -> int | None:
    """Return a hash by which most elements are found at once, or `None` for those that have none."""
    try:
        return hash(element)
    except TypeError:
        return None


class _AssertThat(PTransform):
    """Collects all elements, even if there are none, and calls the matcher."""

    input_kind = "collection"

    def __init__(self, matcher: Callable[[list[Any]], Any]) -> None:
        self._matcher = matcher

    def with_another_label(self) -> str:
        """Return the call of the function that users see."""
        return 'assert_that(…, label="another name")'

    def expand(self, pcoll: PCollection) -> None:
        """Group the elements together with one that is always present."""
        everywhere = Window.into(GlobalWindows()).accumulating()  # so that retractions are applied
        always = pcoll.pipeline | "always" >> Create([(None, None)]) | "window of always" >> everywhere
        keyed = pcoll | "window" >> everywhere | "elements" >> Map(_with_no_key).with_output_types(tuple[None, Any])
        grouped = (always, keyed) | CoGroupByKey()
        _ = grouped | "check" >> Map(_Check(self._matcher))


def _with_no_key(element: Any, pane: PaneInfo) -> tuple[None, Any]:
    """Return the element for the group of all. It takes the pane since the matcher is given all panes of a window."""
    del pane
    return None, element


class _Check:
    """Calls the matcher with the elements of the only pane."""

    def __init__(self, matcher: Callable[[list[Any]], Any]) -> None:
        self.matcher = matcher

    def __call__(self, grouped: Any) -> None:
        _, (_, elements) = grouped
        try:
            outcome = self.matcher(elements)
        except AssertionError as error:
            if "\nHint: " not in str(error):
                error.args = (explain(str(error), hint="the pipeline is wrong, or what the matcher expects"),)
            raise
        if outcome is False or callable(outcome):
            raise InvalidType(
                f"a matcher must raise an AssertionError if the elements are wrong, but {self.matcher!r} returned "
                f"{outcome!r}",
                hint="use `assert` in it, or pass equal_to([…])",
            )

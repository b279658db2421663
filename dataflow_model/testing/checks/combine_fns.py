"""A check for user-defined combiners."""

from __future__ import annotations

import cmath
import contextlib
import copy
import pickle
from typing import TYPE_CHECKING, Any, Final, assert_never

import attrs
import cloudpickle

from dataflow_model.errors import InvalidType, explain
from dataflow_model.plan.functions.combine import CombineFn
from dataflow_model.plan.functions.kernels import Kernel
from dataflow_model.testing.comparing import Incomparable, contents, identical, same
from dataflow_model.testing.proving.drawing import (
    Broken,
    check_subject,
    checked_examples,
    drawn_cases,
    require_hypothesis,
    smallest_broken,
)
from dataflow_model.transforms.grouping.associative import AssociativeFn, as_combine_fn, user_function
from dataflow_model.transforms.grouping.combiners import Count, Max, Mean, Min, Sum
from dataflow_model.transforms.pipelines.code_names import code_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hypothesis.strategies import SearchStrategy


_EXAMPLES: Final = 150
_MOST_INPUTS: Final = 6


def check_combine_fn(
    fn: CombineFn[Any, Any, Any] | Callable[[Iterable[Any]], Any],
    inputs: Iterable[Any] | SearchStrategy[Any],
    *,
    by: Callable[[Any], Any] | None = None,
) -> None:
    """Check that a combiner follows the rules that the engine and the runners rely on.

    The check draws a few of the inputs, distributes them over several accumulators, and verifies that

    * merging is associative and commutative, and gives the same output as adding the inputs one by one;
    * `create_accumulator` returns a new accumulator each time, which changes nothing in a merge and has an output;
    * `extract_output` leaves the accumulator usable, and an output does not change afterwards;
    * inputs are never changed, nor any accumulator but the first of a merge;
    * accumulators and the combiner can be pickled;
    * `subtract_input`, if it is defined, undoes `add_input` in any order;
    * the `kernel`, if the class names one, has the same accumulators and outputs, to the last bit, for the inputs that
      it takes: integers of 64 bits, or floats; for `"count"`, anything;
    * a function, which `CombinePerKey` takes too, gives the same result if results of it are among its inputs.

    `setup` is called first, and `teardown` at the end, as in a run.

    Otherwise, floats are compared with a relative tolerance of 1e-9, and lists in any order. The same cases are drawn
    every time. This needs the package hypothesis (the extra `testing`).

    Args:
        fn: the combiner, or a function over an iterable.
        inputs: values to draw from, or a hypothesis strategy for one.
        by: a function of an output that returns the part to compare; by default the whole output is compared.

    Raises:
        AssertionError: with the broken rule and the smallest inputs found that show it.
        InvalidArgument: if there are no inputs.
        InvalidType: for something that is no combiner, such as a class of them, and for inputs that are no collection.

    Example:
        >>> import dataflow_model as dm
        >>> check_combine_fn(dm.Mean(), [1, 2, 5])
        >>> def number(values):
        ...     return len(list(values))
        >>> check_combine_fn(number, [1, 2, 5])
        Traceback (most recent call last):
        ...
        AssertionError: number must return the same over the results of [1, 1], got 2 and 1
          inputs: [1, 1]
        Hint: the function gets results as inputs: fn([fn([a, b]), c]) must be fn([a, b, c]); write a CombineFn instead
    """
    require_hypothesis("check_combine_fn")
    if by is not None and not callable(by):
        raise InvalidType(f"`by` must be a function of an output, got {by!r}", hint="pass sorted, for example")
    combine = _combiner(fn)
    from hypothesis import strategies as st

    if isinstance(inputs, st.SearchStrategy):
        values: st.SearchStrategy[Any] = inputs
    else:
        values = st.sampled_from(checked_examples(inputs, "inputs", "check_combine_fn"))
    drawn = st.tuples(st.lists(values, max_size=_MOST_INPUTS), st.lists(st.integers(0, 2), max_size=_MOST_INPUTS))
    checked = _Checked(combine, by or _whole, _unpickled(combine))
    with contextlib.ExitStack() as lifetimes:
        for each in (combine, checked.unpickled):
            each.setup()
            lifetimes.callback(each.teardown)
        _check_fresh(checked, drawn_cases(st.lists(values, min_size=1, max_size=1), 1)[0])
        check = lambda case: attrs.evolve(checked, scale=_scale(case[0])).check(*case)  # noqa: E731
        failure = smallest_broken(drawn, check, _EXAMPLES)
    if failure is not None:
        (smallest, _), broken = failure
        problem = f"{_name(combine)} {broken.problem}\n  inputs: {smallest!r}"
        raise AssertionError(explain(problem, hint=broken.law or None)) from broken.__cause__


def _combiner(fn: Any) -> CombineFn[Any, Any, Any]:
    """Return what `CombinePerKey` makes of a combiner or a function; a class of combiners is rejected."""
    if not callable(fn) or (isinstance(fn, type) and issubclass(fn, CombineFn)):
        check_subject(fn, CombineFn, "check_combine_fn", "dm.Mean(), [1, 2, 5]")
    return as_combine_fn(fn, "check_combine_fn")


def _name(fn: CombineFn[Any, Any, Any]) -> str:
    return code_name(user_function(fn)) if isinstance(fn, AssociativeFn) else repr(fn)


def _unpickled(fn: CombineFn[Any, Any, Any]) -> CombineFn[Any, Any, Any]:
    """Return a pickled copy, made before `setup` as a runner makes it: what that acquires need not be picklable."""
    try:
        copied: CombineFn[Any, Any, Any] = pickle.loads(cloudpickle.dumps(fn))
    except Exception as error:
        raise AssertionError(f"{_name(fn)} must be picklable: {error}") from error
    return copied


def _check_fresh(checked: _Checked, inputs: Sequence[Any]) -> None:
    """Check first that accumulators are separate objects; if they share state, every other rule breaks at random."""
    fn = checked.fn
    try:
        another = fn.create_accumulator()
        empty = copy.deepcopy(checked.output(another))
        checked.added(inputs)
        now = checked.output(another)
    except Exception:  # noqa: BLE001 - any error is reported later, with the smallest inputs
        return
    if not same(empty, now):
        problem = (
            f"{_name(fn)} must create a new accumulator each time, got {empty!r} and {now!r}\n  inputs: {inputs!r}"
        )
        raise AssertionError(explain(problem, hint="create_accumulator must not return the same object twice"))


def _grouped(inputs: Sequence[Any], parts: Sequence[int]) -> list[list[Any]]:
    """Return the inputs of each of three accumulators; inputs without a part are of the first."""
    numbers = [*parts, *[0] * len(inputs)]
    return [[value for value, part in zip(inputs, numbers, strict=False) if part == number] for number in range(3)]


def _scale(inputs: Iterable[Any]) -> float:
    """Return the largest absolute value of the floats and complex numbers among or inside the inputs."""
    sizes = [0.0]
    for value in inputs:
        if isinstance(value, float | complex) and cmath.isfinite(value):
            sizes.append(abs(value))
        elif isinstance(value, tuple | list):
            sizes.append(_scale(value))
        elif isinstance(fields := contents(value), tuple):
            sizes.append(_scale(fields))
    return max(sizes)


def _whole(output: Any) -> Any:
    return output


@attrs.frozen(eq=False)
class _Checked:
    """The rules for one combiner; a broken rule carries its hint as the `law` of `Broken`."""

    fn: CombineFn[Any, Any, Any]
    by: Callable[[Any], Any]
    unpickled: CombineFn[Any, Any, Any]
    scale: float = 0

    def check(self, inputs: Sequence[Any], parts: Sequence[int]) -> None:
        """Check all rules on inputs; `parts` assigns each input to one of three accumulators."""
        inputs = copy.deepcopy(list(inputs))  # so that a combiner that changes inputs cannot change the drawn ones
        try:
            self._check_adding(inputs)
            groups = _grouped(inputs, parts)
            self._check_function(inputs, groups)
            self._check_merging(inputs, groups)
            self._check_pickles(inputs)
            self._check_subtracting(inputs)
            self._check_kernel(inputs, groups)
        except (Broken, Incomparable):
            raise
        except Exception as error:
            raise Broken(f"raises {type(error).__name__}: {error}") from error

    def added(self, inputs: Iterable[Any]) -> Any:
        """Return the accumulator of copies of the inputs, so that later checks get unchanged inputs."""
        accumulator = self.fn.create_accumulator()
        for value in inputs:
            accumulator = self.fn.add_input(accumulator, copy.deepcopy(value))
        return accumulator

    def output(self, accumulator: Any) -> Any:
        """Return the part of the output that is compared."""
        return self.by(self.fn.extract_output(accumulator))

    def equal(self, expected: Any, actual: Any, rule: str, hint: str = "") -> None:
        """Raise `Broken` unless two outputs are equal."""
        if not same(expected, actual, scale=self.scale):
            raise Broken(f"{rule}, got {expected!r} and {actual!r}", law=hint)

    def _check_adding(self, inputs: Sequence[Any]) -> None:
        accumulator = self.fn.create_accumulator()
        copies = copy.deepcopy(list(inputs))
        for value in copies:
            accumulator = self.fn.add_input(accumulator, value)
        if not identical(inputs, copies):
            raise Broken(f"must not change its inputs, which are now {copies!r}", law="copy the values that are kept")
        accumulator = self.fn.create_accumulator()
        for count, value in enumerate(inputs):
            accumulator = self.fn.add_input(accumulator, copy.deepcopy(value))
            raw = self.fn.extract_output(accumulator)
            output = copy.deepcopy(raw)
            again = self.fn.extract_output(accumulator)
            self.equal(self.by(output), self.by(again), "must return the same output when it is extracted twice")
            expected = self.output(self.added(inputs[: count + 1]))
            hint = "extract_output must not change the accumulator"
            self.equal(expected, self.by(again), "must be usable after an output was extracted", hint)
            if count + 1 < len(inputs):
                self.fn.add_input(accumulator, copy.deepcopy(inputs[count + 1]))
                hint = "return a copy from extract_output"
                self.equal(self.by(output), self.by(raw), "must not change an output after returning it", hint)
                accumulator = self.added(inputs[: count + 1])

    def _check_function(self, inputs: Sequence[Any], groups: Sequence[list[Any]]) -> None:
        """Check what `AssociativeFn` relies on, which calls it a first time only when it has many values."""
        if not isinstance(self.fn, AssociativeFn) or not inputs:
            return
        fn = self.fn.fn
        parts = [group for group in groups if group]
        text = " + ".join(map(repr, parts))
        hint = (
            "the function gets results as inputs: fn([fn([a, b]), c]) must be fn([a, b, c]); write a CombineFn instead"
        )
        expected = self.by(fn(copy.deepcopy(list(inputs))))
        try:
            actual = self.by(fn([fn(copy.deepcopy(part)) for part in parts]))
        except Exception as error:
            raise Broken(f"must take its own results, of {text}, as inputs: {error}", law=hint) from error
        self.equal(expected, actual, f"must return the same over the results of {text}", hint)

    def _check_merging(self, inputs: Sequence[Any], groups: Sequence[list[Any]]) -> None:
        whole = self.output(self.added(inputs))

        def pieces() -> list[Any]:
            return [self.added(piece) for piece in groups]

        merge = self.fn.merge_accumulators
        text = " + ".join(map(repr, groups))
        first, second, third = pieces()
        together = self.output(merge([first, second, third]))
        for accumulator, piece in ((second, groups[1]), (third, groups[2])):
            hint = "change only the first accumulator in place, or none"
            self.equal(
                self.output(self.added(piece)),
                self.output(accumulator),
                "must not change the accumulators that it merges",
                hint,
            )
        first, second, third = pieces()
        left = self.output(merge([merge([first, second]), third]))
        self.equal(together, left, f"must be associative over {text}")
        first, second, third = pieces()
        self.equal(together, self.output(merge([first, merge([second, third])])), f"must be associative over {text}")
        self.equal(together, self.output(merge(pieces()[::-1])), f"must be commutative over {text}")
        self.equal(whole, together, f"must merge {text} into the result of adding all of them one by one")
        self.equal(
            self.output(self.added(inputs)),
            self.output(self.added(inputs[::-1])),
            "must not depend on the order of inputs",
        )
        self.equal(
            whole,
            self.output(merge([self.fn.create_accumulator(), self.added(inputs)])),
            "must not be changed by merging an empty accumulator",
        )
        self.equal(
            whole, self.output(merge([self.added(inputs)])), "must not be changed by merging a single accumulator"
        )

    def _check_pickles(self, inputs: Sequence[Any]) -> None:
        try:
            accumulator = pickle.loads(cloudpickle.dumps(self.added(inputs)))
        except Exception as error:
            raise Broken(f"must have picklable accumulators: {error}") from error
        whole = self.output(self.added(inputs))
        self.equal(whole, self.output(accumulator), "must return the same output for a pickled accumulator")
        again = attrs.evolve(self, fn=self.unpickled).output(accumulator)
        self.equal(whole, again, "must behave the same after it is pickled")

    def _check_subtracting(self, inputs: Sequence[Any]) -> None:
        if not self.fn.can_subtract or not inputs:
            return
        for index, value in enumerate(inputs):
            rest = [*inputs[:index], *inputs[index + 1 :]]
            accumulator = self.fn.subtract_input(self.added(inputs), copy.deepcopy(value))
            rule = f"must reverse adding {value!r} when it is subtracted"
            self.equal(self.output(self.added(rest)), self.output(accumulator), rule)

    def _check_kernel(self, inputs: Sequence[Any], groups: Sequence[list[Any]]) -> None:
        kernel = self.fn.own_kernel
        if kernel is None or not _are_taken(inputs, kernel):
            return
        builtin = attrs.evolve(self, fn=_builtin(kernel))
        rule = f"must have the same accumulators as its kernel {kernel.value!r}"
        for count in range(len(inputs) + 1):
            _check_exact(builtin.added(inputs[:count]), self.added(inputs[:count]), rule)
        merged, expected = (
            checked.fn.merge_accumulators([checked.added(group) for group in groups]) for checked in (self, builtin)
        )
        _check_exact(expected, merged, rule)
        if self.fn.can_subtract and inputs:
            rest, expected = (
                checked.fn.subtract_input(checked.added(inputs), inputs[0]) for checked in (self, builtin)
            )
            _check_exact(expected, rest, rule)
        rule = f"must return the same as its kernel {kernel.value!r}"
        for accumulator in (builtin.fn.create_accumulator(), builtin.added(inputs), expected):
            _check_exact(builtin.output(accumulator), self.output(accumulator), rule)


def _builtin(kernel: Kernel) -> CombineFn[Any, Any, Any]:
    """Return the combiner whose methods do what a kernel does on columns."""
    match kernel:
        case Kernel.SUM:
            return Sum()
        case Kernel.COUNT:
            return Count()
        case Kernel.MEAN:
            return Mean()
        case Kernel.MIN:
            return Min()
        case Kernel.MAX:
            return Max()
        case _:
            assert_never(kernel)


def _are_taken(inputs: Sequence[Any], kernel: Kernel) -> bool:
    """Return whether a kernel takes these inputs; the methods of the combiner are called for all others."""
    kinds = {type(value) for value in inputs}
    are_whole = kinds == {int} and all(-(2**63) <= value < 2**63 for value in inputs)
    return kernel.reduction is None or not inputs or kinds == {float} or are_whole


def _check_exact(expected: Any, actual: Any, rule: str) -> None:
    """Raise `Broken` unless two results are of the same types and equal to the last bit; 0.0 equals -0.0."""
    if _kinds(expected) != _kinds(actual) or not identical(expected, actual):
        raise Broken(
            f"{rule}, got {actual!r} instead of {expected!r}",
            law="set `kernel` only for a combiner that computes exactly the same",
        )


def _kinds(value: Any) -> Any:
    """Return the type of a result, or those of the items of a tuple."""
    return tuple(map(_kinds, value)) if type(value) is tuple else type(value)

"""Dead letters: which elements that fail become one, the result that carries them, and the share that is tolerated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.arguments import error_classes
from dataflow_model.errors import InvalidArgument, InvalidType, UserCodeError, explain
from dataflow_model.plan.functions.combine import CombineFn
from dataflow_model.plan.functions.dofn import DeadLetter
from dataflow_model.plan.functions.typevars import ResultT
from dataflow_model.transforms.pipelines.groupings import add_grouping
from dataflow_model.transforms.pipelines.output_tags import check_dead_letters
from dataflow_model.transforms.pipelines.pcollection import PCollection
from dataflow_model.transforms.pipelines.ptransform import PTransform
from dataflow_model.windowing import WindowFn

if TYPE_CHECKING:
    from collections.abc import Iterable

_SHARE: Final = "use threshold=0.01, for example, if up to one element in a hundred may fail"


class WithDeadLetters(tuple[ResultT, PCollection[DeadLetter]]):  # noqa: SLOT001 - a tuple's size differs, so that it has none
    """The result of a transform `.with_exception_handling()`: a pair of its usual result and the dead letters.

    Both are attributes too: `good` and `bad`, and under the tags that `with_exception_handling` was given.

    Source: Beam's `with_exception_handling`.

    Example:
        >>> import dataflow_model as dm
        >>> parsed = dm.Pipeline() | dm.Create(["1", "?"]) | dm.Map(int).with_exception_handling()
        >>> numbers, failed = parsed
        >>> parsed.good is numbers, parsed.bad is failed, parsed.dead_letters is failed
        (True, True, True)
    """

    _indices: dict[str, int]

    def __new__(
        cls, good: ResultT, bad: PCollection[DeadLetter], *, main_tag: str = "good", tag: str = "bad"
    ) -> WithDeadLetters[ResultT]:
        """Make the pair.

        Args:
            good: the usual result.
            bad: the dead letters.
            main_tag: another name of the usual result.
            tag: another name of the dead letters.
        """
        pair = super().__new__(cls, (good, bad))
        pair._indices = {"good": 0, "bad": 1, main_tag: 0, tag: 1}
        return pair

    @property
    def good(self) -> ResultT:
        """The usual result."""
        good: ResultT = self[0]
        return good

    @property
    def bad(self) -> PCollection[DeadLetter]:
        """The dead letters."""
        bad: PCollection[DeadLetter] = self[1]
        return bad

    if not TYPE_CHECKING:  # type checkers would take every name for one that exists

        def __getattr__(self, name: str) -> Any:
            """Return the part that has this tag."""
            if (index := self.__dict__.get("_indices", {}).get(name)) is None:
                text = f"there is no output {name!r}; the outputs are {list(self._indices)}"
                hint = "unpack the pair: good, bad = …; of several good outputs, use those of good"
                raise AttributeError(explain(text, hint=hint), name=None, obj=None)
            return self[index]


def check_tags(tag: str, main_tag: object) -> None:
    """Raise unless the main output can have this name beside the dead letters."""
    if not isinstance(main_tag, str):
        raise InvalidType(f"`main_tag` must be text, got {main_tag!r}", hint="use main_tag='good'")
    if main_tag in (tag, "bad") or tag == "good":
        raise InvalidArgument(
            f"the outputs need different tags, got main_tag={main_tag!r} and the tag {tag!r} of the dead letters",
            hint="use .with_exception_handling('failed', main_tag='parsed'), for example",
        )


def _errors(given: object) -> tuple[type[Exception], ...]:
    return error_classes("exc_class", given)


def _share(given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise InvalidType(f"`threshold` must be a number between 0 and 1, got {given!r}", hint=_SHARE)
    if not 0 <= given <= 1:
        raise InvalidArgument(f"`threshold` must be between 0 and 1, got {given!r}", hint=_SHARE)
    return float(given)


def _windowing(given: Any) -> WindowFn | None:
    if given is not None and not isinstance(given, WindowFn):
        raise InvalidType(
            f"`threshold_windowing` must be a window function, got {given!r}",
            hint="use threshold_windowing=dm.FixedWindows('1 hour'), for example",
        )
    return given


@attrs.frozen
class DeadLetters:
    """How a transform treats elements for which its function raises an error.

    Attributes:
        tag: the tag of their output.
        main_tag: the name of the usual result in the pair.
        errors: the classes of exceptions for which an element becomes a dead letter; others stop the run.
        threshold: the share of the elements of a window that may become dead letters.
        windowing: the windows in which the share is computed; `None` for those of the input.
    """

    tag: str
    main_tag: str = "good"
    errors: tuple[type[Exception], ...] = attrs.field(default=(Exception,), converter=_errors)
    threshold: float = attrs.field(default=1.0, converter=_share)
    windowing: WindowFn | None = attrs.field(default=None, converter=_windowing)

    def __attrs_post_init__(self) -> None:
        """Check the tags."""
        check_dead_letters(self.tag)
        check_tags(self.tag, self.main_tag)

    def pair(self, good: ResultT, bad: PCollection[DeadLetter]) -> WithDeadLetters[ResultT]:
        """Return the two under their names."""
        return WithDeadLetters(good, bad, main_tag=self.main_tag, tag=self.tag)


class _Shares(CombineFn[tuple[int, int], tuple[int, int], tuple[int, int]]):
    """Count elements, and those that failed."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add_input(self, accumulator: tuple[int, int], element: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + element[0], accumulator[1] + element[1]

    def merge_accumulators(self, accumulators: Iterable[tuple[int, int]]) -> tuple[int, int]:
        total, failed = 0, 0
        for more, more_failed in accumulators:
            total, failed = total + more, failed + more_failed
        return total, failed

    def extract_output(self, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator

    def subtract_input(self, accumulator: tuple[int, int], element: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] - element[0], accumulator[1] - element[1]


def _one(_: Any) -> tuple[None, tuple[int, int]]:
    return None, (1, 0)


def _one_failed(_: Any) -> tuple[None, tuple[int, int]]:
    return None, (0, 1)


class _Share(PTransform[PCollection[Any], PCollection[Any]]):
    """Combine the counts of a window, all with the key `None`."""

    def expand(self, pcoll: PCollection[Any], /) -> PCollection[Any]:
        shares: PCollection[Any] = add_grouping(pcoll, _Shares(), tuple[int, int], has_one_key=True)
        return shares


@attrs.frozen
class _Limit:
    """Raises for a window in which too many elements have failed."""

    label: str
    threshold: float

    def __call__(self, pair: tuple[None, tuple[int, int]], window: Any) -> tuple[None, tuple[int, int]]:
        _, (total, failed) = pair
        if failed > self.threshold * total:
            raise UserCodeError(
                f"{failed} of {total} elements of {self.label!r} in {window!r} are dead letters, more than the "
                f"threshold={self.threshold!r} of them",
                hint="look at the errors in the dead letters of a run with threshold=1, or raise the threshold",
            )
        return pair


def limit(pcoll: PCollection[Any], bad: PCollection[DeadLetter], how: DeadLetters) -> None:
    """Add the steps that fail the run if more of the elements of a window become dead letters than may.

    The share is computed once for each window, when the watermark passes its end, so it depends neither on bundles nor
    on micro-batches.
    """
    from dataflow_model.transforms.elementwise.maps import Map
    from dataflow_model.transforms.elementwise.reshaping import Flatten
    from dataflow_model.transforms.pipelines.windows import Window
    from dataflow_model.triggers import DefaultTrigger

    once = Window.trigger(DefaultTrigger()) if how.windowing is None else Window.into(how.windowing)
    counted = (pcoll | "Each" >> Map(_one), bad | "Failed" >> Map(_one_failed)) | "Counted" >> Flatten()
    shares = counted | "Once" >> once | "Share" >> _Share()
    _ = shares | "Threshold" >> Map(_Limit(pcoll.pipeline.scope, how.threshold))

"""The features that a pipeline may require of a runner, and each runner's support for them as data.

A runner has one table with an answer for every feature. It checks a plan against its table before running it, and the
matrix in the documentation is generated from the same tables, so the two cannot differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, assert_never

import attrs

from dataflow_model.errors import UnsupportedOnRunner
from dataflow_model.plan.checks.record_ids import RECORD_ID
from dataflow_model.plan.endpoints.features import Feature
from dataflow_model.plan.functions.resuming import ResumingFn
from dataflow_model.plan.logical.nodes import (
    AssignTimestamps,
    AssignWindows,
    Deduplicate,
    Flatten,
    GroupByKeyAndWindow,
    ParDo,
    Read,
    Reshuffle,
    ToPairs,
    Write,
)
from dataflow_model.plan.logical.stages import changing_sides
from dataflow_model.time import Duration
from dataflow_model.triggers import DefaultTrigger

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.plan.logical.strategy import WindowingStrategy


@attrs.frozen
class Supported:
    """A runner supports the feature.

    Attributes:
        how: what is special about the feature on this runner.
    """

    how: str = ""


@attrs.frozen
class Unsupported:
    """A runner does not support the feature.

    Attributes:
        reason: why not, as a clause for the message.
        instead: what to do instead, as an imperative.
    """

    reason: str
    instead: str


Answer: TypeAlias = Supported | Unsupported


@attrs.frozen
class Support:
    """The table of one runner.

    Attributes:
        runner: the expression that creates the runner.
        answers: the answer for each feature.

    Raises:
        ValueError: for a table without an answer for some feature.

    Example:
        >>> table = Support("ToyRunner()", dict.fromkeys(Feature, Supported()) | {
        ...     Feature.SIGNALS: Unsupported("it has no ticks", "use dm.LocalRunner()"),
        ... })
        >>> print(table.refusal(Feature.SIGNALS, "result.signal('go')"))
        result.signal('go') needs `result.signal()`, which ToyRunner() does not support: it has no ticks
        Hint: use dm.LocalRunner()
    """

    runner: str
    answers: Mapping[Feature, Answer] = attrs.field(repr=False)

    def __attrs_post_init__(self) -> None:
        """Check that every feature has an answer."""
        missing = [feature.name for feature in Feature if feature not in self.answers]
        if missing:
            raise ValueError(f"{self.runner} says nothing about {', '.join(missing)}")

    def check(self, plan: Plan) -> None:
        """Raise for the first feature in a plan that the runner does not support.

        Raises:
            UnsupportedOnRunner: with the label of the transform that needs it, the reason and a hint.
        """
        for label, feature in features_of(plan):
            self.require(feature, repr(label))

    def require(self, feature: Feature, who: str) -> None:
        """Raise unless the runner supports a feature.

        Args:
            feature: the feature.
            who: what needs the feature, for the message.

        Raises:
            UnsupportedOnRunner: with the reason and a hint.
        """
        if isinstance(self.answers[feature], Unsupported):
            raise self.refusal(feature, who)

    def refusal(self, feature: Feature, who: str) -> UnsupportedOnRunner:
        """Return the error for a feature that the runner does not support."""
        answer = self.answers[feature]
        assert isinstance(answer, Unsupported), f"{self.runner} has {feature}"  # noqa: S101 - callers have checked
        return UnsupportedOnRunner(
            f"{who} needs {feature.value}, which {self.runner} does not support: {answer.reason}", hint=answer.instead
        )


def features_of(plan: Plan) -> Iterator[tuple[str, Feature]]:
    """Yield the features that each node of a plan needs, with its label, in the plan's order.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> _ = p | dm.Create([("a", 1)]) | dm.Sum.per_key()
        >>> [(label, feature.name) for label, feature in features_of(p.plan())]
        [('Create', 'ELEMENTS'), ('Sum.PerKey', 'GROUPINGS')]
    """
    changing = changing_sides(plan)
    for node in plan.nodes:
        match node:
            case Read():
                features = [node.source.feature]
                if node.source.processing_time is not None:
                    features.append(Feature.REPLAY_CLOCK)
            case ParDo():
                features = [Feature.STATE if node.is_stateful else Feature.ELEMENT_WISE]
                if isinstance(node.fn, ResumingFn):
                    features.append(Feature.RESUMING)
                if RECORD_ID in node.metadata:
                    features.append(Feature.RECORD_IDS)
                are_changing = {side in changing for side in node.side_inputs}
                features += [
                    Feature.CHANGING_SIDE_INPUTS if is_changing else Feature.STATIC_SIDE_INPUTS
                    for is_changing in are_changing
                ]
            case ToPairs() | AssignTimestamps() | Flatten() | Reshuffle():
                features = [Feature.ELEMENT_WISE]
            case AssignWindows():
                features = [Feature.WINDOWS]
            case GroupByKeyAndWindow():
                features = [Feature.GROUPINGS, *_of_strategy(node.strategy)]
            case Deduplicate():
                features = [Feature.DEDUPLICATION]
            case Write():
                features = [node.sink.feature]
            case _:
                assert_never(node)
        yield from ((node.label, feature) for feature in features)


def _of_strategy(strategy: WindowingStrategy) -> Iterator[Feature]:
    if type(strategy.trigger) is not DefaultTrigger:
        yield Feature.TRIGGERS
    if strategy.allowed_lateness > Duration(0) or strategy.late_data is not None:
        yield Feature.LATENESS
    if strategy.accumulates or strategy.retracting:
        yield Feature.REFINEMENTS

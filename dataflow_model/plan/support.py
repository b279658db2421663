"""What a pipeline may ask of a runner, feature by feature, and each runner's answer as data.

A runner has one table with an answer to every feature. It looks up its own table before it runs a plan, and the matrix
in the documentation is made of the same tables, so that the two cannot differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, assert_never

import attrs

from dataflow_model.errors import UnsupportedOnRunner
from dataflow_model.plan.features import Feature
from dataflow_model.plan.nodes import (
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
from dataflow_model.plan.record_ids import RECORD_ID
from dataflow_model.plan.stages import dynamic_sides
from dataflow_model.time import Duration
from dataflow_model.triggers import DefaultTrigger

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dataflow_model.plan.graph import Plan
    from dataflow_model.plan.strategy import WindowingStrategy

__all__ = ["Answer", "Support", "Supported", "Unsupported", "features_of"]


@attrs.frozen
class Supported:
    """A runner has it.

    Attributes:
        how: what is particular about it there.
    """

    how: str = ""


@attrs.frozen
class Unsupported:
    """A runner does not have it.

    Attributes:
        reason: why; a clause, as it goes into a message.
        instead: what to do instead; an imperative.
    """

    reason: str
    instead: str


Answer: TypeAlias = Supported | Unsupported


@attrs.frozen
class Support:
    """The table of one runner.

    Attributes:
        runner: what users write to get it.
        answers: its answer to each feature.

    Raises:
        ValueError: for a table without an answer to some feature.

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
        """Check that no feature is forgotten."""
        missing = [feature.name for feature in Feature if feature not in self.answers]
        if missing:
            raise ValueError(f"{self.runner} says nothing about {', '.join(missing)}")

    def check(self, plan: Plan) -> None:
        """Raise for the first thing in a plan that the runner does not have.

        Raises:
            UnsupportedOnRunner: with the label of what needs it, the reason and the way out.
        """
        for label, feature in features_of(plan):
            self.require(feature, repr(label))

    def require(self, feature: Feature, who: str) -> None:
        """Raise unless the runner has a feature.

        Args:
            feature: what is needed.
            who: what needs it, as the message says it.

        Raises:
            UnsupportedOnRunner: with the reason and the way out.
        """
        if isinstance(self.answers[feature], Unsupported):
            raise self.refusal(feature, who)

    def refusal(self, feature: Feature, who: str) -> UnsupportedOnRunner:
        """Return the error for a feature that the runner does not have."""
        answer = self.answers[feature]
        assert isinstance(answer, Unsupported), f"{self.runner} has {feature}"  # noqa: S101 - callers have looked
        return UnsupportedOnRunner(
            f"{who} needs {feature.value}, which {self.runner} does not support: {answer.reason}", hint=answer.instead
        )


def features_of(plan: Plan) -> Iterator[tuple[str, Feature]]:
    """Yield what each node of a plan needs, with its label, in the plan's order.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> _ = p | dm.Create([("a", 1)]) | dm.Sum.per_key()
        >>> [(label, feature.name) for label, feature in features_of(p.plan())]
        [('Create', 'ELEMENTS'), ('Sum.PerKey', 'GROUPINGS')]
    """
    changing = set(map(id, dynamic_sides(plan)))
    for node in plan.nodes:
        match node:
            case Read():
                features = [node.source.feature]
                if node.source.processing_time is not None:
                    features.append(Feature.REPLAY_CLOCK)
            case ParDo():
                features = [Feature.STATE if node.is_stateful else Feature.ELEMENT_WISE]
                if RECORD_ID in node.metadata:
                    features.append(Feature.RECORD_IDS)
                sides = {id(side) in changing for side in node.side_inputs}
                features += [Feature.CHANGING_SIDE_INPUTS if side else Feature.STATIC_SIDE_INPUTS for side in sides]
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

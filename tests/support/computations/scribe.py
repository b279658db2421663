"""A computation that does what its records say, and topologies of two of them.

A value is a pair of a name and a tuple of actions; see `Scribe.process_record`.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.plan.endpoints.scripts import AddStep, WatermarkStep
from dataflow_model.testing import TestStream
from tests.support.state.actor import scripts as acting_scripts


class Scribe(dm.Computation):
    """Does what its records say, and tells all that it sees."""

    coder = dm.PickleCoder()
    percentiles = (50,)

    def __init__(self, passed: str, log: str) -> None:
        self.passed = passed
        self.log = log

    def process_record(self, record: dm.StreamRecord) -> None:
        name, actions = record.value
        self._tell(record.stream, record.is_late, name, record.timestamp)
        for action, *rest in actions:
            match action:
                case "keep":
                    self.state.write([*(self.state.read() or []), rest[0]], self._since(record.timestamp, rest[1]))
                case "clear":
                    self.state.clear()
                case "event":
                    stamp = None if rest[2] is None else record.timestamp + dm.duration(rest[2])
                    self.set_timer(rest[1], record.timestamp + dm.duration(rest[0]), timestamp=stamp)
                case "clock":
                    self.set_timer(rest[1], dm.duration(rest[0]), dm.TimeDomain.PROCESSING_TIME)
                case "stop":
                    self.clear_timer(rest[1], rest[0])
                case "pass":
                    at = record.timestamp + dm.duration(rest[0])
                    self.produce(dm.StreamRecord(record.key, (name, rest[1]), at), self.passed)

    def process_timer(self, timer: dm.FiredTimer) -> None:
        self._tell(timer.domain.name, int(timer.time), timer.tag, timer.timestamp)
        match timer.tag:
            case "again":
                self.set_timer("once", dm.duration(2), timer.domain)
            case "pass":
                at = min(timer.timestamp, self.state.timestamp or timer.timestamp)
                self.produce(dm.StreamRecord(timer.key, ("timer", (("keep", 0, True),)), at), self.passed)
            case "clear":
                self.state.clear()

    def _since(self, timestamp: dm.EventTime, holds: bool) -> dm.EventTime | None:
        return min(timestamp, self.state.timestamp or timestamp) if holds else None

    def _tell(self, *seen: Any) -> None:
        since = self.state.timestamp
        log = (
            *seen[:3],
            tuple(self.state.read() or ()),
            None if since is None else int(since),
            int(self.low_watermark()),
            int(self.low_watermark(50)),
        )
        self.produce(dm.StreamRecord(self.key, log, seen[-1]), self.log)


class Ear(Scribe):
    """The same, and passes nothing on."""

    def process_record(self, record: dm.StreamRecord) -> None:
        name, actions = record.value
        kept = tuple(action for action in actions if action[0] != "pass" and "pass" not in action)
        super().process_record(
            dm.StreamRecord(record.key, (name, kept), record.timestamp, record.stream, record.is_late)
        )


def topology(*scripts: TestStream) -> dm.Topology:
    """Return two computations for each script: the second takes what the first gives, and the input by other keys.

    What they tell is in the sinks `told`, `told 1`, ….
    """
    built = dm.Topology("scribes")
    for number, script in enumerate(scripts):
        add_scribes(built, script, f" {number}" if number else "")
    return built


def alone(script: TestStream) -> dm.Topology:
    """Return a computation with none behind it."""
    built = dm.Topology("scribe")
    built.inject("input", script)
    built.add(Scribe("passed", "told"), subscribe={"input": lambda value: value[0]}, produces=["passed", "told"])
    built.sink("told", dm.io.Collect())
    return built


def add_scribes(built: dm.Topology, script: TestStream, name: str) -> None:
    given, passed, log = f"input{name}", f"passed{name}", f"told{name}"
    built.inject(given, script)
    first = Scribe(passed, log)
    built.add(first, subscribe={given: lambda value: value[0]}, produces=[passed, log], label=f"first{name}")
    second = {passed: None, given: lambda value: len(value[1]) % 2}
    built.add(Ear(passed, log), subscribe=second, produces=[log], label=f"second{name}")
    built.sink(log, dm.io.Collect())


# Scripts --------------------------------------------------------------------------------------------------------------

_TAGS = st.sampled_from(["once", "again", "pass", "clear"])
_DOMAINS = st.sampled_from(list(dm.TimeDomain))
_SIMPLE = st.one_of(
    st.tuples(st.just("keep"), st.integers(0, 9), st.booleans()),
    st.tuples(st.just("clear")),
    st.tuples(st.just("event"), st.integers(-3, 6), _TAGS, st.none()),
    st.integers(0, 6).flatmap(lambda delay: st.tuples(st.just("event"), st.just(delay), _TAGS, st.integers(0, delay))),
    st.tuples(st.just("clock"), st.integers(0, 9), _TAGS),
    st.tuples(st.just("stop"), _DOMAINS, _TAGS),
)
_ACTIONS = st.one_of(
    _SIMPLE,
    st.tuples(st.just("pass"), st.integers(0, 5), st.lists(_SIMPLE, max_size=2).map(tuple)),
)


def scripts(max_steps: int = 15) -> st.SearchStrategy[TestStream]:
    """Draw scripts of names and actions; the numbers of a drawn script choose among drawn actions."""
    return acting_scripts(max_steps, _ACTIONS)


def punctual(script: TestStream) -> TestStream:
    """Leave out what is behind the watermark when it comes."""
    low, steps = dm.MIN_TIMESTAMP, list[Any]()
    for step in script.steps:
        if isinstance(step, AddStep):
            steps.append(AddStep(tuple((value, at) for value, at in step.elements if at >= low)))
            continue
        if isinstance(step, WatermarkStep) and step.percentile == 100:
            low = max(low, step.watermark)
        steps.append(step)
    return TestStream(steps)


def run(built: dm.Topology, runner: Any = None) -> Any:
    """Run a topology to its end and return the result."""
    result = built.run(runner or dm.LocalRunner(), until="drained")
    result.wait_until_finish()
    return result

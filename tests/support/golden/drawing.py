"""Pipelines drawn from their numbers alone: the same on every machine, in every process and with every hypothesis."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Any, Final

import attrs

import dataflow_model as dm
from dataflow_model.plan.checks.all_checks import check
from dataflow_model.plan.logical.nodes import Write
from dataflow_model.plan.rewrites.rounds import in_rounds
from tests.support.golden.families import FAMILIES

if TYPE_CHECKING:
    from pathlib import Path

    from dataflow_model.plan.logical.graph import Plan

__all__ = ["COUNT", "Drawn", "drawn", "sinks_of"]

COUNT: Final = 2_000
"""The number of pipelines."""


@attrs.frozen
class Drawn:
    """A pipeline.

    Attributes:
        number: what it is drawn from.
        family: the name of its kind.
        parts: what was drawn, in the order of the pipeline.
        build: adds the pipeline to one; it may keep files in a folder.
        interval: the length of a round, for a pipeline that runs in rounds.
    """

    number: int
    family: str
    parts: tuple[Any, ...]
    build: Any
    interval: dm.Duration | None = None

    def plan(self, folder: Path) -> Plan:
        """Return the checked plan, whose sources and sinks keep their files in a folder."""
        pipeline = dm.Pipeline()
        self.build(pipeline, folder)
        plan = pipeline.plan()
        check(plan)
        return plan if self.interval is None else in_rounds(plan, self.interval)

    def described(self) -> str:
        """Return what was drawn as text, the same in each process."""
        rounds = [] if self.interval is None else [f"in rounds of {self.interval}"]
        lines = [f"pipeline {self.number}: {self.family}", *rounds, *map(repr, self.parts)]
        return re.sub(r" at 0x[0-9a-f]+", "", "\n  ".join(lines))


def drawn(number: int) -> Drawn:
    """Return the pipeline of a number."""
    pick = random.Random(number).choice
    names = list(FAMILIES)
    family = names[number % len(names)]
    parts, build = FAMILIES[family](pick)
    interval = dm.duration(pick([2, 5])) if pick(range(12)) == 0 and family != "replayed files" else None
    return Drawn(number, family, parts, build, interval)


def sinks_of(plan: Plan) -> list[str]:
    """Return the labels of the sinks whose elements a run keeps."""
    return [node.label for node in plan.nodes if isinstance(node, Write) and node.sink.keeps_records]

"""Triggers, which decide when panes are emitted: the trigger tree, its contexts and its evaluator.

Begin with `base` and `contexts`, then `watermark`, `counts` and `composites`; `evaluator` runs a tree without
an engine.
"""

from __future__ import annotations

from dataflow_model.triggers.base import CompositeTrigger, Trigger
from dataflow_model.triggers.composites import AfterAll, AfterAny, AfterEach
from dataflow_model.triggers.contexts import ChildResult, FiringMode, Outcome, PaneView, TimeDomain, TriggerContext
from dataflow_model.triggers.counts import AfterBytes, AfterCount
from dataflow_model.triggers.delays import AfterEventTime, AfterProcessingTime
from dataflow_model.triggers.elements import AfterPunctuation, Always, DataTrigger, Never
from dataflow_model.triggers.evaluator import TriggerMachine
from dataflow_model.triggers.periods import AtPeriod
from dataflow_model.triggers.repetition import OrFinally, RepeatCount, Repeatedly, RepeatUntil
from dataflow_model.triggers.signals import AfterSignal
from dataflow_model.triggers.state import TreeState
from dataflow_model.triggers.watermark import AfterWatermark, DefaultTrigger

__all__ = [
    "AfterAll",
    "AfterAny",
    "AfterBytes",
    "AfterCount",
    "AfterEach",
    "AfterEventTime",
    "AfterProcessingTime",
    "AfterPunctuation",
    "AfterSignal",
    "AfterWatermark",
    "Always",
    "AtPeriod",
    "ChildResult",
    "CompositeTrigger",
    "DataTrigger",
    "DefaultTrigger",
    "FiringMode",
    "Never",
    "OrFinally",
    "Outcome",
    "PaneView",
    "RepeatCount",
    "RepeatUntil",
    "Repeatedly",
    "TimeDomain",
    "TreeState",
    "Trigger",
    "TriggerContext",
    "TriggerMachine",
]

"""When and how: the trigger tree, its contexts and its evaluator."""

from __future__ import annotations

from dataflow_model.triggers.base import ChildResult, CompositeTrigger, TimeDomain, Trigger, TriggerContext
from dataflow_model.triggers.composites import AfterAll, AfterAny, AfterEach, OrFinally, Repeatedly
from dataflow_model.triggers.evaluator import TreeState, TriggerMachine
from dataflow_model.triggers.later import (
    AfterBytes,
    AfterEventTime,
    AfterPunctuation,
    AfterSignal,
    Always,
    AtPeriod,
    DataTrigger,
    Never,
    RepeatCount,
    RepeatUntil,
)
from dataflow_model.triggers.leaves import AfterCount, AfterProcessingTime, AfterWatermark, DefaultTrigger

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
    "Never",
    "OrFinally",
    "RepeatCount",
    "RepeatUntil",
    "Repeatedly",
    "TimeDomain",
    "TreeState",
    "Trigger",
    "TriggerContext",
    "TriggerMachine",
]

"""Zeitgeist, the running example of the MillWheel paper: spikes and dips in the traffic of search queries.

Begin with `model` and `topology`, then `counting` and `detection`.

Source: Akidau et al., "MillWheel: Fault-Tolerant Stream Processing at Internet Scale" (VLDB 2013), section 2.1.
"""

from __future__ import annotations

from dataflow_model.examples.zeitgeist.counting import WindowCounter
from dataflow_model.examples.zeitgeist.detection import SpikeDipDetector
from dataflow_model.examples.zeitgeist.model import Model, ModelCalculator
from dataflow_model.examples.zeitgeist.report import Detection, Outcome, Score, score
from dataflow_model.examples.zeitgeist.running import run, runner_of
from dataflow_model.examples.zeitgeist.scenario import History, Outage, Planted, Scenario
from dataflow_model.examples.zeitgeist.topology import Searches, zeitgeist
from dataflow_model.examples.zeitgeist.values import Anomaly, Bucket, Calendar, Expectation, Kind, Late

__all__ = [
    "Anomaly",
    "Bucket",
    "Calendar",
    "Detection",
    "Expectation",
    "History",
    "Kind",
    "Late",
    "Model",
    "ModelCalculator",
    "Outage",
    "Outcome",
    "Planted",
    "Scenario",
    "Score",
    "Searches",
    "SpikeDipDetector",
    "WindowCounter",
    "run",
    "runner_of",
    "score",
    "zeitgeist",
]

"""Zeitgeist without streams: the same rules on lists, over all records in order, none of them late."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from dataflow_model.examples.zeitgeist import Anomaly, Kind, Model
from dataflow_model.examples.zeitgeist.detection import DIPPED, ENOUGH, SPIKED, Run, expected_in

if TYPE_CHECKING:
    from dataflow_model.examples.zeitgeist import History, Scenario

__all__ = ["anomalies", "bucket_counts"]


def bucket_counts(history: History) -> dict[str, Counter[int]]:
    """Count the queries by second, each record once."""
    columns = [history.table[name].to_numpy() for name in ("id", "query", "asked")]
    _, first = np.unique(columns[0], return_index=True)
    queries, seconds = columns[1][first], columns[2][first].astype("datetime64[s]").astype(int)
    return {query: Counter(seconds[queries == query].tolist()) for query in np.unique(queries).tolist()}


def anomalies(scenario: Scenario, history: History) -> list[Anomaly]:
    """Learn and detect, second by second."""
    reports = []
    for query, counts in bucket_counts(history).items():
        seconds = range(min(counts), max(counts) + 1)
        rates = forecasts(scenario, [(second, counts[second]) for second in seconds])
        for kind, factor in ((Kind.SPIKE, SPIKED), (Kind.DIP, DIPPED)):
            evidence, reported = Run(), False
            for second in seconds:
                expected = expected_in(second, rates, scenario.calendar)
                evidence = Run() if expected is None else evidence.after(second, counts[second], expected, factor)
                if evidence.score >= ENOUGH and not reported:
                    reports.append(evidence.anomaly(query, kind, second))
                reported = evidence.since is not None and (reported or evidence.score >= ENOUGH)
    return reports


def forecasts(scenario: Scenario, buckets: list[tuple[int, int]]) -> dict[int, float]:
    model, calendar = Model(scenario.calendar), scenario.calendar
    rates = {}
    for second, count in buckets:
        model.learn(second, count)
        slot = calendar.slot_of(second)
        if calendar.ends_slot(second) and model.learned[slot % calendar.slots] >= scenario.learning_days:
            rates[slot + calendar.slots] = model.rate(slot) or 0.0
    return rates

"""The demo: one pipeline function over a year of departures from New York, on every runner.

Begin with `pipeline`, then `running` and `tour`.
"""

from __future__ import annotations

from dataflow_model.demo.pipeline import DELAY, LATENESS, flights
from dataflow_model.demo.tour import flights_file, show

__all__ = ["DELAY", "LATENESS", "flights", "flights_file", "show"]

"""The demo: a year of New York's departures, by one pipeline function, on every runner."""

from __future__ import annotations

from dataflow_model.demo.pipeline import DELAY, LATENESS, flights
from dataflow_model.demo.tour import flights_file, show

__all__ = ["DELAY", "LATENESS", "flights", "flights_file", "show"]

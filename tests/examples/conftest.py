"""One history, and one local run of it, for all tests of the folder."""

from __future__ import annotations

import pytest

import dataflow_model as dm
from dataflow_model.examples.zeitgeist import History, Outcome, Scenario, run


@pytest.fixture(scope="session")
def scenario() -> Scenario:
    """Return a history of three days, two of them to learn from."""
    return Scenario(days=3)


@pytest.fixture(scope="session")
def history(scenario: Scenario) -> History:
    """Return what it makes."""
    return scenario.make()


@pytest.fixture(scope="session")
def local(scenario: Scenario, history: History) -> Outcome:
    """Return what LocalRunner finds in it."""
    return run(scenario, history, dm.LocalRunner())

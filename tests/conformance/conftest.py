"""The suite that each host runs whole: a test that takes `host` runs once on each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.hosts import OnHost, params_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=params_of())
def host(request: pytest.FixtureRequest, tmp_path: Path) -> OnHost:
    """Return each host."""
    return OnHost(request.param, request, tmp_path)


@pytest.fixture(params=params_of(lambda host: host.has_clock))
def clocked(request: pytest.FixtureRequest, tmp_path: Path) -> OnHost:
    """Return each host whose clock and watermarks advance during a run."""
    return OnHost(request.param, request, tmp_path)


@pytest.fixture(params=params_of(lambda host: host.writes))
def writing(request: pytest.FixtureRequest, tmp_path: Path) -> OnHost:
    """Return each host that publishes what sinks receive."""
    return OnHost(request.param, request, tmp_path)


@pytest.fixture(params=params_of(lambda host: host.has_checkpoint))
def durable(request: pytest.FixtureRequest, tmp_path: Path) -> OnHost:
    """Return each host with a checkpoint."""
    return OnHost(request.param, request, tmp_path)

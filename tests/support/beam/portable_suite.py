"""The suite of Beam's runner in process, on one of ours: `scripts/beam.py` runs it with `suite_plugin`.

As a class of its own, since Beam skips some tests by the names of its classes, with the one test that the suite of
Beam's portable runners adds.
"""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false

from __future__ import annotations

from typing import Any

import apache_beam as beam
from apache_beam.runners.portability import portable_runner_test
from apache_beam.runners.portability.fn_api_runner import fn_runner_test

from tests.support.beam.suite_plugin import host


class TestPortable(fn_runner_test.FnApiRunnerTest):  # type: ignore[misc] # Beam ships no types that mypy takes
    """Beam's tests, on the host."""

    test_pardo_state_with_custom_key_coder = (
        portable_runner_test.PortableRunnerTest.test_pardo_state_with_custom_key_coder
    )

    def create_pipeline(self, is_drain: bool = False) -> Any:
        """Return a pipeline on the host."""
        return beam.Pipeline(runner=host()(is_drain=is_drain))

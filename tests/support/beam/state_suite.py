"""The suite of functions with state and timers, on any host: `scripts/beam.py` runs it with `suite_plugin`.

Beam's tests read a list that their last function fills, which is another list where functions run in other processes.
Here the list is a file.
"""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false

from __future__ import annotations

import pathlib
import tempfile
from typing import Any

from apache_beam.transforms import userstate_test
from apache_beam.transforms.userstate_test import InterfaceTest

from tests.support.beam.appended import Append, Appended

__all__ = ["InterfaceTest", "StatefulDoFnOnDirectRunnerTest"]


class StatefulDoFnOnDirectRunnerTest(userstate_test.StatefulDoFnOnDirectRunnerTest):  # type: ignore[misc]
    """Beam's tests, whose results are in a file."""

    def setUp(self) -> None:
        """Begin with an empty file."""
        self._path = pathlib.Path(tempfile.mkdtemp(), "records")
        userstate_test.StatefulDoFnOnDirectRunnerTest.all_records = Appended(self._path)

    def record_dofn(self) -> Any:
        """Return the function that puts its elements where the test reads them."""
        return Append(self._path)

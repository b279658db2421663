"""`pytest -p tests.support.no_pyspark`: run tests as where PySpark is not installed.

To import the module changes nothing, since pytest imports every module to look for doctests.
"""

from __future__ import annotations

import sys
from typing import Any


def pytest_load_initial_conftests() -> None:
    """Leave under PySpark's name what Python keeps there for a module that cannot be imported."""
    modules: dict[str, Any] = sys.modules
    modules["pyspark"] = None

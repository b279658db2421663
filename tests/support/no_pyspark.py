"""`pytest -p tests.support.no_pyspark`: run tests as where PySpark is not installed."""

from __future__ import annotations

import sys
from typing import Any

# What Python keeps under the name of a module that cannot be imported.
modules: dict[str, Any] = sys.modules
modules["pyspark"] = None

"""Let the tests of this folder import each other and the helpers beside other tests, however pytest was started."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

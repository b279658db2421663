"""Let the tests of this folder import its plain reference, however pytest was started."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

# Doctests are looked for in every module; these two import Beam.
collect_ignore = [] if importlib.util.find_spec("apache_beam") else ["beam_side.py", "comparing.py"]

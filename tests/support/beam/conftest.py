"""What is passed over where Beam is not installed."""

from __future__ import annotations

import importlib.util

# Doctests are looked for in every module; these import Beam.
collect_ignore = [] if importlib.util.find_spec("apache_beam") else ["beam_side.py", "comparing.py", "programs.py"]

"""What is passed over where Beam is not installed, or where Beam's own suites are not run."""

from __future__ import annotations

import importlib.util
import os

# Doctests are looked for in every module; these import Beam, and the second ones what Beam's tests need.
_WITH_BEAM = ["beam_side.py", "comparing.py", "google_services.py", "killed_job.py", "main_program.py", "programs.py"]
_OF_SUITES = ["portable_suite.py", "suite_plugin.py"]
collect_ignore = [] if "BEAM_HOST" in os.environ else _OF_SUITES
if not importlib.util.find_spec("apache_beam"):
    collect_ignore = _WITH_BEAM + _OF_SUITES

"""The command, as `python -m dataflow_model`."""

from __future__ import annotations

import sys

from dataflow_model.cli import main

if __name__ == "__main__":
    sys.exit(main())

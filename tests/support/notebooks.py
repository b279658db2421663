"""Notebooks: their code, and running them."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

EXECUTE = """
import sys, nbclient, nbformat
notebook = nbformat.read(sys.argv[1], as_version=4)
resources = {"metadata": {"path": sys.argv[2]}}
nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources).execute()
"""


def execute(notebook: Path) -> subprocess.CompletedProcess[str]:
    """Run a notebook from top to bottom, or skip where nothing can."""
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    command = [sys.executable, "-c", EXECUTE, str(notebook), str(notebook.parent)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)


def code_cells(path: Path) -> list[dict[str, Any]]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]

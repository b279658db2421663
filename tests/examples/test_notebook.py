"""The notebook of the Zeitgeist example: kept as it was executed, and it still runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.notebooks import code_cells, execute

if TYPE_CHECKING:
    from pathlib import Path

MOST_BYTES = 1_000_000


@pytest.fixture
def notebook(repository: Path) -> Path:
    return repository / "notebooks" / "02_zeitgeist.ipynb"


def test_the_stored_notebook_has_the_outputs_of_its_execution_and_one_picture(notebook: Path) -> None:
    cells = code_cells(notebook)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert all(output["output_type"] != "error" for output in outputs)
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 1
    assert notebook.stat().st_size < MOST_BYTES


def test_the_notebook_prints_full_recall_and_the_cost_of_a_single_watermark(notebook: Path) -> None:
    printed = "".join(
        "".join(output["text"])
        for cell in code_cells(notebook)
        for output in cell["outputs"]
        if output["output_type"] == "stream"
    )
    good, hasty = [line for line in printed.splitlines() if line.startswith("precision")]
    assert "precision 1.00, recall 1.00" in good
    assert "0 false dips" in good
    assert "0 false dips" not in hasty


@pytest.mark.slow
def test_the_notebook_runs(notebook: Path) -> None:
    done = execute(notebook)
    assert done.returncode == 0, done.stderr

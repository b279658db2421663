"""The notebook and the page of the figures: complete, executed, and no larger than they must be."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from dataflow_model.figures import FIGURES, find
from tests.support.notebooks import code_cells, execute

if TYPE_CHECKING:
    from pathlib import Path

MOST_BYTES = 2_000_000


@pytest.fixture
def notebook(repository: Path) -> Path:
    return repository / "notebooks" / "01_the_model.ipynb"


def test_the_notebook_draws_every_figure(notebook: Path) -> None:
    source = "\n".join("".join(cell["source"]) for cell in code_cells(notebook))
    assert set(re.findall(r'draw\("(\w+)"\)', source)) == set(FIGURES)


def test_the_stored_notebook_was_executed_from_top_to_bottom(notebook: Path) -> None:
    cells = code_cells(notebook)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    pictures = 0
    for cell in cells:
        assert all(output["output_type"] != "error" for output in cell["outputs"])
        pictures += sum("image/png" in output.get("data", {}) for output in cell["outputs"])
    assert pictures == len(FIGURES) + 1


def test_the_notebook_is_small_enough_to_be_kept(notebook: Path) -> None:
    assert notebook.stat().st_size < MOST_BYTES


@pytest.mark.slow
def test_the_notebook_runs(notebook: Path) -> None:
    done = execute(notebook)
    assert done.returncode == 0, done.stderr


def test_the_page_has_every_figure_with_its_command(repository: Path) -> None:
    page = (repository / "docs" / "figures.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+) \| .+ \| `dataflow-model figure (\w+)` \|$", page, flags=re.MULTILINE)
    assert all(name == asked for name, asked in rows)
    assert sorted(find(name).name for name, _ in rows) == sorted(FIGURES)

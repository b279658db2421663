"""A run in a notebook: its table, its result, and cells that run twice."""

from __future__ import annotations

from typing import Any

import pytest

OUTSIDE = """
import os
for name in ("CI", "PYTEST_CURRENT_TEST"):
    os.environ.pop(name, None)
import time
import dataflow_model as dm
"""
SLOW = """
def slowly(number):
    time.sleep(0.2)
    return "all", number

p = dm.Pipeline()
p | "numbers" >> dm.Create(range(7)) | dm.Map(slowly) | "sums" >> dm.Sum.per_key() | "out" >> dm.io.Collect()
result = p.run()
result.wait_until_finish().value
"""


@pytest.mark.slow
def test_a_notebook_shows_a_live_table_and_its_cells_run_twice() -> None:
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    again = "p | 'more' >> dm.Create([1])"
    sources = [OUTSIDE, SLOW, SLOW, "result", "result.report()", "result.collected('out')", again, again]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3", allow_errors=True).execute()

    outputs: list[list[Any]] = [cell.outputs for cell in notebook.cells]
    for table, value in outputs[1:3]:
        assert "LocalRunner: done after " in table.data["text/html"]
        assert "<td>sums</td>" in table.data["text/html"]
        assert value.data["text/plain"] == "'done'"
    for (shown,) in outputs[3:6]:
        assert "<table>" in shown.data["text/html"]
    assert outputs[6][0].output_type == "execute_result"
    assert "in a notebook, create the pipeline in the same cell" in outputs[7][0].evalue

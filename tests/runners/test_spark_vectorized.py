"""Functions on columns on Spark give what functions of one element give in process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dataflow_model as dm
from dataflow_model.testing.comparing import sorted_by_content
from tests.support.hosts import on_hosts, runner_on
from tests.support.inputs import write_history
from tests.support.pipelines import difference, run, seen
from tests.support.upgrade.pipelines import history
from tests.support.vectorized import SINKS, both_forms

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


@on_hosts("batch", slow=("streaming",))
def test_vectorized_and_plain_functions_give_the_same_outputs_on_spark(
    tmp_path: Path, request: pytest.FixtureRequest, host: str
) -> None:
    rows = tmp_path / "rows"
    for name in (1, 2):
        write_history(rows / f"{name}.parquet", history(name))
    options = {"max_rows_per_batch": 150} if host == "streaming" else {}
    columns = run(
        runner_on(host, request, tmp_path / "checkpoint", **options),
        both_forms(rows, vectorized=True),
        until="drained" if host == "streaming" else None,
    )
    elements = run(dm.LocalRunner(), both_forms(rows, vectorized=False))
    for sink in SINKS:
        ours, theirs = seen(columns.collected(sink)), seen(elements.collected(sink))
        assert ours
        if host == "streaming":
            problem = difference(theirs, ours)
        elif sink == "panes":  # a bounded job has one pane for each window
            continue
        else:
            same = [sorted_by_content([value for value, *_ in records]) for records in (theirs, ours)]
            problem = difference(*same)
        assert not problem, f"{sink}: {problem}"

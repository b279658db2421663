"""`prove` with a `LocalRunner` of another kind: in several processes, with a checkpoint, in rounds."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from dataflow_model.testing import LawBroken, prove
from tests.support.laws.proving import DATA, sums

if TYPE_CHECKING:
    from pathlib import Path

    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.plan.logical.runner import PipelineResult


class Counting(dm.LocalRunner):
    """Counts its runs."""

    runs = 0

    def run(self, plan: Plan, *, until: str | None = None) -> PipelineResult:
        type(self).runs += 1
        return super().run(plan, until=until)


@pytest.mark.parametrize(
    "options",
    [{}, {"workers": 2}, {"checkpoint": "run", "max_rows_per_batch": 3}, {"mode": "microbatch", "interval": 5}],
    ids=str,
)
def test_prove_runs_the_given_runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Counting, "runs", 0)
    prove(sums, DATA, Counting(**options), examples=3)
    assert Counting.runs == 1


def test_a_function_that_depends_on_its_process_is_found() -> None:
    here = os.getpid()

    def marked(elements: Any) -> Any:
        return elements | dm.Map(lambda pair: (pair[0], os.getpid() == here)) | dm.GroupByKey()

    with pytest.raises(LawBroken) as caught:
        prove(marked, DATA, dm.LocalRunner(workers=2), examples=3)
    assert caught.value.law == "every runner shows the same"

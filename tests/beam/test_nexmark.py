"""Nexmark's queries, as Beam ships them, on `dataflow_model.beam`: the answers are those computed by hand."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false, reportArgumentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("apache_beam", reason="needs Beam: pip install 'dataflow-model[beam]'")

from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.benchmarks.nexmark.nexmark_launcher import NexmarkLauncher
from apache_beam.testing.benchmarks.nexmark.queries import query10

from benchmarks.nexmark import events, write_events
from dataflow_model.beam import LocalRunner
from tests.support.beam.nexmark import QUERIES, Answer, by_hand, query

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FEW = 1_500
QUICK = {3, 4, 7, 11}
"""One query with state and a timer, with merging windows of its own, with a side input, and with sessions."""
HOSTS: dict[str, Callable[[Path], Any]] = {
    "bounded": lambda _: LocalRunner(),
    "workers": lambda _: LocalRunner(workers=2),
    "stream": lambda folder: LocalRunner(checkpoint=folder / "checkpoint"),
}
WITH_BEAMS = {0: FnApiRunner, 1: FnApiRunner, 2: FnApiRunner, 5: FnApiRunner, 7: FnApiRunner, 8: FnApiRunner}
WITH_BEAMS |= {9: BundleBasedDirectRunner, 11: FnApiRunner}
"""The runners of Beam's that give the right answers; without Go there is no Prism, which answers 3 and 12 too."""

pytestmark = pytest.mark.filterwarnings("ignore")  # Beam's own


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("nexmark") / "events.json"
    write_events(path, FEW)
    return path


@pytest.mark.parametrize(
    "number", [pytest.param(each, marks=() if each in QUICK else pytest.mark.slow) for each in QUERIES]
)
def test_a_query_gives_the_answer_that_is_computed_by_hand(number: int, source: Path, tmp_path: Path) -> None:
    assert query(number, source, tmp_path, LocalRunner()) == by_hand(number, events(FEW))


@pytest.mark.slow
@pytest.mark.parametrize("host", ["workers", "stream"])
@pytest.mark.parametrize("number", QUERIES)
def test_a_query_gives_that_answer_on_every_host_in_process(
    number: int, host: str, source: Path, tmp_path: Path
) -> None:
    answer, expected = query(number, source, tmp_path, HOSTS[host](tmp_path)), by_hand(number, events(FEW))
    assert answer == expected


@pytest.mark.slow
@pytest.mark.parametrize("number", WITH_BEAMS)
def test_a_query_gives_that_answer_on_a_runner_of_beams_own(number: int, source: Path, tmp_path: Path) -> None:
    def in_milliseconds(answer: Answer) -> Answer:  # to which Beam's runners cut times between stages
        return [(result, time // 1_000) for result, time in answer]

    answer = query(number, source, tmp_path, WITH_BEAMS[number]())
    assert in_milliseconds(answer) == in_milliseconds(by_hand(number, events(FEW)))


@pytest.mark.slow
def test_the_third_query_finds_all_pairs_which_beams_own_runners_in_process_lose(tmp_path: Path) -> None:
    source = tmp_path / "events.json"
    write_events(source, 20_000)
    ours = query(3, source, tmp_path, LocalRunner())
    assert ours == by_hand(3, events(20_000))
    assert len(ours) == 185
    (tmp_path / "beams").mkdir()
    assert query(3, source, tmp_path / "beams", FnApiRunner()) == []  # fewer than 30 elements of a key are no pane


@pytest.mark.slow
def test_the_sixth_query_fails_with_the_error_of_beams_combiner(source: Path, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="bad operand type for unary -: 'Timestamp'"):
        query(6, source, tmp_path, LocalRunner())


def test_the_tenth_query_writes_one_index_for_each_window(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(query10, "output_path", "logs")
    monkeypatch.setattr(query10, "open_writable_gcs_file", lambda _, name: opened.append(name))
    assert query(10, source, tmp_path, LocalRunner()) == []
    starts = {event["dateTime"] // 10_000 for event in events(FEW)}
    assert sorted(name for name in opened if "INDEX" in name) == sorted(
        f"logs/INDEX-Timestamp({start * 10 + 9}.999999)" for start in starts
    )
    assert max(Counter(opened).values()) == 1


def test_beams_launcher_runs_queries_unmodified(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[tuple[int, int]] = []

    def note(perf: Any) -> None:
        counted.append((perf.event_count, perf.result_count))

    monkeypatch.setattr(NexmarkLauncher, "log_performance", staticmethod(note))
    options = ["--query", "1", "--query", "5", "--input", str(source), "--runner=dataflow_model.beam.LocalRunner"]
    monkeypatch.setattr(sys, "argv", ["nexmark_launcher", *options])
    NexmarkLauncher().run()
    assert counted == [(FEW, len(by_hand(number, events(FEW)))) for number in (1, 5)]

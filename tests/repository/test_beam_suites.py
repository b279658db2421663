"""The outcomes of Beam's own tests, as the page shows them: each failure on our runners has a reason."""

from __future__ import annotations

import json
import tomllib

from scripts import beam as suites


def test_each_failure_of_a_test_of_beams_has_a_reason_and_each_reason_a_failure() -> None:
    kept = json.loads(suites.OUTCOMES.read_text(encoding="utf-8"))
    known = tomllib.loads(suites.KNOWN.read_text(encoding="utf-8"))
    assert kept
    assert suites.unexplained(kept, known) == []


def test_the_page_shows_the_outcomes() -> None:
    kept = json.loads(suites.OUTCOMES.read_text(encoding="utf-8"))
    known = tomllib.loads(suites.KNOWN.read_text(encoding="utf-8"))
    page = suites.PAGE.read_text(encoding="utf-8")
    assert suites.table(kept, known) in page
    assert page.count("| suite |") == 1


def test_a_failure_without_a_reason_and_a_reason_without_a_failure_are_found() -> None:
    of_ours = {"failures": ["A.test_new"], "skips": {"A.test_of_streams": "a stream"}}
    kept = {"window": {"local": of_ours, "baseline": {"failures": ["A.test_of_beams"], "skips": {}}}}
    known = {"window": {"every": {"A.test_old": "because", "A.test_of_streams": "because"}}}
    assert suites.unexplained(kept, known) == [
        "window on local: A.test_new fails", "window on local: A.test_old passes"
    ]  # fmt: skip


def test_runners_of_beams_need_no_reason_and_one_that_is_absent_says_so() -> None:
    of_host = {"passed": 1, "failed": 1, "skipped": 0, "ran": 1, "failures": ["A.test_of_beams"], "skips": {}}
    kept: suites.Kept = {
        "window": {"local": of_host | {"failed": 0, "failures": []}, "prism": of_host},
        "create": {"prism": None},
    }
    assert suites.unexplained(kept, {}) == []
    assert suites.table(kept, {}).splitlines()[:4] == [
        "| suite | `LocalRunner` | Beam's Prism |",
        "|---|---|---|",
        "| `transforms/window_test.py` | 1 / 0 / 0 (1) | 1 / 1 / 0 (1) |",
        "| `transforms/create_test.py` | not run | absent |",
    ]

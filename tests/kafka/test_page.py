"""The program with which the page on reading Kafka begins, on a broker."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.kafka.topics import new_topic, send
from tests.support.settings import REPOSITORY

pytestmark = [pytest.mark.connectors, pytest.mark.slow, pytest.mark.timeout(300)]

NEW_YEAR = 1_357_002_000_000


def program(servers: str, topic: str) -> str:
    """Return the first program of the section, for a topic of a broker."""
    page = Path(REPOSITORY, "docs/kafka.md").read_text(encoding="utf-8").partition("## Reading\n")[2]
    found = re.search(r"```python no-run\n(.*?)```", page, re.DOTALL)
    assert found is not None
    return found[1].replace("localhost:9092", servers).replace('"departures"', repr(topic))


def test_the_first_program_of_the_page_reads_a_topic(kafka: str, capsys: pytest.CaptureFixture[str]) -> None:
    topic = new_topic(kafka)
    values = [{"carrier": "UA", "delay": 4}, {"carrier": "UA", "delay": 6.5}, {"carrier": "UA", "delay": "late"}]
    send(kafka, topic, [{"value": json.dumps(value), "timestamp": NEW_YEAR} for value in values])
    names: dict[str, Any] = {}
    exec(compile(program(kafka, topic), "docs/kafka.md", "exec"), names)
    result = names["p"].result
    assert [record.value for record in result.collected("means")] == [("UA", 5.25)]
    [bad] = result.collected("bad")
    assert bad.value.reason == f"{topic}/0, offset 2: column 'delay' is double and cannot hold 'late'"
    assert "5.25" in capsys.readouterr().out

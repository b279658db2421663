"""How a stream in process waits: until the next poll, or until a file appears, or it is stopped."""

from __future__ import annotations

import select
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dataflow_model as dm
from dataflow_model.io.listing.folder_notifier import FolderNotifier
from dataflow_model.runners.local.wake_up import WakeUp
from tests.support.runners.local_streams import ROWS, put_rows
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

needs_inotify = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has inotify")


def notifier_of(*folders: Path) -> FolderNotifier:
    notifier = FolderNotifier.open(lambda: map(str, folders))
    assert notifier is not None
    return notifier


def is_readable(notifier: FolderNotifier) -> bool:
    poll = select.poll()
    poll.register(notifier, select.POLLIN)
    return bool(poll.poll(0))


@needs_inotify
def test_a_notifier_is_readable_from_the_appearance_of_a_file_until_it_is_cleared(tmp_path: Path) -> None:
    notifier = notifier_of(tmp_path)
    assert notifier.watch()  # a file may have appeared before
    assert not notifier.watch()
    assert not is_readable(notifier)
    (tmp_path / "new").touch()
    assert is_readable(notifier)
    notifier.clear()
    assert not is_readable(notifier)
    notifier.close()


@needs_inotify
def test_a_directory_that_replaces_another_is_watched(tmp_path: Path) -> None:
    notifier = notifier_of(tmp_path / "in", tmp_path / "missing")
    (tmp_path / "in").mkdir()
    assert notifier.watch()
    (tmp_path / "in").rename(tmp_path / "elsewhere")
    (tmp_path / "in").mkdir()
    notifier.clear()
    assert notifier.watch()
    (tmp_path / "in" / "new").touch()
    assert is_readable(notifier)
    notifier.close()


def test_a_wake_up_ends_a_wait_even_if_it_was_requested_before() -> None:
    wake_up = WakeUp([])
    wake_up.ring()
    wake_up.wait(3_600)
    for _ in range(2_000):  # more than a socket holds
        wake_up.ring()
    wake_up.wait(3_600)
    wake_up.close()
    wake_up.ring()  # a run that has ended is stopped again


@needs_inotify
def test_a_stream_reads_files_that_appear_long_before_its_next_poll(tmp_path: Path) -> None:
    schema = pa.schema({"n": pa.int64()})
    (tmp_path / "in").mkdir()
    pipeline = dm.Pipeline(runner=dm.LocalRunner(checkpoint=str(tmp_path / "checkpoint"), poll_interval="1 hour"))
    _ = (
        pipeline
        | dm.io.ReadParquet(tmp_path / "in", event_time=dm.ARRIVAL, follow=True, schema=schema)
        | dm.io.Collect()
    )
    result = pipeline.run()
    for number in range(5):
        pq.write_table(pa.table({"n": [number]}), tmp_path / "part")
        (tmp_path / "part").rename(tmp_path / "in" / f"{number}.parquet")
        wait_for(result, lambda: len(result.collected("Collect")) > number)  # noqa: B023 - called before the next number
    result.stop()
    assert [record.value.n for record in result.collected("Collect")] == list(range(5))


def test_a_timer_that_becomes_due_ends_the_wait_for_the_next_poll(tmp_path: Path) -> None:
    put_rows(tmp_path / "in", "1", [(1, "a", 1)])
    pipeline = dm.Pipeline(runner=dm.LocalRunner(checkpoint=str(tmp_path / "checkpoint"), poll_interval="1 hour"))
    rows = pipeline | dm.io.ReadParquet(tmp_path / "in", event_time="at", follow=True, schema=ROWS)
    trigger = dm.Repeatedly(dm.AfterProcessingTime("200 ms"))
    windows = rows | dm.WithKeys("key", value="n") | dm.Window.into(dm.FixedWindows(10)).trigger(trigger)
    _ = windows | dm.Sum.per_key() | "panes" >> dm.io.Collect()
    result = pipeline.run()
    wait_for(result, lambda: bool(result.collected("panes")))
    result.stop()
    assert [record.value for record in result.collected("panes")] == [("a", 1)]


def test_a_wait_of_months_does_not_overflow() -> None:
    wake_up = WakeUp([])
    wake_up.ring()
    wake_up.wait(90 * 24 * 3600)
    wake_up.close()

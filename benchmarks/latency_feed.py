"""Records that come at a steady rate, and when each can be read again at the other end.

A process of its own writes small Parquet files; a record's time is that of its file's appearing. At the other end a
thread looks for files that are published, every few milliseconds. So a latency is from file to file: it has reading,
computing, making durable and publishing in it, and not the time that a record waits for its file to be full.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import threading
import time
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.synchronize import Event
    from pathlib import Path

__all__ = ["FILES_PER_SECOND", "KEYS", "Feed", "Watcher", "published_by_spark", "published_by_us", "write_records"]

KEYS: Final = 100
FILES_PER_SECOND: Final = 10
"""How many files the records come in, unless a benchmark is told otherwise."""
_LOOK_SECONDS: Final = 0.004


def write_records(folder: Path, first: int, count: int) -> None:
    """Write a file of records `[first, first + count)` that appears whole; they carry the time at which it does."""
    numbers = list(range(first, first + count))
    hidden = folder / f"_{first:09}"
    sent = time.time_ns() // 1_000
    stamps = pa.array([sent] * count, pa.timestamp("us", "UTC"))
    columns = {"key": [number % KEYS for number in numbers], "n": numbers, "sent": [sent] * count, "at": stamps}
    pq.write_table(pa.table(columns), hidden)
    hidden.rename(folder / f"{first:09}.parquet")


def _feed(folder: Path, first: int, rate: int, count: int, seconds: float, go: Event) -> None:
    go.wait()
    start = time.monotonic()
    for file in range(round(seconds * rate / count)):
        time.sleep(max(0.0, start + file * count / rate - time.monotonic()))
        write_records(folder, first + file * count, count)


class Feed:
    """A process that writes records at a rate, once it is told to; a context manager that ends it.

    Args:
        folder: where to.
        first: the number of the first record.
        rate: how many a second.
        seconds: for how long.
        files_per_second: in how many files at most.
    """

    def __init__(
        self, folder: Path, first: int, rate: int, seconds: float, files_per_second: int = FILES_PER_SECOND
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self._go = context.Event()
        count = max(1, rate // files_per_second)
        arguments = (folder, first, rate, count, seconds, self._go)
        self._process = context.Process(target=_feed, args=arguments, daemon=True)
        self.records = count * round(seconds * rate / count)

    def __enter__(self) -> Self:
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.join()

    def go(self) -> None:
        """Begin."""
        self._go.set()


class Watcher:
    """A thread that notes when published files appear; a context manager.

    Args:
        published: yields the paths that can be read now.
    """

    def __init__(self, published: Callable[[], Iterator[str]]) -> None:
        self._published = published
        self._seen: dict[str, int] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watcher", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_SECONDS):
            now = time.time_ns() // 1_000
            for path in self._published():
                self._seen.setdefault(path, now)

    def outputs(self) -> list[tuple[int, dict[str, Any]]]:
        """Return the records that can be read, each with when it first could be."""
        outputs = []
        for path, seen in list(self._seen.items()):
            with open(path, encoding="utf-8") as file:  # noqa: PTH123 - thousands of them, as text already
                outputs += [(seen, json.loads(line)) for line in file]
        return outputs

    def wait_for(self, records: int, timeout: float) -> list[tuple[int, dict[str, Any]]]:
        """Wait until so many different records can be read; return what there is then, or after the timeout."""
        deadline = time.monotonic() + timeout
        while True:
            outputs = self.outputs()
            if len({record["n"] for _, record in outputs}) >= records or time.monotonic() > deadline:
                return outputs
            time.sleep(0.2)


def published_by_us(folder: Path) -> Callable[[], Iterator[str]]:
    """Return what lists our sink's files: those that are there, under their final names."""

    def listed() -> Iterator[str]:
        if folder.exists():
            yield from (entry.path for entry in os.scandir(folder) if entry.name.startswith("part-"))

    return listed


def published_by_spark(folder: Path) -> Callable[[], Iterator[str]]:
    """Return what lists the files of Spark's sink that its log names: readers of a stream's output see only these."""
    read: dict[str, list[str]] = {}

    def listed() -> Iterator[str]:
        log = folder / "_spark_metadata"
        if log.exists():
            for entry in os.scandir(log):
                if entry.name.split(".")[0].isdigit() and entry.name not in read:
                    lines = (log / entry.name).read_text().splitlines()[1:]
                    read[entry.name] = [json.loads(line)["path"].removeprefix("file://") for line in lines]
        for paths in list(read.values()):
            yield from paths

    return listed

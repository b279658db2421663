"""Commits of sinks that crash at each of their steps in turn."""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
from typing import TYPE_CHECKING, Any

import attrs
import pytest

from dataflow_model.plan.columns.records import Record
from dataflow_model.time import EventTime
from dataflow_model.values import GLOBAL_WINDOW, NO_FIRING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dataflow_model.plan.endpoints.sinks import Sink

__all__ = ["Crash", "Crashing", "every_crash", "written"]

STEPS = ("replace", "unlink", "mkdir", "rmdir")
"""The functions of `os` through which a commit changes a directory."""


class Crash(BaseException):
    """What nothing catches."""


@attrs.define
class Crashing:
    """Crashes before the first change of a directory that follows `after` others, and remembers whether it did."""

    after: int
    happened: bool = False

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        steps = itertools.count()

        def step(change: Any) -> Any:
            def changed(*args: Any, **kwargs: Any) -> Any:
                if next(steps) >= self.after:
                    self.happened = True
                    raise Crash
                return change(*args, **kwargs)

            return changed

        gc.disable()  # it may remove what other tests have left, which must not crash
        try:
            with pytest.MonkeyPatch.context() as patch, contextlib.suppress(Crash):
                for name in STEPS:
                    patch.setattr(os, name, step(getattr(os, name)))
                yield
        finally:
            gc.enable()


def every_crash() -> Iterator[Crashing]:
    """Yield a crash at each step in turn, until what was to crash is over before."""
    for steps in itertools.count():
        crash = Crashing(steps)
        yield crash
        if not crash.happened:
            return


def written(sink: Sink, commit: str, *tasks: Sequence[Any]) -> list[bytes]:
    messages = []
    for number, values in enumerate(tasks):
        writer = sink.open(commit, str(number))
        writer.write(
            [Record(v, EventTime(0), GLOBAL_WINDOW, NO_FIRING, order=(n,)) for n, v in enumerate(values, number)]
        )
        messages.append(writer.close())
    return messages

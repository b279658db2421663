"""An error of a user's pipeline shows the user's lines, and few of this package."""

from __future__ import annotations

import traceback
from typing import Any

import pytest

import dataflow_model as dm


def frames_of(error: BaseException) -> tuple[int, list[str]]:
    """Return how many frames of the package a traceback shows, those of its causes included, and the others' lines."""
    ours, theirs = 0, []
    link: BaseException | None = error
    while link is not None:
        for frame, _ in traceback.walk_tb(link.__traceback__):
            ours += frame.f_globals["__name__"].startswith("dataflow_model")
        theirs += [entry.line or "" for entry in traceback.extract_tb(link.__traceback__) if __file__ == entry.filename]
        link = link.__cause__
    return ours, theirs


class Split(dm.DoFn):
    def process(self, number: int) -> Any:
        yield dm.TaggedOutput("odd", number)


class Counted(dm.PTransform[Any, Any]):
    def expand(self, pcoll: Any, /) -> Any:
        return pcoll | dm.Sum.per_key()


def test_an_undeclared_tag_shows_the_line_that_runs_and_no_frame_of_the_engine() -> None:
    numbers = dm.Pipeline() | dm.Create([1, 2])
    _ = numbers | dm.ParDo(Split()).with_outputs("even")
    with pytest.raises(dm.UserCodeError, match="no output tagged 'odd'") as raised:
        numbers.pipeline.run().wait_until_finish()
    ours, theirs = frames_of(raised.value)
    assert theirs == ["numbers.pipeline.run().wait_until_finish()"]
    assert ours <= 2


def test_an_error_of_a_composite_shows_only_the_users_lines() -> None:
    numbers = dm.Pipeline() | dm.Create([1, 2])
    with pytest.raises(dm.InvalidType) as raised:
        _ = numbers | Counted()
    ours, theirs = frames_of(raised.value)
    assert theirs == ["_ = numbers | Counted()", "return pcoll | dm.Sum.per_key()"]
    assert ours <= 4, "the operator and the method that it calls, for each of the two lines"


def test_an_error_of_the_engine_itself_keeps_its_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise AssertionError("a bug")

    monkeypatch.setattr("dataflow_model.runners.engine.elementwise.fragments.listed", broken)
    numbers = dm.Pipeline() | dm.Create([1, 2])
    _ = numbers | dm.ParDo(Split())
    with pytest.raises(dm.UserCodeError, match="a bug") as raised:
        numbers.pipeline.run().wait_until_finish()
    assert raised.value.__cause__ is not None
    assert raised.value.__cause__.__traceback__ is not None

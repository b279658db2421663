"""Dead letters: which errors make one, the pair that carries them, and the share that is tolerated."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from tests.support.hosts import on_hosts, runner_on

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

TEXTS = [dm.TimestampedValue(text, time) for time, text in enumerate(["1", "?", "2", "3", "4", "?"])]
"""Of the first four seconds one text is no number, and of the next two one."""


def parsed(runner: Any, handled: Any, texts: Sequence[Any] = TEXTS, windows: Any = None) -> tuple[list[Any], list[Any]]:
    with dm.Pipeline(runner=runner) as p:
        read = p | dm.Create(texts)
        result = (read if windows is None else read | dm.WindowInto(windows)) | handled
        _ = result.good | "good" >> dm.io.Collect()
        _ = result.bad | "bad" >> dm.io.Collect()
    good, bad = p.result.collected("good"), p.result.collected("bad")
    return sorted(record.value for record in good), [record.value.element for record in bad]


def test_results_and_dead_letters_can_be_accessed_by_index_and_by_name() -> None:
    pair: Any = dm.Pipeline() | dm.Create(["1"]) | dm.Map(int).with_exception_handling("failed", main_tag="numbers")
    good, bad = pair
    assert (pair.good, pair.bad) == (good, bad) == (pair.numbers, pair.failed)
    with pytest.raises(AttributeError, match=r"there is no output 'nothing'; .*'good', 'bad', 'numbers', 'failed'"):
        _ = pair.nothing


@pytest.mark.parametrize(
    "transform",
    [
        dm.Sum.per_key(),
        dm.Count.globally(),
        dm.GroupBy("key").aggregate_field("value", sum, "total"),
        dm.WithTimestamps(lambda element: element),
        dm.Filter(bool),
    ],
)
def test_each_transform_with_dead_letters_returns_results_and_dead_letters(transform: Any) -> None:
    pair = dm.Pipeline() | dm.Create([("a", 1)]) | transform.with_exception_handling(dead_letter_tag="failed")
    assert (pair.good, pair.bad, pair.failed) == (pair[0], pair[1], pair[1])


def test_a_file_source_with_dead_letters_returns_results_and_dead_letters(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("a\n")
    (tmp_path / "rows.csv").write_text("a\n1\n")
    p = dm.Pipeline()
    for read in (dm.io.ReadText(tmp_path / "lines.txt"), dm.io.ReadCsv(tmp_path / "rows.csv", event_time=None)):
        pair: Any = p | read.with_exception_handling()
        assert (pair.good, pair.bad) == tuple(pair)


@on_hosts("local", "workers", "process", slow=("batch", "streaming"))
def test_only_errors_of_the_given_classes_make_dead_letters(
    host: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    rescued = dm.Map(int).with_exception_handling(exc_class=(KeyError, ValueError))
    assert parsed(runner_on(host, request, tmp_path / "one"), rescued) == ([1, 2, 3, 4], ["?", "?"])
    with pytest.raises(dm.UserCodeError, match=r"invalid literal for int\(\)"):
        parsed(runner_on(host, request, tmp_path / "two"), dm.Map(int).with_exception_handling(exc_class=KeyError))


class Remembers(dm.DoFn):
    seen = dm.ValueStateSpec(default=0)

    def process(self, pair: Any, seen: dm.ValueState[int]) -> Any:
        seen.write(seen.read() + 1)
        yield int(pair[1]), seen.read()


def test_errors_of_other_classes_stop_stateful_and_vectorized_functions() -> None:
    def whole(batch: pa.RecordBatch) -> pa.Array:
        return pc.cast(batch["value"], pa.int64())

    pairs = dm.Pipeline() | dm.Create([("a", "1"), ("a", "?"), ("a", "2")])
    for exc_class, answers in ((ValueError, [(1, 1), (2, 2)]), (KeyError, None)):
        stateful = dm.ParDo(Remembers()).with_exception_handling(exc_class=exc_class)
        columns = dm.Map(whole, vectorized=True).with_output_types(int).with_exception_handling(exc_class=exc_class)
        for pair in (pairs | f"{exc_class}" >> stateful, pairs | dm.Values() | f"{exc_class} columns" >> columns):
            if answers is None:
                with pytest.raises(dm.UserCodeError):
                    pair.good.head()
            else:
                assert pair.good.head() in (answers, [1, 2])
                assert len(pair.bad.head()) == 1


@on_hosts("local", "workers", "process", slow=("batch", "streaming"))
@pytest.mark.parametrize(
    ("threshold", "windows", "fails"),
    [
        (0.34, None, False),
        (0.33, None, True),
        (0, None, True),
        (0.5, dm.FixedWindows(4), False),
        (0.4, dm.FixedWindows(4), True),
    ],
)
def test_a_run_fails_if_the_share_of_dead_letters_in_a_window_exceeds_the_limit(
    host: str, threshold: float, windows: Any, fails: bool, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    handled = dm.Map(int).with_exception_handling(threshold=threshold)
    if not fails:
        assert parsed(runner_on(host, request, tmp_path), handled, windows=windows) == ([1, 2, 3, 4], ["?", "?"])
        return
    counts = "1 of 2" if windows else "2 of 6"
    with pytest.raises(
        dm.UserCodeError, match=rf"{counts} elements of 'Map' in .* are dead letters, more than the thre"
    ):
        parsed(runner_on(host, request, tmp_path), handled, windows=windows)


def test_the_share_of_dead_letters_may_be_counted_in_other_windows_than_those_of_the_input() -> None:
    handled = dm.Map(int).with_exception_handling(threshold=0.4, threshold_windowing=dm.FixedWindows(4))
    with pytest.raises(dm.UserCodeError, match=r"1 of 2 elements of 'Map' in \[1970"):
        parsed(dm.LocalRunner(), handled)


@given(
    times=st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=12),
    threshold=st.sampled_from([0, 0.25, 0.5, 0.75]),
    size=st.sampled_from([None, 2, 5]),
)
def test_the_share_of_dead_letters_in_a_window_does_not_depend_on_the_order_of_arrival(
    times: list[tuple[int, bool]], threshold: float, size: int | None
) -> None:
    shares: dict[int, list[bool]] = {}
    for time, fails in times:
        shares.setdefault(time // size if size else 0, []).append(fails)
    too_many = any(sum(window) > threshold * len(window) for window in shares.values())
    handled = dm.Map(int).with_exception_handling(threshold=threshold)
    windows = dm.FixedWindows(size) if size else dm.GlobalWindows()
    for order in (times, times[::-1]):
        texts = [dm.TimestampedValue("?" if fails else "1", time) for time, fails in order]
        expected = pytest.raises(dm.UserCodeError, match="dead letters") if too_many else contextlib.nullcontext()
        with expected:
            parsed(dm.LocalRunner(), handled, texts, windows)


def test_a_stream_in_the_global_window_needs_windows_for_the_share_of_dead_letters() -> None:
    rows = dm.Pipeline() | dm.io.GenerateSequence(0, rate=1, period=1)
    _ = rows | dm.Map(str).with_exception_handling(threshold=0.1)
    with pytest.raises(dm.PlanError, match=r"'Map/Share"):
        rows.pipeline.run()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"exc_class": ValueError("?")}, "`exc_class` must be a class of exceptions"),
        ({"exc_class": (ValueError, KeyboardInterrupt)}, "`exc_class` must be a class of exceptions"),
        ({"exc_class": ()}, "`exc_class` must be a class of exceptions"),
        ({"threshold": "1%"}, "`threshold` must be a number between 0 and 1, got '1%'"),
        ({"threshold": 1.5}, "`threshold` must be between 0 and 1, got 1.5"),
        ({"threshold": float("nan")}, "`threshold` must be between 0 and 1, got nan"),
        ({"threshold_windowing": "1 hour"}, "`threshold_windowing` must be a window function"),
        ({"main_tag": 5}, "`main_tag` must be text, got 5"),
        ({"main_tag": "dead_letters"}, "the outputs need different tags"),
        ({"dead_letter_tag": "good"}, "the outputs need different tags"),
        ({"partial": True}, "has no argument 'partial'\nHint: leave it out: the outputs of an element that fails"),
        ({"timeout": 5}, "has no argument 'timeout'\nHint: leave it out"),
    ],
)
def test_invalid_options_for_dead_letters_are_rejected(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((dm.InvalidArgument, dm.InvalidType)) as raised:
        dm.Map(int).with_exception_handling(**arguments)
    assert message in str(raised.value)

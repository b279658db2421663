"""The tables of the page on coming from Beam: each row runs here, and on the DirectRunner where Beam is installed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

import dataflow_model as dm
from tests.support.settings import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE: Final = REPOSITORY / "docs" / "coming_from_beam.md"
_ROW: Final = re.compile(r"^\| `(?P<beam>.+?)` \| `(?P<ours>.+?)` \| (?P<differs>.*)\|$")
_TIMES: Final = (0, 700, 5)
"""The event times of each collection's elements, in seconds."""


class Person(NamedTuple):
    name: str
    team: str
    points: int


INPUTS: Final[dict[str, list[Any]]] = {
    "numbers": [3, 1, 2],
    "words": ["to", "be", "not"],
    "pairs": [("a", 1), ("a", 2), ("b", 5)],
    "people": [Person("Ann", "red", 3), Person("Bob", "red", 4), Person("Cy", "blue", 1)],
}


class Row(NamedTuple):
    beam: str
    ours: str


def rows(part: str) -> list[Row]:
    text = PAGE.read_text(encoding="utf-8").split(f"<!-- {part} -->")[1].split(f"<!-- end of {part} -->")[0]
    lines = text.strip().splitlines()[2:]
    actual = [_ROW.match(line) for line in lines]
    assert all(actual), [line for line, match in zip(lines, actual, strict=True) if not match]
    return [Row(m["beam"].replace(r"\|", "|"), m["ours"].replace(r"\|", "|")) for m in actual if m]


SAME: Final = rows("the same answer")
OTHER: Final = rows("another answer")


def on_ours(expression: str) -> list[Any]:
    with dm.Pipeline() as p:
        names: dict[str, Any] = {}
        for name, values in INPUTS.items():
            timed = [dm.TimestampedValue(value, at) for value, at in zip(values, _TIMES, strict=True)]
            names[name] = p | name >> dm.Create(timed)
        _ = eval(expression, {"dm": dm, **names}) | "out" >> dm.io.Collect()  # noqa: S307 - the page's own
    assert p.result is not None
    return [record.value for record in p.result.collected("out")]


@pytest.fixture(scope="module")
def on_beam() -> Callable[[str], list[Any]]:
    """Return what runs an expression on Beam; skip without Beam."""
    beam = pytest.importorskip("apache_beam", reason="needs Beam: pip install 'dataflow-model[beam]'")
    direct = pytest.importorskip("apache_beam.runners.direct.direct_runner")

    def run(expression: str) -> list[Any]:
        received: list[Any] = []
        _RECEIVED[expression] = received
        p = beam.Pipeline(runner=direct.BundleBasedDirectRunner())
        names = {}
        for name, values in INPUTS.items():
            timed = [beam.window.TimestampedValue(value, at) for value, at in zip(values, _TIMES, strict=True)]
            names[name] = p | name >> beam.Create(timed) | f"times of {name}" >> beam.Map(lambda value: value)
        out = eval(expression, {"beam": beam, **names})  # noqa: S307 - the page's own
        _ = out | "receive" >> beam.Map(_Receive(expression))
        p.run().wait_until_finish()
        return received

    return run


_RECEIVED: dict[str, list[Any]] = {}


class _Receive:
    """Keeps what it is called with, in this process: pickling it keeps only where."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, element: Any) -> None:
        _RECEIVED[self.name].append(element)


def comparable(values: list[Any]) -> list[str]:
    """Return elements as text in order; rows by their fields, sets in order."""

    def plain(value: Any) -> Any:
        if hasattr(value, "_asdict"):
            return sorted(value._asdict().items())
        if isinstance(value, set | frozenset):
            return ["set", *sorted(value)]
        return [plain(part) for part in value] if isinstance(value, list | tuple) else value

    return sorted(repr(plain(value)) for value in values)


def test_the_tables_of_the_page_on_coming_from_beam_are_found() -> None:
    assert len(SAME) > 30
    assert len(OTHER) >= 5


@pytest.mark.parametrize("expression", [row.ours for row in (*SAME, *OTHER)])
def test_each_expression_in_the_tables_runs_on_this_package(
    expression: str, capsys: pytest.CaptureFixture[str]
) -> None:
    values = on_ours(expression)
    assert values or "99" in expression  # which nothing is greater than


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Beam's own
@pytest.mark.parametrize("row", SAME, ids=lambda row: row.ours)
def test_each_row_that_promises_it_gives_the_same_result_on_beam(on_beam: Callable[[str], list[Any]], row: Row) -> None:
    assert comparable(on_beam(row.beam)) == comparable(on_ours(row.ours))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Beam's own
@pytest.mark.parametrize("row", OTHER, ids=lambda row: row.ours)
def test_beam_runs_the_rows_whose_answer_differs(on_beam: Callable[[str], list[Any]], row: Row) -> None:
    assert on_beam(row.beam)


# What the page says of Beam around the transforms --------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Beam's own
def test_beam_moves_an_event_time_back_without_a_bound(on_beam: Callable[[str], list[Any]]) -> None:
    assert on_beam("words | beam.Map(lambda word: beam.window.TimestampedValue(word, -5))") == ["to", "be", "not"]
    with pytest.raises(dm.InvalidType, match="declares no bound"):
        on_ours("words | dm.Map(lambda word: dm.TimestampedValue(word, -5))")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Beam's own
def test_beam_has_no_sliding_windows_with_gaps(on_beam: Callable[[str], list[Any]]) -> None:
    with pytest.raises(Exception, match="list index out of range"):
        on_beam("numbers | beam.WindowInto(beam.window.SlidingWindows(2, 3))")
    assert on_ours("numbers | dm.Window.into(dm.SlidingWindows(2, 3))") == [3, 1]  # at 0 and 700; 5 is in no window


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Beam's own
def test_beam_requires_a_mode_for_a_trigger_and_an_option_for_an_unsafe_trigger(
    on_beam: Callable[[str], list[Any]],
) -> None:
    trigger = "beam.window.FixedWindows(10), trigger=beam.transforms.trigger.AfterCount(1)"
    with pytest.raises(ValueError, match="accumulation_mode must be provided"):
        on_beam(f"numbers | beam.WindowInto({trigger})")
    discarding = "accumulation_mode=beam.transforms.trigger.AccumulationMode.DISCARDING"
    with pytest.raises(ValueError, match="Unsafe trigger"):
        on_beam(f"pairs | beam.WindowInto({trigger}, {discarding}) | beam.GroupByKey()")
    windows = dm.Window.into(dm.FixedWindows(10))
    assert windows.trigger(dm.Repeatedly(dm.AfterCount(1))).strategy.accumulation_mode is dm.AccumulationMode.DISCARDING
    with pytest.raises(dm.InvalidArgument, match="may finish"):
        _ = windows.trigger(dm.AfterCount(1)).strategy

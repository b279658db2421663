"""The laws of the model as checks of a run's output; each raises `Broken` with both sides."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.plan.logical.strategy import LateData
from dataflow_model.testing.comparing import difference, identical, same
from dataflow_model.testing.proving.drawing import Broken
from dataflow_model.time import MIN_TIMESTAMP, EventTime
from dataflow_model.values import PaneTiming, encode_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dataflow_model.plan.columns.records import Record
    from dataflow_model.plan.logical.nodes import GroupByKeyAndWindow
    from dataflow_model.testing.proving.micro_batches import MicroBatch
    from dataflow_model.testing.proving.proof_runs import Observed
    from dataflow_model.values import Window

BATCH_IS_STREAM = "law 1, batch ≡ stream"
BUNDLING = "law 2, bundling"
CONSERVATION = "law 5, conservation"
BALANCE = "law 6, balance"
PANES = "law 7, panes"
ON_TIME = "law 9, nothing on time is late downstream"

Cell = tuple[bytes, "Window"]
_LATER = {PaneTiming.ON_TIME, PaneTiming.LATE}


def check_fold(node: GroupByKeyAndWindow, stream: Observed, batch: Observed, *, reopened: bool = False) -> None:
    """Law 1: a grouping's panes, combined according to its accumulation mode, equal the batch result.

    Args:
        node: the grouping.
        stream: the run.
        batch: the run on all data at once.
        reopened: whether windows were reopened after they had expired. If the grouping does so, the values of their
            lives are no results of the whole window, but their accumulators merge to it.
    """
    panes = stream.panes[node.label]
    answer = _answer(batch.panes[node.label])
    problem = f"the panes of {node.label!r} do not fold to the batch result"
    if reopened and _reopens(node):
        pass
    elif node.strategy.retracting:
        values = [(record.value[0], record.window, record.value[1]) for record in panes if not record.is_retraction]
        taken = [(record.value[0], record.window, record.value[1]) for record in panes if record.is_retraction]
        left, missing = difference(values, taken)
        emptied = emptied_cells(node, stream, batch)
        left = [entry for entry in left if (encode_key(entry[0]), entry[1]) not in emptied]
        _compare(problem, left, answer.values(), also=missing)
    elif node.strategy.accumulates:
        last = _answer(panes)
        emptied = emptied_cells(node, stream, batch)
        last = {cell: entry for cell, entry in last.items() if cell not in emptied}
        if node.strategy.merges:  # windows that merged later have emitted panes too
            last = {cell: entry for cell, entry in last.items() if cell in answer}
        _compare(problem, last.values(), answer.values())
    if node.label in stream.traces and _same_sequence(node, stream):
        merged = _merged(node, stream.traces[node.label], answer)
        if merged is not None:
            _compare(
                f"the accumulators of the discarding panes of {node.label!r} do not merge to the batch result",
                merged,
                answer.values(),
            )


def emptied_cells(node: GroupByKeyAndWindow, stream: Observed, batch: Observed) -> set[Cell]:
    """Return the cells whose elements were all retracted, where a forced pane has the value of no elements."""
    answer = _answer(batch.panes[node.label])
    empty_output = node.combine.extract_output(node.combine.create_accumulator())
    last = {_cell(pane): pane.value[1] for pane in stream.panes[node.label] if not pane.is_retraction}
    return {cell for cell, value in last.items() if cell not in answer and same(value, empty_output)}


def check_same_values(stream: Sequence[Record], batch: Sequence[Record], subject: str = "the output") -> None:
    """Law 1: the same values in the same windows, if all data are available."""
    values = [(record.value, record.window) for record in stream]
    expected = [(record.value, record.window) for record in batch]
    _compare(f"{subject} differs from the batch result, although each window emitted only once", values, expected)


def check_net_values(stream: Sequence[Record], batch: Sequence[Record]) -> None:
    """Law 1, retracting: the values minus the retractions are the batch result."""
    values = [(record.value, record.window) for record in stream if not record.is_retraction]
    taken = [(record.value, record.window) for record in stream if record.is_retraction]
    left, missing = difference(values, taken)
    expected = [(record.value, record.window) for record in batch]
    _compare("the values minus the retractions do not equal the batch result", left, expected, also=missing)


def check_same_panes(
    subject: str, left_panes: Sequence[Record], right_panes: Sequence[Record], columns: tuple[str, str]
) -> None:
    """Law 2: identical panes in the same order."""
    left, right = pane_rows(left_panes), pane_rows(right_panes)
    if not identical(left, right):
        raise Broken(f"{subject} differs", law=BUNDLING, columns=columns, sides=(left, right))


def check_lives(node: GroupByKeyAndWindow, stream: Observed) -> None:
    """Law 1 for windows that are reopened: the last value of each life is that of the elements in this life."""
    strategy = node.strategy
    if not _reopens(node) or strategy.merges or not strategy.accumulates or node.label not in stream.traces:
        return
    if not _same_sequence(node, stream):
        return
    values = [pane for pane in stream.panes[node.label] if not pane.is_retraction]
    combine = node.combine
    for life, traces in zip(_lives(values), _lives(stream.traces[node.label]), strict=True):
        accumulators = [trace.value[1].accumulator for trace in traces]
        expected = combine.extract_output(combine.merge_accumulators(accumulators))
        if not same(life[-1].value[1], expected):
            raise Broken(
                f"the last pane of a life of {life[0].window!r} of {node.label!r} is not the result of its elements",
                law=BATCH_IS_STREAM,
                columns=("its panes", "the result of its elements"),
                sides=(pane_rows(life), [expected]),
            )


def _reopens(node: GroupByKeyAndWindow) -> bool:
    return node.strategy.late_data is LateData.DUPLICATE_WINDOW


def _lives(panes: Iterable[Record]) -> list[list[Record]]:
    """Return the panes of each life of each window, that are no retractions: a life begins with index 0."""
    lives: defaultdict[Cell, list[list[Record]]] = defaultdict(list)
    for pane in panes:
        of_window = lives[_cell(pane)]
        if pane.pane.index == 0 or not of_window:
            of_window.append([])
        of_window[-1].append(pane)
    return [life for of_window in lives.values() for life in of_window]


def check_conservation(node: GroupByKeyAndWindow, stream: Observed) -> None:
    """Law 5: every element is in exactly one discarding pane of its window, or dropped, counted and recorded."""
    closed = stream.counters.get(node.label, {}).get("dropped_because_closed", 0)
    if closed and not node.strategy.may_lose_data:
        raise Broken(
            f"{node.label!r} dropped {closed} elements because its trigger had finished, although `may_finish` "
            "promises that the trigger does not finish before the window expires",
            law=CONSERVATION,
            columns=("its elements", "its panes"),
            sides=(pane_rows(stream.inputs.get(node.label, [])), pane_rows(stream.panes[node.label])),
        )
    if node.label not in stream.traces or not _same_sequence(node, stream):
        return
    emitted = [(pane.value[0], value) for pane in stream.traces[node.label] for value in pane.value[1].elements]
    received = [record.value for record in stream.inputs[node.label]]
    lost, twice = difference(received, emitted)
    if twice or len(lost) != stream.dropped(node.label):
        raise Broken(
            f"{node.label!r} counted {stream.dropped(node.label)} elements as dropped, but {len(lost)} are in no pane "
            f"and {len(twice)} are in a pane too often",
            law=CONSERVATION,
            columns=("in no pane", "in a pane too often"),
            sides=(lost, twice),
        )
    recorded = [record.value.element for record in stream.lost[node.label]]
    missing, wrong = difference(lost, recorded)
    if missing or wrong:
        raise Broken(
            f"the output of the elements that {node.label!r} drops lacks {len(missing)} of them, and has {len(wrong)} "
            "that it did not drop",
            law=CONSERVATION,
            columns=("in no pane", "in the output of dropped elements"),
            sides=(lost, recorded),
        )


def check_balance(node: GroupByKeyAndWindow, panes: Sequence[Record]) -> None:
    """Law 6: a retraction retracts the window's current value, and no window has two values at once.

    A window that is reopened has another value then.
    """
    if not node.strategy.retracting:
        return
    live: dict[Cell, Any] = {}
    for pane in panes:
        cell = _cell(pane)
        if pane.is_retraction:
            problem = (
                None
                if cell in live and same(live.pop(cell), pane.value[1])
                else "retracts a value that was not emitted"
            )
        else:
            is_reopened = _reopens(node) and pane.pane.index == 0
            problem = "adds a second value to its window" if cell in live and not is_reopened else None
            live[cell] = pane.value[1]
        if problem:
            rows = pane_rows(panes)
            raise Broken(
                f"{pane.value!r} of {node.label!r} {problem}",
                law=BALANCE,
                columns=("its panes", "the wrong pane"),
                sides=(rows, pane_rows([pane])),
            )


def check_pane_sequence(node: GroupByKeyAndWindow, panes: Sequence[Record]) -> None:
    """Law 7: indices count from 0; at most one pane is on time; none after it is early; none follows the last.

    A window that is reopened has a single pane then, which is late and the last.
    """
    of_window: defaultdict[Cell, list[Record]] = defaultdict(list)
    for pane in panes:
        if not pane.is_retraction:
            of_window[_cell(pane)].append(pane)
    for window_panes in of_window.values():
        first, *further = _lives(window_panes) if _reopens(node) else [window_panes]
        problem = _wrong_sequence(first) or ("a reopened window has other panes" if _wrong_lives(further) else None)
        # A window that merges again into the same bounds starts its sequence again.
        if problem and not node.strategy.merges:
            raise Broken(
                f"{node.label!r}: {problem} in {window_panes[0].window!r} of key {window_panes[0].value[0]!r}",
                law=PANES,
                columns=("its panes", ""),
                sides=(pane_rows(window_panes), ()),
            )


def check_on_time(node: GroupByKeyAndWindow, micro_batches: Sequence[MicroBatch], sink: str) -> None:
    """Law 9: an early or on-time value is not behind the watermark of its collection when it is emitted.

    Args:
        node: the grouping.
        micro_batches: the micro-batches of a run, with one event each.
        sink: the label of the sink that collects the grouping's output.
    """
    watermark = MIN_TIMESTAMP
    for micro_batch in micro_batches:
        panes = micro_batch.records.get(sink, [])
        late = [
            pane
            for pane in panes
            if pane.event_time < watermark and pane.pane.timing is not PaneTiming.LATE and not pane.is_retraction
        ]
        if late:
            raise Broken(
                f"{node.label!r} emits a pane that is not late behind its output watermark {watermark!r}",
                law=ON_TIME,
                columns=("its panes", "those behind it"),
                sides=(pane_rows(panes), pane_rows(late)),
            )
        watermark = max(watermark, EventTime(micro_batch.output_watermark(node.label)))


def _wrong_sequence(panes: Sequence[Record]) -> str | None:
    timings = [pane.pane.timing for pane in panes]
    passed = next((index for index, timing in enumerate(timings) if timing in _LATER), len(timings))
    if [pane.pane.index for pane in panes] != list(range(len(panes))):
        return "the pane indices do not count up from 0"
    if timings.count(PaneTiming.ON_TIME) > 1:
        return "two panes are on time"
    if PaneTiming.EARLY in timings[passed:]:
        return "an early pane follows one that is not early"
    return "a pane follows the last pane" if any(pane.pane.is_last for pane in panes[:-1]) else None


def _wrong_lives(lives: Iterable[Sequence[Record]]) -> bool:
    """Return whether a window that was reopened has another pane than a single one, late and the last."""
    infos = [pane.pane for life in lives for pane in life]
    return any(info.index or info.timing is not PaneTiming.LATE or not info.is_last for info in infos)


def pane_rows(panes: Iterable[Record]) -> list[Any]:
    """Return all properties of panes as tuples that can be compared and printed."""
    return [
        (
            "-" if pane.is_retraction else "+",
            pane.value,
            pane.window,
            (pane.pane.index, pane.pane.timing, pane.pane.is_last),
            pane.event_time,
            pane.processing_time,
        )
        for pane in panes
    ]


def _answer(panes: Sequence[Record]) -> dict[Cell, tuple[Any, Window, Any]]:
    """Return the last value of each key and window."""
    return {_cell(pane): (pane.value[0], pane.window, pane.value[1]) for pane in panes}


def _merged(node: GroupByKeyAndWindow, traces: Sequence[Record], answer: dict[Cell, Any]) -> list[Any] | None:
    """Merge the accumulators of discarding panes, in the windows of the batch answer.

    Returns `None` if a window is in none of these, since `merge` shortens windows: it is unknown which elements moved.
    """
    accumulators: defaultdict[Cell, list[Any]] = defaultdict(list)
    cells: dict[Cell, tuple[Any, Window]] = {}
    for pane in traces:
        encoded, window = _cell(pane)
        if (encoded, window) not in answer and node.strategy.merges:
            homes = [home for key, home in answer if key == encoded and _contains(home, window)]
            if not homes and any(key == encoded and _contains(window, home) for key, home in answer):
                return None
            # It merged later; into a window with the same fields of the user's, unless `merge` changes these.
            window = next((home for home in homes if _within(home, window) == window), homes[0] if homes else window)
        cells[encoded, window] = (pane.value[0], window)
        accumulators[encoded, window].append(pane.value[1].accumulator)
    combine = node.combine
    return [
        (*cells[cell], combine.extract_output(combine.merge_accumulators(parts)))
        for cell, parts in accumulators.items()
    ]


def _contains(outer: Window, inner: Window) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end


def _within(home: Window, window: Window) -> Window:
    """Return a window with the bounds of another."""
    kind: Any = home
    return attrs.evolve(kind, start=window.start, end=window.end) if attrs.has(type(home)) else home


def _same_sequence(node: GroupByKeyAndWindow, stream: Observed) -> bool:
    """Return whether the probe fired as the grouping did; a trigger that reads the value may fire differently."""
    own = [pane for pane in stream.panes[node.label] if not pane.is_retraction]
    return Counter(map(_where, own)) == Counter(map(_where, stream.traces[node.label]))


def _where(pane: Record) -> tuple[Any, ...]:
    return (*_cell(pane), pane.pane.index, pane.pane.timing)


def _cell(pane: Record) -> Cell:
    return encode_key(pane.value[0]), pane.window


def _compare(problem: str, stream: Iterable[Any], batch: Iterable[Any], also: Sequence[Any] = ()) -> None:
    """Raise `Broken` if the sides differ, or if a value was retracted that had not been emitted."""
    left, right = list(stream), list(batch)
    only, missing = difference(left, right)
    if only or missing or also:
        raise Broken(problem, law=BATCH_IS_STREAM, columns=("stream", "batch"), sides=(left, right))

"""The durable state of a grouping that goes on under another trigger, mode or lateness."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dataflow_model.runners.engine.core.cells import PENDING_ON_TIME, REOPENED
from dataflow_model.runners.engine.core.columns import column, column_of, leading
from dataflow_model.runners.engine.core.operations import CLOCK_DOMAIN, INTERVAL_KIND, SET
from dataflow_model.runners.engine.core.program import DELAY, EACH, PERIOD, REPEATEDLY, WATERMARK
from dataflow_model.runners.engine.grouping.stored.joined import Joined
from dataflow_model.runners.engine.grouping.stored.packing import pack
from dataflow_model.runners.engine.grouping.stored.unpacking import unpack
from dataflow_model.runners.engine.state.key_store import head_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from dataflow_model.runners.engine.core.program import TriggerProgram
    from dataflow_model.runners.engine.grouping.core_grouping import CoreGrouping
    from dataflow_model.runners.engine.grouping.stored.packed_form import CellForm

_AT_ONCE: Final = 1 << 14


def renewed(
    make: Callable[[], CoreGrouping],
    entries: Mapping[bytes, bytes],
    before: CellForm | None,
    *,
    watermark: int,
    clock: int,
) -> dict[bytes, bytes]:
    """Return the stored keys of a grouping as the grouping has them now.

    Under another trigger, a new turn of it begins in each open window, as if the first of the elements that are in no
    pane yet arrived now: what it counts begins at 0, delays begin at the watermark and the clock, and the end of the
    window is waited for. A window that the old trigger had finished stays finished. A trigger of the user's begins with
    the next element.

    Args:
        make: returns a grouping without state.
        entries: the stored keys, see `StoredKey`.
        before: the form of their cells if the trigger has changed; otherwise `None`.
        watermark: the watermark of the input.
        clock: the processing clock.
    """
    states: dict[bytes, bytes] = {}
    remaining = iter(entries.items())
    while some := dict(itertools.islice(remaining, _AT_ONCE)):
        core = make()
        core.set_clocks(watermark, clock, [watermark] * len(core.percentiles), core.machine.minus_infinity)
        begin = head_bytes(next(iter(some.values()))[0])
        ends = list(itertools.accumulate(map(len, some.values())))
        unpack(core, Joined.of(list(some), b"".join(some.values()), ends), begin, before=before)
        if before is not None:
            _begin_turns(core, watermark, clock)
        states.update(_packed(core))
    return states


def from_windows(
    make: Callable[[], CoreGrouping],
    windows: Mapping[tuple[bytes, int, int], tuple[Any, Any, int]],
    *,
    watermark: int,
    clock: int,
) -> dict[bytes, bytes]:
    """Return the stored keys of a grouping whose windows were in columns, without triggers; see `renewed`.

    Args:
        make: returns a grouping without state.
        windows: by encoded key and bounds of an open window, the key, the accumulator and the number of elements.
        watermark: the watermark of the input.
        clock: the processing clock.
    """
    core = make()
    core.set_clocks(watermark, clock, [watermark] * len(core.percentiles), core.machine.minus_infinity)
    keys = np.array([core.keys.number(key) for key, _, _ in windows.values()], np.int64)
    bounds = np.array([window for _, *window in windows], np.int64).reshape(-1, 2)
    cells, opened = core.machine.cells, column(len(windows))
    cells.admit_keys(len(core.keys))
    kinds = np.full(len(windows), INTERVAL_KIND)
    cells.open_all(column_of(keys), column_of(bounds[:, 0]), column_of(bounds[:, 1]), column_of(kinds), opened)
    slots = leading(opened, len(windows)).tolist()
    for slot, (_, _, count) in zip(slots, windows.values(), strict=True):
        cells.elements[slot] = cells.pending[slot] = count
        cells.flags[slot] = PENDING_ON_TIME
    accumulators = (accumulator for _, accumulator, _ in windows.values())
    core.restore_values(dict(zip(slots, accumulators, strict=True)), {})
    _begin_turns(core, watermark, clock)
    return _packed(core)


def _packed(core: CoreGrouping) -> dict[bytes, bytes]:
    """Return the stored form of all keys."""
    cells = core.machine.cells
    if not core.machine.emission.retracts:  # what was emitted will not be retracted
        for slot in range(cells.used):
            cells.standing[slot] = -1
    states = pack(core, dict(enumerate(core.keys.encoded)))
    return {encoded: state for encoded, state in states.items() if state is not None}


def _begin_turns(core: CoreGrouping, watermark: int, clock: int) -> None:
    """Begin a turn of the trigger in each open window that it has not finished."""
    program, trees, cells = core.program, core.machine.trees, core.machine.cells
    ends = [place for place, operation in enumerate(program.operation) if operation == WATERMARK]
    delays = {
        place: _deadline(core, place, clock if program.domain[place] == CLOCK_DOMAIN else watermark)
        for place in _asked_first(program, 0)
        if program.operation[place] in (DELAY, PERIOD)
    }
    for slot in range(cells.used):
        if cells.key[slot] < 0 or cells.flags[slot] & REOPENED or trees.is_finished(slot):
            continue
        for place in ends:  # if the window has ended, it fires at the next watermark
            trees.put(slot, SET, place)
        for place, at in delays.items() if cells.pending[slot] > 0 else ():
            trees.put(slot, SET, place)
            cells.deadlines[slot * cells.width + program.deadline[place]] = at


def _deadline(core: CoreGrouping, place: int, begin: int) -> int:
    """Return when a delay or a period ends that begins now."""
    trees, infinity = core.machine.trees, core.machine.infinity
    if core.program.operation[place] == PERIOD:
        return trees.following(place, begin)
    delay = core.program.argument[place]
    if begin == core.machine.minus_infinity:
        return begin
    return infinity if begin > infinity - delay else begin + delay


def _asked_first(program: TriggerProgram, place: int) -> Iterator[int]:
    """Yield the places that see the first element of a window: a place, and those of its children whose turn it is."""
    yield place
    if program.operation[place] < REPEATEDLY:
        return
    first, count = program.first_child[place], program.children[place]
    children = program.child[first : first + (1 if program.operation[place] == EACH else count)]
    for child in children:
        yield from _asked_first(program, child)

"""State and timers of Beam's functions, on the handles that the engine passes to a stateful function.

A piece of state is an entry of one `MapState`, under the name of its spec; nothing is encoded before a commit.
"""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false

from __future__ import annotations

import bisect
import copy
import operator
from typing import TYPE_CHECKING, Any, Final

import attrs
from apache_beam.transforms import userstate
from apache_beam.utils.timestamp import Timestamp

from dataflow_model.runners.beam.functions.times import our_instant
from dataflow_model.time import EventTime, ProcessingTime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dataflow_model.plan.functions.state_handles import MapState, Timer

_PARTED: Final = "\0"
"""Separates the name of a timer from its tag."""


@attrs.define
class Handles:
    """The engine's handles for the current key and window.

    Attributes:
        state: the pieces of state by name.
        event_timer, clock_timer: the timers in each domain, by name and tag.
        expiry: when the state of the window is cleared; a timer in event time fires then at the latest.
    """

    state: MapState[str, Any]
    event_timer: Timer
    clock_timer: Timer
    expiry: int


class States(userstate.UserStateContext):  # type: ignore[misc] # Beam ships no types that mypy takes
    """Answers a function that asks for state and timers.

    Attributes:
        handles: those of the current call.
    """

    def __init__(self) -> None:
        self.handles: Handles | None = None
        self._combiners: dict[str, Any] = {}

    def get_state(self, state_spec: Any, key: Any, window: Any) -> Any:
        """Return a piece of state of the current key and window."""
        del key, window  # those of the call
        assert self.handles is not None  # noqa: S101 - set before each call
        piece = _PIECES[type(state_spec)](self.handles.state, state_spec.name)
        if isinstance(piece, _Combining):
            piece.combiner = self._combiner(state_spec)
        return piece

    def get_timer(self, timer_spec: Any, key: Any, window: Any, timestamp: Any, pane: Any) -> Any:
        """Return a timer of the current key and window."""
        del key, window, timestamp, pane
        assert self.handles is not None  # noqa: S101 - set before each call
        return _BeamTimer(self.handles, timer_spec)

    def commit(self) -> None:
        """Do nothing, since the engine commits."""

    def reset(self) -> None:
        """Do nothing, since nothing is kept from one bundle to the next."""

    def tear_down(self) -> None:
        """Tear down the combiners."""
        for combiner in self._combiners.values():
            combiner.teardown()
        self._combiners.clear()

    def _combiner(self, spec: Any) -> Any:
        if spec.name not in self._combiners:
            combiner = copy.deepcopy(spec.combine_fn)
            combiner.setup()
            self._combiners[spec.name] = combiner
        return self._combiners[spec.name]


def name_and_tag(tag: str) -> tuple[str, str]:
    """Return the name of a timer of Beam's, and its tag, from a tag of the engine's."""
    name, _, own_tag = tag.partition(_PARTED)
    return name, own_tag


class _BeamTimer(userstate.BaseTimer):  # type: ignore[misc]
    def __init__(self, handles: Handles, spec: Any) -> None:
        self._handles, self._name = handles, spec.name
        self._in_event_time = spec.time_domain == userstate.TimeDomain.WATERMARK

    def set(self, timestamp: Any, dynamic_timer_tag: str = "") -> None:
        micros = Timestamp.of(timestamp).micros
        tag = self._name + _PARTED + dynamic_timer_tag
        if not self._in_event_time:
            self._handles.clock_timer.set(ProcessingTime(max(micros, 0)), tag=tag)
        else:  # the state is cleared at the expiry: what would be later would find none
            self._handles.event_timer.set(EventTime(min(our_instant(micros), self._handles.expiry)), tag=tag)

    def clear(self, dynamic_timer_tag: str = "") -> None:
        timer = self._handles.event_timer if self._in_event_time else self._handles.clock_timer
        timer.clear(self._name + _PARTED + dynamic_timer_tag)


class _Piece:
    """A piece of state; nothing is stored if it is empty. What is stored may be changed in place."""

    def __init__(self, state: MapState[str, Any], name: str) -> None:
        self._state, self._name = state, name

    def clear(self) -> None:
        self._state.remove(self._name)

    def prefetch(self) -> None:
        """Do nothing, since the state is there."""

    def finalize(self) -> None:
        """Do nothing, likewise."""

    def commit(self) -> None:
        """Do nothing, since the engine commits."""

    def _held(self, make: Callable[[], Any]) -> Any:
        """Return what is stored, after storing something empty if nothing is."""
        held = self._state.get(self._name)
        if held is None:
            held = make()
            self._state.put(self._name, held)
        return held


class _Bag(_Piece, userstate.BagRuntimeState):  # type: ignore[misc]
    def read(self) -> Iterable[Any]:
        return list(self._state.get(self._name, ()))

    def add(self, value: Any) -> None:
        self._held(list).append(value)


class _Value(_Piece, userstate.ReadModifyWriteRuntimeState):  # type: ignore[misc]
    def read(self) -> Any:
        return self._state.get(self._name, (None,))[0]

    def write(self, value: Any) -> None:
        self._state.put(self._name, (value,))


class _Set(_Piece, userstate.SetRuntimeState):  # type: ignore[misc]
    def read(self) -> set[Any]:
        return set(self._state.get(self._name, ()))

    def add(self, value: Any) -> None:
        self._held(dict).setdefault(value)  # a dict keeps the order in every process


class _Combining(_Piece, userstate.CombiningValueRuntimeState):  # type: ignore[misc]
    combiner: Any = None

    def read(self) -> Any:
        return self.combiner.extract_output(self._accumulator())

    def add(self, value: Any) -> None:
        self._state.put(self._name, (self.combiner.add_input(self._accumulator(), value),))

    def _accumulator(self) -> Any:
        held = self._state.get(self._name)
        return self.combiner.create_accumulator() if held is None else held[0]


_time_of = operator.itemgetter(0)


class _OrderedList(_Piece, userstate.OrderedListRuntimeState):  # type: ignore[misc]
    """Pairs of a timestamp and a value, in order of time."""

    def read(self) -> Iterable[tuple[Any, Any]]:
        return list(self._state.get(self._name, ()))

    def add(self, value: tuple[Any, Any]) -> None:
        bisect.insort(self._held(list), value, key=_time_of)

    def read_range(self, min_time_stamp: Any, limit_time_stamp: Any) -> Iterable[tuple[Any, Any]]:
        held: list[tuple[Any, Any]] = self._state.get(self._name, [])
        return held[slice(*self._between(held, min_time_stamp, limit_time_stamp))]

    def clear_range(self, min_time_stamp: Any, limit_time_stamp: Any) -> None:
        held: list[tuple[Any, Any]] = self._state.get(self._name, [])
        del held[slice(*self._between(held, min_time_stamp, limit_time_stamp))]
        if not held:
            self.clear()

    @staticmethod
    def _between(held: list[tuple[Any, Any]], first: Any, limit: Any) -> tuple[int, int]:
        """Return the indices of what is in `[first, limit)`."""
        return bisect.bisect_left(held, first, key=_time_of), bisect.bisect_left(held, limit, key=_time_of)


_PIECES: Final[Mapping[Any, type[_Piece]]] = {
    userstate.BagStateSpec: _Bag,
    userstate.ReadModifyWriteStateSpec: _Value,
    userstate.CombiningValueStateSpec: _Combining,
    userstate.SetStateSpec: _Set,
    userstate.OrderedListStateSpec: _OrderedList,
}

"""Stages whose first function is splittable and may never end, as functions of the engine that resume their work.

What a function has deferred is state: the residual element, encoded, with its restriction and the state of its
watermark estimator. A timer in processing time resumes it, and holds the watermark at that of the estimator.
"""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING, Any, Final

from dataflow_model.overriding import override
from dataflow_model.plan.functions.resuming import ResumingFn
from dataflow_model.plan.functions.state import MapStateSpec, TimerSpec, ValueStateSpec, on_timer
from dataflow_model.runners.beam.functions.hooks import budget
from dataflow_model.runners.beam.functions.registered import Registered
from dataflow_model.runners.beam.functions.stages import SIDE, Hosted, OfStage, fixed, in_stage, tagged
from dataflow_model.runners.beam.functions.times import our_instant
from dataflow_model.time import MAX_TIMESTAMP, Duration, EventTime
from dataflow_model.triggers import TimeDomain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dataflow_model.plan.functions.state_handles import MapState, Timer, ValueState
    from dataflow_model.runners.beam.functions.harness import StageSpec
    from dataflow_model.runners.beam.functions.stages import StageRun
    from dataflow_model.values import PaneInfo, Window

_SOON: Final = 1
"""The delay after which work goes on that has not asked for one, in microseconds."""
_IDLE: Final = 10_000
"""The least delay of work that has put out nothing, in microseconds: it should not keep a core busy."""
_LONGEST: Final = 24 * 3_600 * 1_000_000
"""The longest delay; who asks for a longer one is resumed in between."""
_LATEST: Final = int(MAX_TIMESTAMP) - 1
_DIGEST_BYTES: Final = 8


class KeyOfElement:
    """Pairs an element with a restriction with a key, which spreads them over shards; several may have the same.

    Args:
        coder: Beam's coder of the elements.
        run: the id of the run.
    """

    def __init__(self, coder: Any, run: str) -> None:
        self._registered = Registered(run)
        self._coder = coder

    def __call__(self, value: Any) -> tuple[bytes, Any]:
        """Return the pair."""
        return hashlib.blake2b(self._coder.encode(value), digest_size=_DIGEST_BYTES).digest(), value


class SplittableStageFn(OfStage, ResumingFn):
    """A stage whose first function processes elements with restrictions, of which it may defer a part."""

    left = MapStateSpec[str, tuple[bytes, bool]]()
    """The residuals by number, each with whether its restriction has been truncated."""
    numbered = ValueStateSpec[int](default=0)
    again = TimerSpec(TimeDomain.PROCESSING_TIME)

    def __init__(self, spec: StageSpec, run: StageRun) -> None:
        super().__init__(spec, run)
        self.is_drained = False
        self.began = 0.0

    @override
    def drain(self) -> None:
        self.is_drained = True

    @override
    def start_bundle(self) -> None:
        self.began = time.monotonic()
        with in_stage(self.spec.label):
            if self.hosted is None:
                self.hosted = Hosted(self.spec, self.of_run, self.uncommitted)
            self.hosted.operations.begin()

    def process(  # type: ignore[override] # the parameters are filled by name
        self,
        pair: tuple[bytes, Any],
        timestamp: EventTime,
        window: Window,
        pane: PaneInfo,
        left: MapState[str, tuple[bytes, bool]],
        numbered: ValueState[int],
        again: Timer,
        **sides: Any,
    ) -> Iterable[Any]:
        """Process an element with its restriction."""
        number = numbered.read()
        numbered.write(number + 1)
        element = self.opened().element(pair[1], int(timestamp), (window,), pane)
        outputs = self._work(element, str(number), timestamp, left, again, sides, is_truncated=False)
        if not left:
            numbered.clear()
        return outputs

    @on_timer(again)
    def resume(
        self,
        timestamp: EventTime,
        timer_tag: str,
        left: MapState[str, tuple[bytes, bool]],
        numbered: ValueState[int],
        again: Timer,
        **sides: Any,
    ) -> Iterable[Any]:
        """Go on with what is left of an element."""
        encoded, is_truncated = left.get(timer_tag)
        left.remove(timer_tag)
        element = self.opened().operations.input_coder.decode(encoded)
        outputs = self._work(element, timer_tag, timestamp, left, again, sides, is_truncated=is_truncated)
        if not left:
            numbered.clear()
        return outputs

    def finish_bundle(self) -> Iterable[Any]:
        """End a bundle, and return what the functions put out at its end."""
        hosted = self.opened()
        with in_stage(self.spec.label):
            hosted.operations.finish()
        return tagged(hosted.outputs)

    def _work(
        self,
        element: Any,
        number: str,
        since: EventTime,
        left: MapState[str, tuple[bytes, bool]],
        again: Timer,
        sides: dict[str, Any],
        *,
        is_truncated: bool,
    ) -> Iterable[Any]:
        """Process an element up to where the function defers the rest, and keep the rest.

        Args:
            element: Beam's element, with its restriction.
            number: its number among those of the key.
            since: where the watermark has been held for it.
            left: takes the rest.
            again: resumes it.
            sides: the side inputs by the names of the arguments.
            is_truncated: whether its restriction has been truncated.
        """
        hosted = self.opened()
        operations = hosted.operations
        if self.is_drained and not is_truncated:
            with in_stage(self.spec.label):
                element, is_truncated = operations.truncated(element), True
            if element is None:
                return ()
        operations.sides.look_ups.update(
            (side, fixed(sides[f"{SIDE}{position}"])) for position, side in enumerate(self.spec.sides)
        )
        with in_stage(self.spec.label), budget():
            operations.receive(element)
        outputs = tagged(hosted.outputs)
        for residual in operations.take_deferred():
            left.put(number, (operations.input_coder.encode(residual.residual_value), is_truncated))
            held = int(since)
            if residual.current_watermark is not None:
                held = max(held, our_instant(residual.current_watermark.micros))
            delay = self._delay(residual.deferred_timestamp, has_outputs=bool(outputs))
            again.set_after(Duration(micros=delay), tag=number, output_timestamp=EventTime(min(held, _LATEST)))
        return outputs

    def _delay(self, asked: Any, *, has_outputs: bool) -> int:
        """Return after how many microseconds on the clock of the instant the work goes on."""
        delay = 0 if asked is None else asked.micros
        if delay > 0:
            delay += int((time.monotonic() - self.began) * 1_000_000)  # it is meant from now on
        return min(max(delay, _SOON if has_outputs else _IDLE), _LONGEST)

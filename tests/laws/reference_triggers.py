"""A second opinion on trigger trees: the state of one window's tree, without any code of the engine.

`tell` gives an event to a node whose turn it is; `due` is the deadline that made it ready, `None` if it is not;
`fire` is called when a pane goes out because of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

import dataflow_model as dm
from dataflow_model.triggers import OrFinally

if TYPE_CHECKING:
    from collections.abc import Iterable

AT_ONCE = 0  # a condition that no deadline met


@attrs.frozen
class Now:
    """One event as the trigger of one window sees it."""

    kind: str  # "element", "watermark" or "clock"
    watermark: int
    clock: int
    end: int
    passes: bool = False  # the watermark, with this very event, the end of the window


class Node:
    """One node of a trigger tree in one window."""

    def __init__(self, spec: Any) -> None:
        self.spec = spec
        self.finished = False
        self.kids = [node(part) for part in parts(spec)]

    def tell(self, now: Now) -> None:
        for kid in self.kids:
            if not kid.finished:
                kid.tell(now)

    def due(self) -> int | None:
        raise NotImplementedError

    def fire(self) -> None:
        self.finished = True

    def merge(self, sources: list[Any], now: Now) -> None:
        """Take the state that the sources give a merged window."""
        for place, kid in enumerate(self.kids):
            kid.merge(contributed(sources, place), now)
        self.finished = self.finish([kid.finished for kid in self.kids])

    def finish(self, kids: list[bool]) -> bool:
        raise NotImplementedError

    def some_due(self) -> list[int]:
        return [due for kid in self.kids if not kid.finished and (due := kid.due()) is not None]


def contributed(sources: list[Node], place: int) -> list[Node]:
    """A finished source contributes only its finished children."""
    return [source.kids[place] for source in sources if not source.finished or source.kids[place].finished]


class CountNode(Node):
    count = 0

    def tell(self, now: Now) -> None:
        self.count += now.kind == "element"

    def due(self) -> int | None:
        return AT_ONCE if self.count >= self.spec.n else None

    def merge(self, sources: list[Any], now: Now) -> None:
        self.finished = bool(sources) and all(source.finished for source in sources)
        self.count = sum(source.count for source in sources if not source.finished)


class DelayNode(Node):
    deadline: int | None = None
    clock = 0

    def tell(self, now: Now) -> None:
        self.clock = now.clock
        if now.kind == "element" and self.deadline is None:
            self.deadline = now.clock + int(self.spec.delay)

    def due(self) -> int | None:
        # Timers at the clock's own value run when the clock leaves it.
        return self.deadline if self.deadline is not None and self.deadline < self.clock else None

    def merge(self, sources: list[Any], now: Now) -> None:
        self.finished = bool(sources) and all(source.finished for source in sources)
        armed = [source.deadline for source in sources if not source.finished and source.deadline is not None]
        self.deadline = min(armed, default=None)
        self.clock = now.clock


class WatermarkNode(Node):
    passed = False

    def tell(self, now: Now) -> None:
        self.passed |= now.passes or (now.kind == "element" and now.watermark >= now.end)

    def due(self) -> int | None:
        return AT_ONCE if self.passed else None

    def merge(self, sources: list[Any], now: Now) -> None:
        if now.watermark >= now.end:  # else it rewinds to unfired
            self.finished = bool(sources) and all(source.finished for source in sources)
            self.passed = any(source.passed for source in sources if not source.finished)


class RepeatNode(Node):
    def due(self) -> int | None:
        return self.kids[0].due()

    def fire(self) -> None:
        self.kids[0].fire()
        if self.kids[0].finished:
            self.kids = [node(self.spec.child)]

    def merge(self, sources: list[Any], now: Now) -> None:
        self.kids[0].merge(contributed(sources, 0), now)
        if self.kids[0].finished:
            self.kids = [node(self.spec.child)]


class EachNode(Node):
    def current(self) -> Node:
        return next(kid for kid in self.kids if not kid.finished)

    def tell(self, now: Now) -> None:
        self.current().tell(now)

    def due(self) -> int | None:
        return self.current().due()

    def fire(self) -> None:
        self.current().fire()
        self.finished = self.kids[-1].finished

    def merge(self, sources: list[Any], now: Now) -> None:
        for place, kid in enumerate(self.kids):
            kid.merge(contributed(sources, place), now)
            if not kid.finished:
                return  # the children after it have yet to begin
        self.finished = True


class AnyNode(Node):
    def due(self) -> int | None:
        return min(self.some_due(), default=None)

    def fire(self) -> None:
        for kid in self.kids:
            if not kid.finished and kid.due() is not None:
                kid.fire()
                self.finished |= kid.finished

    def finish(self, kids: list[bool]) -> bool:
        return any(kids)


class AllNode(Node):
    def __init__(self, spec: Any) -> None:
        super().__init__(spec)
        self.met: dict[int, int] = {}

    def tell(self, now: Now) -> None:
        super().tell(now)
        for place, kid in enumerate(self.kids):
            due = None if kid.finished else kid.due()
            if due is not None:  # the child has fired; the pane waits for the others
                self.met.setdefault(place, due)
                kid.fire()

    def due(self) -> int | None:
        complete = all(kid.finished or place in self.met for place, kid in enumerate(self.kids))
        return max(self.met.values()) if complete and self.met else None

    def fire(self) -> None:
        self.met = {}
        self.finished = all(kid.finished for kid in self.kids)

    def merge(self, sources: list[Any], now: Now) -> None:
        super().merge(sources, now)
        for source in sources:
            if not source.finished:
                self.met |= dict.fromkeys(source.met, AT_ONCE)

    def finish(self, kids: list[bool]) -> bool:
        return all(kids)


class FinallyNode(Node):
    def due(self) -> int | None:
        return min(self.some_due(), default=None)

    def fire(self) -> None:
        first, until = self.kids
        won = until.due() is not None
        for kid in (first, until):
            if kid.due() is not None:
                kid.fire()
        self.finished = won or first.finished

    def finish(self, kids: list[bool]) -> bool:
        return any(kids)


KINDS: dict[type, type[Node]] = {
    dm.AfterCount: CountNode,
    dm.AfterProcessingTime: DelayNode,
    dm.AfterWatermark: WatermarkNode,
    dm.Repeatedly: RepeatNode,
    dm.AfterEach: EachNode,
    dm.AfterAny: AnyNode,
    dm.AfterAll: AllNode,
    OrFinally: FinallyNode,
}


def node(spec: Any) -> Node:
    """Begin a turn of a trigger."""
    if isinstance(spec, dm.DefaultTrigger):
        spec = dm.Repeatedly(dm.AfterWatermark())
    if isinstance(spec, dm.AfterWatermark) and (spec.early or spec.late):
        passing: Any = dm.AfterWatermark()
        if spec.early:
            passing = dm.Repeatedly(spec.early).or_finally(passing)
        spec = dm.AfterEach(passing, dm.Repeatedly(spec.late)) if spec.late else passing
    return KINDS[type(spec)](spec)


def parts(spec: Any) -> Iterable[Any]:
    match spec:
        case dm.Repeatedly():
            return [spec.child]
        case OrFinally():
            return [spec.first, spec.until]
        case dm.AfterEach() | dm.AfterAny() | dm.AfterAll():
            return spec.parts
        case _:
            return []

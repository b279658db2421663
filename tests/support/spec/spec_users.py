"""When, as users say it: the callbacks of a trigger class of theirs, over plain dictionaries."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import dataflow_model as dm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.spec.spec_triggers import Event, Node

DEFAULT: Final = dm.FiringMode.DEFAULT
EVENT_TIME: Final = dm.TimeDomain.EVENT_TIME


def is_users(spec: Any) -> bool:
    return not type(spec).__module__.startswith("dataflow_model.") and not isinstance(spec, dm.DataTrigger)


def context(node: Node, event: Event, modes: list[Any], sources: Sequence[Node] = ()) -> Any:
    """Return what a callback sees and does; `modes` takes the modes with which it fires."""
    merged = {source.window: source for source in sources}
    return SimpleNamespace(
        window=node.window,
        element=event.element,
        event_time=dm.EventTime(event.event_time),
        sources=list(merged),
        now=lambda domain, percentile=100: (
            dm.EventTime(event.watermark.at(percentile)) if domain is EVENT_TIME else dm.ProcessingTime(event.clock)
        ),
        peek_value=event.peek,
        trigger_history=lambda: event.history,
        lookup_state=node.stored.get,
        store_state=node.stored.__setitem__,
        lookup_source_state=lambda window, tag, default=None: merged[window].stored.get(tag, default),
        is_source_finished=lambda window: merged[window].finished,
        set_timer=lambda tag, time, domain, percentile=100: node.timers.update(
            {tag: (int(time), percentile, domain is EVENT_TIME)}
        ),
        get_timer=lambda tag: node.timers[tag][0] if tag in node.timers else None,
        delete_timer=lambda tag: node.timers.pop(tag, None),
        trigger=lambda mode=DEFAULT: modes.append(mode),
        clear=lambda: event.clears.append(node),
        done=lambda: setattr(node, "finished", True),
        reopen=lambda: setattr(node, "finished", False),
    )


def see_users(node: Node, event: Event, at_once: int) -> tuple[int, Any] | None:
    """Call back for an event, then for the timers that it makes due; return the first deadline that fired, as `see`."""
    modes: list[Any] = []
    callbacks = {"element": "on_element", "retraction": "on_retraction", "signal": "on_signal"}
    if event.kind in callbacks:
        name = [event.name] if event.kind == "signal" else []
        getattr(node.spec, callbacks[event.kind])(context(node, event, modes), *name)
    deadline = at_once if modes else None
    while not node.finished and (
        due := sorted((time, tag) for tag, (time, *of) in node.timers.items() if event.reaches(time, *of))
    ):
        time, tag = due[0]
        del node.timers[tag]
        node.spec.on_timer(context(node, event, modes), tag)
        deadline = time if modes and deadline is None else deadline
    return None if deadline is None else (deadline, last_mode(modes))


def last_mode(modes: Sequence[Any]) -> Any:
    """Return the last mode that is not the default."""
    return next((firing_mode for firing_mode in reversed(modes) if firing_mode is not DEFAULT), DEFAULT)

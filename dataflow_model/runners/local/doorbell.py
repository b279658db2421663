"""How the thread of a stream waits for something to do."""

from __future__ import annotations

import contextlib
import select
import socket
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflow_model.plan.sources import Alarm

__all__ = ["Doorbell"]

_LONGEST: Final = 2**31 - 1
"""The most milliseconds that `poll` takes, 24 days; a longer wait ends early, and the stream then waits again."""


class Doorbell:
    """Waits until a time has passed, another thread rings, or a source may have something new.

    Args:
        alarms: the alarms of the sources; `close` closes them.

    Example:
        >>> doorbell = Doorbell([])
        >>> doorbell.ring()
        >>> doorbell.wait(60)  # returns at once
        >>> doorbell.close()
    """

    def __init__(self, alarms: Sequence[Alarm]) -> None:
        self._alarms = alarms
        self._bell, self._button = socket.socketpair()
        self._bell.setblocking(False)
        self._button.setblocking(False)

    def ring(self) -> None:
        """End the wait of another thread; if there is none, its next wait ends at once."""
        with contextlib.suppress(OSError):  # it is ringing already, or closed
            self._button.send(b"!")

    def wait(self, seconds: float) -> None:
        """Wait for so long at most."""
        if any(alarm.arm() for alarm in self._alarms):
            return
        poll = select.poll()
        poll.register(self._bell, select.POLLIN)
        for alarm in self._alarms:
            poll.register(alarm, select.POLLIN)
        poll.poll(min(seconds * 1_000, _LONGEST))
        with contextlib.suppress(BlockingIOError):
            self._bell.recv(1 << 10)
        for alarm in self._alarms:
            alarm.clear()

    def close(self) -> None:
        """Close the alarms."""
        self._bell.close()
        self._button.close()
        for alarm in self._alarms:
            alarm.close()

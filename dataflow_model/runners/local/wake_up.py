"""How the thread of a stream waits for something to do."""

from __future__ import annotations

import contextlib
import select
import socket
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflow_model.plan.endpoints.origins import ChangeNotifier

_LONGEST: Final = 2**31 - 1
"""The most milliseconds that `poll` takes, 24 days; a longer wait ends early, and the stream then waits again."""


class WakeUp:
    """Waits until a time has passed, another thread rings, or a source may have something new.

    Args:
        notifiers: the notifiers of the sources; `close` closes them.

    Example:
        >>> wake_up = WakeUp([])
        >>> wake_up.ring()
        >>> wake_up.wait(60)  # returns at once
        False
        >>> wake_up.close()
    """

    def __init__(self, notifiers: Sequence[ChangeNotifier]) -> None:
        self._notifiers = notifiers
        self._bell, self._button = socket.socketpair()
        self._bell.setblocking(False)
        self._button.setblocking(False)

    def ring(self) -> None:
        """End the wait of another thread; if there is none, its next wait ends at once."""
        with contextlib.suppress(OSError):  # it is ringing already, or closed
            self._button.send(b"!")

    def wait(self, seconds: float) -> bool:
        """Wait for so long at most; return whether a source may have something new."""
        if any(notifier.watch() for notifier in self._notifiers):
            return True
        poll = select.poll()
        poll.register(self._bell, select.POLLIN)
        for notifier in self._notifiers:
            poll.register(notifier, select.POLLIN)
        ready = {descriptor for descriptor, _ in poll.poll(min(seconds * 1_000, _LONGEST))}
        with contextlib.suppress(BlockingIOError):
            self._bell.recv(1 << 10)
        for notifier in self._notifiers:
            notifier.clear()
        return bool(ready - {self._bell.fileno()})

    def close(self) -> None:
        """Close the notifiers."""
        self._bell.close()
        self._button.close()
        for notifier in self._notifiers:
            notifier.close()

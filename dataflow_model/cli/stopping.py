"""SIGTERM and Ctrl-C: the first stops a run between two micro-batches, a second one ends the process at once."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_OFFSET: Final = 128
_FIRST: Final = b"dataflow-model: stopping after the current micro-batch; a second signal ends the process at once\n"
_SECOND: Final = b"dataflow-model: ended at once; with its checkpoint, a stream resumes where it last committed\n"


class StoppedBySignal(KeyboardInterrupt):
    """A signal asks the command to stop; raised in the main thread.

    Args:
        number: the number of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    @property
    def status(self) -> int:
        """The exit status that shells and supervisors know: 143 for SIGTERM, 130 for Ctrl-C.

        Example:
            >>> StoppedBySignal(signal.SIGTERM).status
            143
        """
        return _OFFSET + self.number

    @property
    def name(self) -> str:
        """The name of the signal, such as `SIGTERM`."""
        return signal.Signals(self.number).name


@contextlib.contextmanager
def signals_stop() -> Iterator[None]:
    """Raise `StoppedBySignal` for the first signal in the `with` block, and end the process for the second.

    The second one does not restore the default action, which the first process of a container does not have. Outside
    of the main thread, which alone may handle signals, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _first) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _first(number: int, _: Any) -> None:
    for each in _SIGNALS:
        signal.signal(each, _second)
    _say(_FIRST)
    raise StoppedBySignal(number)


def _second(number: int, _: Any) -> None:
    _say(_SECOND)
    os._exit(_OFFSET + number)


def _say(text: bytes) -> None:
    """Write to standard error without Python's buffers, which the interrupted code may be using."""
    with contextlib.suppress(OSError):
        os.write(2, text)

"""Exceptions of workers on their way to the parent, with their causes and the original traceback."""

from __future__ import annotations

import contextlib
import traceback

from dataflow_model.errors import chain_of
from dataflow_model.values.pickles import dump, load


class WorkerTraceback(Exception):
    """The traceback of an exception in the worker that raised it, as the cause of the exception in the parent."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def pack_error(error: BaseException) -> bytes:
    """Return an exception with its causes in a form in which it can be sent to the parent.

    Example:
        >>> unpacked = unpack_error(pack_error(KeyError("delay")))
        >>> unpacked, str(unpacked.__cause__).strip()
        (KeyError('delay'), "KeyError: 'delay'")
    """
    return dump((list(map(_pickled, chain_of(error))), "".join(traceback.format_exception(error))))


def unpack_error(packed: bytes) -> BaseException:
    """Return an exception from a worker; its last cause is a `WorkerTraceback`."""
    chain, text = load(packed)
    cause: BaseException = WorkerTraceback(text)
    for pickled in reversed(chain):
        error: BaseException = load(pickled)
        error.__cause__ = cause
        cause = error
    return cause


def _pickled(error: BaseException) -> bytes:
    """Return an exception as a pickle; one that cannot be pickled and restored is sent by its name and text."""
    with contextlib.suppress(BaseException):  # any error of the user's `__reduce__` or `__init__`
        pickled = dump(error)
        if type(load(pickled)) is type(error):
            return pickled
    return dump(RuntimeError(f"{type(error).__name__}: {error}"))

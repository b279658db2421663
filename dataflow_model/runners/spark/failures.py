"""Spark's exceptions, with our own error found inside."""

from __future__ import annotations

import re
from typing import Final

from dataflow_model import errors
from dataflow_model.errors import DataflowError

__all__ = ["find_our_error"]

_OURS: Final = re.compile(
    r"dataflow_model\.errors\.(\w+): (.*?)"
    r"(?=\n[ \t]*\n|\n\s+at |\n\s*SQLSTATE: |\n=== Streaming Query ===|\nThe above exception"
    r"|\nDriver stacktrace|\nDuring handling|\n'?\s*$|\Z)",
    re.DOTALL,
)


def find_our_error(error: BaseException) -> BaseException:
    r"""Return the error of this package that made Spark fail, or Spark's own where there is none.

    Example:
        >>> find_our_error(RuntimeError("Job aborted\ndataflow_model.errors.SinkError: no room\n\n\tat org.apache"))
        SinkError('no room')
    """
    found = _OURS.findall(str(error))
    if not found:
        return error
    name, message = found[-1]
    kind = getattr(errors, name, None)
    if not isinstance(kind, type) or not issubclass(kind, DataflowError):
        return error
    ours = kind(message.rstrip())
    ours.__cause__ = error
    return ours

"""How a process identifies itself in a checkpoint, so that errors can name it."""

from __future__ import annotations

import os
import platform

import attrs

from dataflow_model.errors import DataflowError
from dataflow_model.runners.sharded.checkpoint.parts import as_document, from_document


@attrs.frozen
class Process:
    """A process on a machine.

    Example:
        >>> str(Process(4711, "db-1"))
        'process 4711 on db-1'
        >>> Process.read(Process(4711, "db-1").content("running"), "running")
        Process(process=4711, host='db-1')
    """

    process: int = attrs.field(factory=os.getpid)
    host: str = attrs.field(factory=platform.node)

    @classmethod
    def read(cls, content: bytes, name: str) -> Process | None:
        """Parse what `content` returned; `None` if it is incomplete, damaged, or something else.

        Args:
            content: the content of the file.
            name: the name of the file.
        """
        try:
            return cls(**from_document(content, name, repr(name)))
        except (DataflowError, TypeError):
            return None

    def content(self, name: str) -> bytes:
        """Return the content for a file of the checkpoint with a name."""
        return as_document(name, attrs.asdict(self))

    def __str__(self) -> str:
        return f"process {self.process} on {self.host}"

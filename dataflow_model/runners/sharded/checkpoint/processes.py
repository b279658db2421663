"""How a process identifies itself in a checkpoint, so that errors can name it."""

from __future__ import annotations

import json
import os
import platform

import attrs

__all__ = ["Process"]


@attrs.frozen
class Process:
    """A process on a machine.

    Example:
        >>> str(Process(4711, "db-1"))
        'process 4711 on db-1'
        >>> Process.read(Process(4711, "db-1").content())
        Process(process=4711, host='db-1')
    """

    process: int = attrs.field(factory=os.getpid)
    host: str = attrs.field(factory=platform.node)

    @classmethod
    def read(cls, content: bytes) -> Process:
        """Parse what `content` returned.

        Raises:
            ValueError: if it is incomplete, or something else.
        """
        try:
            return cls(**json.loads(content))
        except TypeError as error:
            raise ValueError(f"{content!r} does not describe a process") from error

    def content(self) -> bytes:
        """Return the content for a file of the checkpoint."""
        return json.dumps(attrs.asdict(self)).encode()

    def __str__(self) -> str:
        return f"process {self.process} on {self.host}"

"""Keys whose state is kept as bytes, with their total size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from typing import Protocol

    class _Stored(Protocol):
        @property
        def state(self) -> bytes: ...


__all__ = ["SettledKeys"]

_E = TypeVar("_E", bound="_Stored")


class SettledKeys(dict[bytes, _E]):
    """Stored keys by encoded key, which track their total size, since computing it would visit every key.

    Attributes:
        bytes: the total size of the states, in bytes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __setitem__(self, encoded: bytes, entry: _E) -> None:
        self.pop(encoded, None)
        self.bytes += len(entry.state)
        super().__setitem__(encoded, entry)

    def pop(self, encoded: bytes, default: Any = None) -> _E | Any:
        """Remove a key and return its entry, or the default."""
        entry = super().pop(encoded, None)
        if entry is None:
            return default
        self.bytes -= len(entry.state)
        return entry

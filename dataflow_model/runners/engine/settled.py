"""Keys whose state is kept as bytes, and how many bytes these are."""

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
    """Stored keys by encoded key; knows their size at any time, since adding it up would touch every key.

    Attributes:
        bytes: of the states that are in it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __setitem__(self, encoded: bytes, entry: _E) -> None:
        self.pop(encoded, None)
        self.bytes += len(entry.state)
        super().__setitem__(encoded, entry)

    def pop(self, encoded: bytes, default: Any = None) -> _E | Any:
        """Take a key out and return its entry, or the default."""
        entry = super().pop(encoded, None)
        if entry is None:
            return default
        self.bytes -= len(entry.state)
        return entry

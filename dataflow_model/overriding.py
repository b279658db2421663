"""`override`, which marks a method whose documentation is that of the method it overrides."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from typing_extensions import override
else:
    MethodT = TypeVar("MethodT")

    def override(method: MethodT) -> MethodT:
        """Return a method unchanged; `typing.override` in its place from Python 3.12 on."""
        return method


__all__ = ["override"]

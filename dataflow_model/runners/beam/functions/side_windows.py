"""Which window of a side input belongs to the window of a main element: found once for each window of main elements."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from apache_beam.internal import pickler
from apache_beam.portability.api import beam_runner_api_pb2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_REMEMBERED: Final = 1 << 12
"""For how many windows of main elements the side window is remembered."""


class SideWindows:
    """Maps windows of main elements to those of a side input; Beam's workers ask for each element.

    Windows are told apart by identity, since windows of a user's class may be equal although they differ. The windows
    of elements that begin a stage, as those of a function with side inputs do, are the same object if they are equal.

    Args:
        mapping: Beam's function from a window to a window, which is equal to this one.
    """

    def __init__(self, mapping: Callable[[Any], Any]) -> None:
        self._mapping = mapping
        self._known: dict[int, tuple[Any, Any]] = {}

    def __eq__(self, other: object) -> bool:
        return bool(self._mapping == (other._mapping if isinstance(other, SideWindows) else other))

    def __hash__(self) -> int:
        return hash(self._mapping)

    def __call__(self, window: Any) -> Any:
        """Return the window of the side input."""
        known = self._known.get(id(window))
        if known is None:
            if len(self._known) == _REMEMBERED:
                self._known.clear()
            # As long as the window is kept here, no other one has its id.
            known = self._known[id(window)] = window, self._mapping(window)
        return known[1]


def remember(descriptor: Any, sides: Iterable[tuple[str, str]]) -> None:
    """Change a description of transforms, so that the windows of its side inputs are remembered.

    Args:
        descriptor: the description, as Beam's workers get it.
        sides: the side inputs, each by the name of a transform and a tag.
    """
    for name, tag in sides:
        transform = descriptor.transforms[name]
        payload = beam_runner_api_pb2.ParDoPayload.FromString(transform.spec.payload)
        mapping = payload.side_inputs[tag].window_mapping_fn
        mapping.payload = pickler.dumps(SideWindows(pickler.loads(mapping.payload)))
        transform.spec.payload = payload.SerializeToString()

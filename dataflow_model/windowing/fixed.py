"""Windows of one length, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.arguments import calls_explained
from dataflow_model.errors import InvalidType
from dataflow_model.time import Duration, duration, duration_text
from dataflow_model.values import IntervalWindow, encode_key, interval, is_pair, shard_hash
from dataflow_model.windowing._bounds import inside, inside_many, minus, plus, positive, remainders
from dataflow_model.windowing.base import WindowFn

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dataflow_model.time import EventTime

_HASH_BITS = 32


@calls_explained(dict.fromkeys(("period", "duration", "length", "width", "every"), "use `size`"))
@attrs.frozen(order=False, repr=False)
class FixedWindows(WindowFn):
    """Divide event time into windows of one length; every element is in exactly one of them.

    Args:
        size: the length of each window, positive.
        offset: shifts the windows' starts from the epoch; taken modulo `size`, may be negative.
        phase_shift: shift the windows of each key by its own additional offset, so that not all keys complete at the
            same time. The offset is between 0 and `size`, and is the same in every process. Elements must be pairs; the
            key is `element[0]`.

    A window that would extend beyond ±∞ ends there; an element at +∞ is in the last window before +∞.

    Raises:
        InvalidArgument: if `size` is not positive.
        InvalidType: by `assign`, with `phase_shift`, for an element that is not a pair.
        KeyEncodingError: by `assign`, with `phase_shift`, for a key without a deterministic encoding.

    Known as tumbling windows elsewhere.

    Source: the Dataflow Model paper, section 1.2, and its unaligned windows for `phase_shift`; Beam's `FixedWindows`.

    Example:
        >>> from dataflow_model.time import event_time
        >>> FixedWindows("1 hour", offset="15 minutes").assign(event_time("2013-01-01T10:00Z"), None)
        ([2013-01-01T09:15:00Z, 2013-01-01T10:15:00Z),)
        >>> FixedWindows(3600, offset=-60)
        FixedWindows('1 hour', offset='59 minutes')
    """

    size: Duration = attrs.field(converter=duration)
    offset: Duration = attrs.field(default=Duration(0), converter=duration)
    phase_shift: bool = attrs.field(default=False, kw_only=True)

    def __attrs_post_init__(self) -> None:
        """Check the size and bring the offset into `[0, size)`."""
        positive("size", self.size)
        object.__setattr__(self, "offset", Duration(micros=int(self.offset) % int(self.size)))

    @property
    def needs_pairs(self) -> bool:
        """Whether windows are shifted by key."""
        return self.phase_shift

    @property
    def length(self) -> Duration:
        """The size."""
        return self.size

    def assign(self, event_time: EventTime, element: Any) -> tuple[IntervalWindow]:
        """Return the one window that contains the event time."""
        time, size = inside(event_time), int(self.size)
        shift = int(self.offset) + (self._phase(element) if self.phase_shift else 0)
        start = time - (time - shift) % size
        return (interval(start, start + size),)

    def assign_many(self, event_times: NDArray[np.int64]) -> tuple[None, NDArray[np.int64], NDArray[np.int64]] | None:
        """Assign a column of event times; `None` with `phase_shift`, where the elements are needed too."""
        if self.phase_shift:
            return None
        times, size = inside_many(event_times), int(self.size)
        past = remainders(times, size)
        if self.offset:
            past = remainders(past - int(self.offset), size)  # in this order no step leaves int64
        return None, minus(times, past), plus(times, size - past)

    def _phase(self, element: Any) -> int:
        if not is_pair(element):
            raise InvalidType(
                f"windows with `phase_shift` need pairs, got {element!r} of type {type(element).__name__}",
                hint="make pairs first, for example with WithKeys",
            )
        # Scaled, not taken modulo size: 2**32 microseconds are 71 minutes, which would not spread over a day.
        return int(self.size) * shard_hash(encode_key(element[0])) >> _HASH_BITS

    def __repr__(self) -> str:
        offset = f", offset={duration_text(self.offset)!r}" if self.offset else ""
        phase = ", phase_shift=True" if self.phase_shift else ""
        return f"FixedWindows({duration_text(self.size)!r}{offset}{phase})"

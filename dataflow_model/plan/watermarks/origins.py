"""The origins of a source's watermark: parts with a watermark each, from which the source's watermark is computed.

Source: the MillWheel paper, where each injector seeds the low watermark for its part of the input.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, TypedDict

import attrs

from dataflow_model.arguments import positive_duration
from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.time import Duration, DurationLike, duration, duration_text

_WEIGHTS: Final = ("origins", "records")


def _names(value: Iterable[object] | None) -> tuple[str, ...]:
    if isinstance(value, str) or not (value is None or isinstance(value, Iterable)):
        raise InvalidType(f"`partitions` must be a list of names, got {value!r}", hint=f"use partitions=[{value!r}]")
    return () if value is None else tuple(sorted({str(name) for name in value}))


def _optional_duration(value: DurationLike | None) -> Duration | None:
    return None if value is None else duration(value)


@attrs.frozen
class WatermarkOrigins:
    """The parts of a source that each have a watermark, and how the source's watermark is computed from them.

    Attributes:
        by: the column whose values name the origins, `"file"` if each file is an origin, or `None` if the whole source
            is one.
        partitions: the names of origins that must all have reported before there is a watermark; by default none. For
            bounded files with `by="file"` these are all files that exist when the run starts.
        idle_after: how long an origin may be silent before it stops holding back the watermark; `None` for no limit.
        max_skew: how far an origin may run ahead of the low watermark before the source waits; `None` for no limit.
        weight: whether a percentile counts each origin once (`"origins"`) or by its records (`"records"`).

    Raises:
        InvalidArgument: for durations that are not positive, an unknown weight, or `partitions` or `idle_after` without
            `by`.

    Example:
        >>> WatermarkOrigins(idle_after="0 seconds")
        Traceback (most recent call last):
        ...
        dataflow_model.errors.InvalidArgument: `idle_after` must be positive, got '0 seconds'
        Hint: pass a duration such as '1 minute'
    """

    by: str | None = None
    partitions: tuple[str, ...] = attrs.field(converter=_names, default=())
    idle_after: Duration | None = attrs.field(converter=_optional_duration, default=None)
    max_skew: Duration | None = attrs.field(converter=_optional_duration, default=None)
    weight: str = "origins"

    def __attrs_post_init__(self) -> None:
        """Check the options."""
        for name, length in (("idle_after", self.idle_after), ("max_skew", self.max_skew)):
            if length is not None:
                positive_duration(name, length, "pass a duration such as '1 minute'")
        if self.weight not in _WEIGHTS:
            raise InvalidArgument(
                f"`weight` must be 'origins' or 'records', got {self.weight!r}",
                hint="use weight='records' to count each record, weight='origins' to count each origin once",
            )
        if self.idle_after is not None and self.by is None:
            raise InvalidArgument(
                "`idle_after` lets other origins advance while one is silent, but the whole source is one origin, got "
                f"idle_after={duration_text(self.idle_after)!r}",
                hint="pass watermark_origin= (of dm.Injector, partition_by=), the column that holds the origin of each "
                "row, or leave `idle_after` out",
            )
        if self.partitions and self.by is None:
            raise InvalidArgument(
                f"`partitions` declares the origins {', '.join(self.partitions)}, but the whole source is one origin",
                hint="pass watermark_origin= (of dm.Injector, partition_by=), the column that holds the origin of each "
                "row",
            )

    def check_max_skew(self) -> None:
        """Check when a source is applied that it has origins which can wait: a `dm.Injector` may add them until then.

        Raises:
            InvalidArgument: for a `max_skew` although the whole source is one origin.
        """
        if self.max_skew is not None and self.by is None:
            raise InvalidArgument(
                "`max_skew` makes files wait for an origin that is behind, but the whole source is one origin, got "
                f"max_skew={duration_text(self.max_skew)!r}",
                hint="pass watermark_origin='file', or the column that holds the origin of each row, or leave "
                "`max_skew` out",
            )

    @property
    def by_column(self) -> str | None:
        """The column that names the origins, or `None`."""
        return None if self.by == "file" else self.by

    def describe(self) -> str:
        """Describe the options that differ from the default."""
        words = [] if self.by is None else [f"origins by {self.by}"]
        words += [f"partitions {', '.join(self.partitions)}"] if self.partitions else []
        words += [] if self.idle_after is None else [f"idle after {duration_text(self.idle_after)}"]
        words += [] if self.max_skew is None else [f"at most {duration_text(self.max_skew)} ahead"]
        words += ["percentiles by records"] if self.weight == "records" else []
        return ", ".join(words)


EVERYTHING: Final = WatermarkOrigins()
"""The whole source is one origin."""


class WatermarkOptions(TypedDict, total=False):
    """The options of a read for the origins of its watermark; see `WatermarkOrigins`."""

    watermark_origin: str | None
    partitions: Iterable[object] | None
    idle_after: DurationLike | None
    max_skew: DurationLike | None
    weight: Literal["origins", "records"]


def origins_of(options: WatermarkOptions) -> WatermarkOrigins:
    """Return the origins that a read's options define.

    Example:
        >>> origins_of({"watermark_origin": "file", "idle_after": "1 minute"}).describe()
        'origins by file, idle after 1 minute'
    """
    return WatermarkOrigins(
        by=options.get("watermark_origin"),
        partitions=options.get("partitions"),
        idle_after=options.get("idle_after"),
        max_skew=options.get("max_skew"),
        weight=options.get("weight", "origins"),
    )

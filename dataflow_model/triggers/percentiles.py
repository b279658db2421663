"""The percentiles of the watermark that a user's class names."""

from __future__ import annotations

from collections.abc import Collection
from typing import SupportsFloat

from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.triggers.contexts import LOW_WATERMARK


def check_named_percentiles(percentiles: object, of: str, *, allows_low_watermark: bool = False) -> None:
    """Raise if what a class names is not a collection of percentiles of the watermark below 100.

    Args:
        percentiles: what the class names.
        of: the name of the attribute, and of the class.
        allows_low_watermark: whether 100 may be named too, which is the low watermark.

    Raises:
        InvalidArgument: for one out of range.
        InvalidType: for a single value, or for one that is no number.

    Example:
        >>> check_named_percentiles((100,), "`percentiles` of Model")
        Traceback (most recent call last):
        dataflow_model.errors.InvalidArgument: `percentiles` of Model must lie between 0 and 100, got 100
        Hint: leave out 100, which is the low watermark and always available
    """
    if isinstance(percentiles, str | bytes) or not isinstance(percentiles, Collection):
        raise InvalidType(f"{of} must be a collection, got {percentiles!r}", hint="write (90,), for example")
    for percentile in percentiles:
        if not isinstance(percentile, SupportsFloat):
            raise InvalidType(f"{of} must be numbers, got {percentile!r}", hint="write (90,), for example")
        if not 0 < float(percentile) < LOW_WATERMARK and not (allows_low_watermark and percentile == LOW_WATERMARK):
            raise InvalidArgument(
                f"{of} must lie between 0 and 100, got {percentile!r}",
                hint="leave out 100, which is the low watermark and always available",
            )


def check_percentile(percentile: object) -> None:
    """Raise if a percentile that is asked for is not a number.

    Raises:
        InvalidType: if it is not.

    Example:
        >>> check_percentile("95")
        Traceback (most recent call last):
        dataflow_model.errors.InvalidType: a percentile of the watermark must be a number, got '95'
        Hint: use 100 for the low watermark, or a percentile that the class names
    """
    if not isinstance(percentile, SupportsFloat):
        raise InvalidType(
            f"a percentile of the watermark must be a number, got {percentile!r}",
            hint="use 100 for the low watermark, or a percentile that the class names",
        )

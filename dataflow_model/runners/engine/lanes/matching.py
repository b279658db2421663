"""Retractions and the values that replace them: both reach a grouping as one event."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def matched(groups: NDArray[np.int64], is_retraction: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Match retractions with the values that replace them: the next value of the same emission, key and window.

    Args:
        groups: a number for the emission, key and window of each element in each of its windows, in order.
        is_retraction: whether it is a retraction.

    Returns:
        how many retractions each element replaces, −1 for a retraction that nothing replaces; and the rows of the
        replaced retractions, in the order of their replacements.

    Example:
        >>> matched(np.array([3, 5, 3, 3]), np.array([True, True, False, True]))
        (array([ 0, -1,  1, -1]), array([0]))
    """
    count = len(groups)
    order = np.argsort(groups, kind="stable")
    retracts = is_retraction[order]
    begins = np.ones(count, np.bool_)  # a run of retractions begins with a group, and after a value
    begins[1:] = (groups[order][1:] != groups[order][:-1]) | ~retracts[:-1]
    runs = np.cumsum(begins) - 1
    lasts = np.append(np.flatnonzero(begins)[1:], count) - 1
    behind = order[lasts[runs]]  # the end of each element's run: a value, or its last retraction
    is_replaced = retracts & ~is_retraction[behind]
    replaces = np.bincount(behind[is_replaced], minlength=count)
    replaces[order[retracts & ~is_replaced]] = -1
    rows, by = order[is_replaced], behind[is_replaced]
    return replaces, rows[np.lexsort((rows, by))]

"""Entries of keys, side by side in bytes, so that a load of many keys makes no object for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from dataflow_model.runners.engine.core.columns import column_of
from dataflow_model.runners.engine.core.moving import divided

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@attrs.frozen
class Joined:
    """Entries of keys.

    Attributes:
        keys: the encoded keys; `None` for one that is not known.
        whole: bytes with all entries.
        begins, ends: where the entry of each key begins and ends.

    Example:
        >>> joined = Joined.of([b"a", b"b"], b"1223", [1, 4])
        >>> joined.entry(1), joined.parts(0, 1)
        (b'223', [b'1', b'2'])
    """

    keys: Sequence[bytes | None]
    whole: bytes
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]

    @classmethod
    def of(cls, keys: Sequence[bytes | None], whole: bytes, ends: Any) -> Joined:
        """Return entries that follow each other without gaps."""
        last = np.array(ends, np.int64)
        return cls(keys, whole, np.concatenate([np.zeros(1, np.int64), last])[:-1], last)

    def __len__(self) -> int:
        return len(self.keys)

    def entry(self, place: int) -> bytes:
        """Return the entry of one key."""
        return self.whole[self.begins[place] : self.ends[place]]

    def parts(self, begin: int, end: int) -> list[bytes]:
        """Return the bytes of each entry from one offset to another."""
        return divided(self.whole, column_of(self.begins + begin), column_of(self.begins + end))

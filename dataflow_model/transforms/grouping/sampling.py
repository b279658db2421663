"""Sample: some elements drawn at random, the same ones however the work is divided."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.plan.names.spellings import with_spellings
from dataflow_model.transforms.grouping.combiner_forms import Combiner
from dataflow_model.transforms.grouping.element_bytes import SPACE, hash_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_FEWEST: Final = 64
"""The minimum number of distinct elements to keep; up to that, each is drawn in proportion to its occurrences."""
_Held = dict[int, tuple[Any, int]]


def _size(_sample: object, _attribute: object, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidType(f"`n` must be an int, got {value!r}", hint="use Sample(10) to draw ten elements")
    if value < 1:
        raise InvalidArgument(f"`n` must be at least 1, got {value!r}", hint="use Sample(1) to draw one element")


def _salt(_sample: object, _attribute: object, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidType(f"`seed` must be an int, got {value!r}", hint="use Sample(10, seed=1) for another sample")
    if not -(2**63) <= value < 2**63:
        raise InvalidArgument(f"`seed` must fit into 64 bits, got {value!r}", hint="use a smaller number")


@with_spellings
@attrs.frozen
class Sample(Combiner[Any, _Held, list[Any]]):
    """Draw n elements at random, as a list; if there are at most n elements, all of them.

    The sample depends only on the elements and the seed, so every run on every runner draws the same elements. If at
    most `max(n, 64)` elements are distinct, each element has the same chance, and no element is drawn twice. If more
    are distinct, `max(n, 64)` distinct elements are chosen first, each with the same chance no matter how often it
    occurs, and the sample is drawn from these. This bounds the memory, but an element that occurs many times may be
    left out entirely. An element must be a valid key, or a list, set or dict of valid keys. Elements that are equal as
    keys, such as values of a dataclass that differ only in a field with `compare=False`, are one element that occurs
    several times.

    Args:
        n: the number of elements to draw; at least 1.
        seed: a different seed draws a different sample.

    Raises:
        InvalidType: for a number that is not an int.
        InvalidArgument: if `n` is less than 1, or `seed` has more than 64 bits.

    Source: Beam's `Sample.FixedSizeGlobally` and `FixedSizePerKey`, which draw a different sample in each run.

    Example:
        >>> import dataflow_model as dm
        >>> with dm.Pipeline() as p:
        ...     _ = p | dm.Create(range(1000)) | dm.Sample.globally(3) | dm.io.Collect()
        >>> p.result.collected("Collect")[0].value
        [153, 283, 436]
    """

    n: int = attrs.field(validator=_size)
    seed: int = attrs.field(default=0, validator=_salt, kw_only=True)

    def named_parts(self) -> Sequence[tuple[str, str]]:
        """Return the arguments that decide which elements the accumulator keeps."""
        return [("n", str(self.n)), ("seed", str(self.seed))]

    def create_accumulator(self) -> _Held:
        """Return an empty dict: by hash, an element and how often it occurs."""
        return {}

    def add_input(self, accumulator: _Held, element: Any) -> _Held:
        """Count the element; if there are too many, drop those with the greatest hashes."""
        hashed = hash_of(element, self.seed)
        chosen, count = accumulator.get(hashed, (element, 0))
        accumulator[hashed] = _either(chosen, element) if count else element, count + 1
        return accumulator if len(accumulator) <= 2 * self._distinct else self._least(accumulator)

    def merge_accumulators(self, accumulators: Iterable[_Held]) -> _Held:
        """Add the counts up."""
        merged: _Held = {}
        for accumulator in accumulators:
            for hashed, (element, count) in accumulator.items():
                chosen, before = merged.get(hashed, (element, 0))
                merged[hashed] = _either(chosen, element) if before else element, before + count
        return self._least(merged)

    def extract_output(self, accumulator: _Held) -> list[Any]:
        """Draw."""
        drawn: list[Any] = []
        least = self._least(accumulator)
        queue = [
            (next(ranks), hashed, ranks) for hashed, (_, count) in least.items() for ranks in [_ranks(hashed, count)]
        ]
        heapq.heapify(queue)
        while queue and len(drawn) < self.n:
            _, hashed, ranks = queue[0]
            drawn.append(least[hashed][0])
            following = next(ranks, None)
            if following is None:
                heapq.heappop(queue)
            else:
                heapq.heapreplace(queue, (following, hashed, ranks))
        return drawn

    def output_type(self, value_type: Any) -> Any:
        """Return a list of the inputs' type."""
        return list[value_type]

    @property
    def _distinct(self) -> int:
        return max(self.n, _FEWEST)

    def _least(self, accumulator: _Held) -> _Held:
        return {hashed: accumulator[hashed] for hashed in heapq.nsmallest(self._distinct, accumulator)}


def _either(left: Any, right: Any) -> Any:
    """Return one of two elements that are equal as keys, the same one in either order: `0.0` rather than `-0.0`."""
    return left if left is right else max(left, right, key=repr)


def _ranks(hashed: int, count: int) -> Iterator[float]:
    """Yield the ranks of equal elements in ascending order: one random number in [0, 1] per element.

    The rank of a single element is its hash, so that of distinct elements those with the least hashes are drawn.
    """
    rank, drawn = 0.0, hashed / SPACE
    for left in range(count, 0, -1):
        rank = 1 - (1 - rank) * (1 - drawn) ** (1 / left)
        yield rank
        drawn = hash_of((hashed, left)) / SPACE

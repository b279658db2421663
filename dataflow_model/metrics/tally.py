"""What one task, shard or run has counted, by transform: filled while it works, merged where results are committed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.errors import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["BUNDLE_SIZE", "ELEMENTS_OUT", "SLOW_KEPT", "Readings", "Spread", "Tally"]

BUNDLE_SIZE: Final = "bundle_size"
ELEMENTS_OUT: Final = "elements_out"
SLOW_KEPT: Final = 8
"""How many of a transform's slowest keys are told."""
_SLOW_HELD: Final = 256
"""How many a task may hold before it lets the fastest go."""
_LONGEST: Final = 80
"""How many characters of a key are kept."""
_GOLDEN: Final = 0x9E3779B1
"""The golden ratio times 2 ** 32: its multiples fall evenly on the 32 bits, and so do those of any stride."""
_ALL_BITS: Final = 0xFFFFFFFF
_AN_EIGHTH: Final = 1 << 29


@attrs.define
class Spread:
    """The count, sum, least and greatest of some numbers."""

    count: int = 0
    sum: float = 0
    min: float = 0
    max: float = 0

    def add(self, value: float) -> None:
        """Take a number in.

        Example:
            >>> spread = Spread()
            >>> for size in (4, 2, 9):
            ...     spread.add(size)
            >>> spread
            Spread(count=3, sum=15, min=2, max=9)
        """
        if not self.count or value < self.min:
            self.min = value
        if not self.count or value > self.max:
            self.max = value
        self.count += 1
        self.sum += value

    def merge(self, other: Spread) -> None:
        """Take in what another has."""
        if other.count:
            self.min = min(self.min, other.min) if self.count else other.min
            self.max = max(self.max, other.max) if self.count else other.max
            self.count += other.count
            self.sum += other.sum


@attrs.define
class Readings:
    """Named counters, distributions and gauges of one transform; a gauge has its value and when it was set."""

    counters: dict[str, int] = attrs.field(factory=dict)
    distributions: dict[str, Spread] = attrs.field(factory=dict)
    gauges: dict[str, tuple[int, float]] = attrs.field(factory=dict)

    def count(self, name: str, by: int) -> None:
        """Add to a counter."""
        self.counters[name] = self.counters.get(name, 0) + by

    def observe(self, name: str, value: float) -> None:
        """Add a number to a distribution."""
        spread = self.distributions.get(name)
        if spread is None:
            spread = self.distributions[name] = Spread()
        spread.add(value)

    def set(self, name: str, value: float, at: int) -> None:
        """Set a gauge; the latest value stays, of two at the same time the greater."""
        self.gauges[name] = max((at, value), self.gauges.get(name, (at, value)))

    def merge(self, other: Readings) -> None:
        """Take in what another has."""
        for name, by in list(other.counters.items()):
            self.count(name, by)
        for name, spread in list(other.distributions.items()):
            self.distributions.setdefault(name, Spread()).merge(spread)
        for name, (at, value) in list(other.gauges.items()):
            self.set(name, value, at)


@attrs.define
class Tally:
    """What was counted, by the label of the transform.

    Attributes:
        own: by transform, what the engine counts.
        users: by transform, what users' functions count.
        slow: by transform and key, as text, the seconds that it took and how many elements they were for.
        stages: by depth, what counts for all transforms of a stage.
        label: the transform that is at work.
        bundles: how many bundles it has been asked about, to time one in eight; where many small tallies follow each
            other, each is given another start.
    """

    own: dict[str, Readings] = attrs.field(factory=dict)
    users: dict[str, Readings] = attrs.field(factory=dict)
    slow: dict[str, dict[str, tuple[float, int]]] = attrs.field(factory=dict)
    stages: dict[str, dict[str, int]] = attrs.field(factory=dict)
    label: str = ""
    bundles: int = attrs.field(default=0, eq=False)

    def of_users(self) -> Readings:
        """Return where what the user's function counts belongs."""
        readings = self.users.get(self.label)
        if readings is None:
            readings = self.users[self.label] = Readings()
        return readings

    def of_transform(self, label: str) -> Readings:
        """Return where what the engine counts for a transform belongs."""
        readings = self.own.get(label)
        if readings is None:
            readings = self.own[label] = Readings()
        return readings

    def of_stage(self, depth: int, counts: Mapping[str, int]) -> None:
        """Count for a stage."""
        held = self.stages.setdefault(str(depth), {})
        for name, by in counts.items():
            held[name] = held.get(name, 0) + by

    def spent(self, label: str, key: Any, seconds: float, elements: int) -> None:
        """Note how long some elements of a key took; once there are many keys only the slowest stay."""
        keys = self.slow.setdefault(label, {})
        name = _text(key)
        before = keys.get(name, (0.0, 0))
        keys[name] = before[0] + seconds, before[1] + elements
        if len(keys) > _SLOW_HELD:
            self.slow[label] = _slowest(keys, _SLOW_HELD // 2)

    def merge(self, other: Tally) -> None:
        """Take in what another has; each may be merged once only."""
        for mine, theirs in ((self.own, other.own), (self.users, other.users)):
            for label, readings in list(theirs.items()):
                mine.setdefault(label, Readings()).merge(readings)
        for depth, counts in list(other.stages.items()):
            self.of_stage(int(depth), counts)
        for label, keys in list(other.slow.items()):
            merged = dict(self.slow.get(label, {}))
            for key, (seconds, elements) in list(keys.items()):
                before = merged.get(key, (0.0, 0))
                merged[key] = before[0] + seconds, before[1] + elements
            self.slow[label] = _slowest(merged, _SLOW_HELD // 2)

    def copy(self) -> Tally:
        """Return a copy, also while another thread goes on counting."""
        copied = Tally()
        copied.merge(self)
        return copied

    def times_a_bundle(self) -> bool:
        """Tell whether the next bundle's keys are to be timed: the first, and then one in eight.

        Not every eighth: bundles of several transforms and shards take turns, and each is to have its share.
        """
        number = self.bundles
        self.bundles += 1
        return number * _GOLDEN & _ALL_BITS < _AN_EIGHTH

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON takes it, with no more of the slowest keys than are told."""
        return {
            "own": {label: attrs.asdict(readings) for label, readings in self.own.items()},
            "users": {label: attrs.asdict(readings) for label, readings in self.users.items()},
            "slow": {label: self.slowest(label) for label in self.slow},
            "stages": self.stages,
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Tally:
        """Read what `to_json` gave; of what is not there, nothing was counted.

        Example:
            >>> tally = Tally(label="Map")
            >>> tally.of_users().observe("length", 3)
            >>> Tally.from_json(tally.to_json()).users == tally.users
            True
        """
        tally = cls()
        for held, part in ((tally.own, "own"), (tally.users, "users")):
            for label, readings in found.get(part, {}).items():
                held[label] = Readings(
                    dict(readings["counters"]),
                    {name: Spread(**spread) for name, spread in readings["distributions"].items()},
                    {name: (at, value) for name, (at, value) in readings["gauges"].items()},
                )
        tally.slow = {
            label: {key: (seconds, elements) for key, (seconds, elements) in keys.items()}
            for label, keys in found.get("slow", {}).items()
        }
        tally.stages = {depth: dict(counts) for depth, counts in found.get("stages", {}).items()}
        return tally

    def slowest(self, label: str) -> dict[str, tuple[float, int]]:
        """Return a transform's slowest keys, the slowest first."""
        return _slowest(dict(self.slow.get(label, {})), SLOW_KEPT)


def _slowest(keys: Mapping[str, tuple[float, int]], count: int) -> dict[str, tuple[float, int]]:
    ordered = sorted(keys.items(), key=lambda entry: (-entry[1][0], entry[0]))
    return dict(ordered[:count])


def _text(key: Any) -> str:
    text = key if isinstance(key, str) else shown(key)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"

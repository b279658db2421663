"""The counts of a task, shard or run, by transform: filled during the work, merged when results are committed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs

from dataflow_model.errors import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

BUNDLE_SIZE: Final = "bundle_size"
ELEMENTS_OUT: Final = "elements_out"
SLOW_KEPT: Final = 8
"""How many of a transform's slowest keys are reported."""
_SLOW_HELD: Final = 256
"""How many keys a task keeps before it discards the faster half."""
_LONGEST: Final = 80
"""How many characters of a key are kept."""
_GOLDEN: Final = 0x9E3779B1
"""2 ** 32 divided by the golden ratio: its multiples modulo 2 ** 32 are evenly spread, for any stride."""
_ALL_BITS: Final = 0xFFFFFFFF
_AN_EIGHTH: Final = 1 << 29
_T = TypeVar("_T")


@attrs.define
class Spread:
    """The count, sum, minimum and maximum of some numbers."""

    count: int = 0
    sum: float = 0
    min: float = 0
    max: float = 0

    def add(self, value: float) -> None:
        """Add a number.

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
        """Add the numbers of another."""
        if other.count:
            self.min = min(self.min, other.min) if self.count else other.min
            self.max = max(self.max, other.max) if self.count else other.max
            self.count += other.count
            self.sum += other.sum


@attrs.define
class Readings:
    """Named counters, distributions and gauges of one transform; a gauge is (time at which it was set, value)."""

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
        """Set a gauge; the latest value is kept, or the greater of two set at the same time."""
        self.gauges[name] = max((at, value), self.gauges.get(name, (at, value)))

    def merge(self, other: Readings) -> None:
        """Add the numbers of another."""
        for name, by in list(other.counters.items()):
            self.count(name, by)
        for name, spread in list(other.distributions.items()):
            self.distributions.setdefault(name, Spread()).merge(spread)
        for name, (at, value) in list(other.gauges.items()):
            self.set(name, value, at)


@attrs.define
class Tally:
    """Counts by the label of the transform.

    Attributes:
        own: the engine's counts, by transform.
        users: the counts of users' functions, by transform.
        slow: the seconds and the number of timed elements, by transform and key (as text).
        stages: the counts that all transforms of a stage share, by depth.
        label: the current transform.
        bundles: the number of calls of `times_a_bundle`, which selects one bundle in eight; consecutive small tallies
            start from different numbers.
    """

    own: dict[str, Readings] = attrs.field(factory=dict)
    users: dict[str, Readings] = attrs.field(factory=dict)
    slow: dict[str, dict[str, tuple[float, int]]] = attrs.field(factory=dict)
    stages: dict[str, dict[str, int]] = attrs.field(factory=dict)
    label: str = ""
    bundles: int = attrs.field(default=0, eq=False)

    def of_users(self) -> Readings:
        """Return the readings of the current transform's own functions."""
        readings = self.users.get(self.label)
        if readings is None:
            readings = self.users[self.label] = Readings()
        return readings

    def of_transform(self, label: str) -> Readings:
        """Return the readings that the engine keeps for a transform."""
        readings = self.own.get(label)
        if readings is None:
            readings = self.own[label] = Readings()
        return readings

    def of_stage(self, depth: int, counts: Mapping[str, int]) -> None:
        """Add counts to a stage."""
        of_stage = self.stages.setdefault(str(depth), {})
        for name, by in counts.items():
            of_stage[name] = of_stage.get(name, 0) + by

    def spent(self, label: str, key: Any, seconds: float, elements: int) -> None:
        """Record how long some elements of a key took; once there are many keys, only the slowest are kept."""
        keys = self.slow.setdefault(label, {})
        name = _text(key)
        before = keys.get(name, (0.0, 0))
        keys[name] = before[0] + seconds, before[1] + elements
        if len(keys) > _SLOW_HELD:
            self.slow[label] = _slowest(keys, _SLOW_HELD // 2)

    def merge(self, other: Tally) -> None:
        """Add the counts of another tally, which may be merged only once."""
        for own_readings, other_readings in ((self.own, other.own), (self.users, other.users)):
            for label, readings in list(other_readings.items()):
                own_readings.setdefault(label, Readings()).merge(readings)
        for depth, counts in list(other.stages.items()):
            self.of_stage(int(depth), counts)
        for label, keys in list(other.slow.items()):
            merged = dict(self.slow.get(label, {}))
            for key, (seconds, elements) in list(keys.items()):
                before = merged.get(key, (0.0, 0))
                merged[key] = before[0] + seconds, before[1] + elements
            self.slow[label] = _slowest(merged, _SLOW_HELD // 2)

    def of(self, labels: Collection[str]) -> Tally:
        """Return the counts of some transforms.

        Example:
            >>> tally = Tally()
            >>> tally.of_transform("Map").count("elements_out", 3)
            >>> tally.of(["Filter"]) == Tally(), tally.of(["Map"]) == tally
            (True, True)
        """

        def chosen(by_label: Mapping[str, _T]) -> dict[str, _T]:
            return {label: by_label[label] for label in labels if label in by_label}

        part = Tally()
        part.merge(Tally(chosen(self.own), chosen(self.users), chosen(self.slow)))
        return part

    def renamed(self, by_label: Callable[[Mapping[str, Any]], dict[str, Any]]) -> Tally:
        """Return the counts under other labels, which `by_label` gives to what it gets by label."""
        renamed = Tally()
        renamed.merge(Tally(by_label(self.own), by_label(self.users), by_label(self.slow), self.stages))
        return renamed

    def copy(self) -> Tally:
        """Return a copy; safe while another thread is counting."""
        copied = Tally()
        copied.merge(self)
        return copied

    def times_a_bundle(self) -> bool:
        """Return whether to time the keys of the next bundle: the first bundle, and then one in eight.

        It is not every eighth bundle, because transforms and shards take turns and each must be sampled.
        """
        number = self.bundles
        self.bundles += 1
        return number * _GOLDEN & _ALL_BITS < _AN_EIGHTH

    def to_json(self) -> dict[str, Any]:
        """Return the tally as JSON values, with only the slowest keys that are reported."""
        return {
            "own": {label: attrs.asdict(readings) for label, readings in self.own.items()},
            "users": {label: attrs.asdict(readings) for label, readings in self.users.items()},
            "slow": {label: self.slowest(label) for label in self.slow},
            "stages": self.stages,
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Tally:
        """Return the tally that `to_json` wrote; missing parts are empty.

        Example:
            >>> tally = Tally(label="Map")
            >>> tally.of_users().observe("length", 3)
            >>> Tally.from_json(tally.to_json()).users == tally.users
            True
        """
        tally = cls()
        for readings_of, part in ((tally.own, "own"), (tally.users, "users")):
            for label, readings in content.get(part, {}).items():
                readings_of[label] = Readings(
                    dict(readings["counters"]),
                    {name: Spread(**spread) for name, spread in readings["distributions"].items()},
                    {name: (at, value) for name, (at, value) in readings["gauges"].items()},
                )
        tally.slow = {
            label: {key: (seconds, elements) for key, (seconds, elements) in keys.items()}
            for label, keys in content.get("slow", {}).items()
        }
        tally.stages = {depth: dict(counts) for depth, counts in content.get("stages", {}).items()}
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

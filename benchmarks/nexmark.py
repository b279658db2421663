"""Nexmark's events, as lines of JSON: of 50 events, one is a person, three are auctions and the others bids.

These are the proportions of Nexmark's own generator, with 100 events a second of event time. An auction is of one of
the last 50 persons, is open for 2 to 20 seconds, and bids are on one of the last 31 auctions, so that most bids are in
time.
"""

from __future__ import annotations

import json
import random
import string
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["events", "write_events"]

_START: Final = 1_528_098_831_026
"""When the first event happens, in milliseconds since 1970."""
_PERIOD: Final = 10
"""The milliseconds from one event to the next."""
_FIRST_ID: Final = 1_000
_CITIES: Final = ("Portland", "Bend", "Boise", "Seattle")
_STATES: Final = ("OR", "ID", "CA", "WA")


def events(count: int) -> Iterator[dict[str, Any]]:
    """Yield the first `count` events in order of time; they are the same each time."""
    rng = random.Random(7)
    persons = auctions = 0
    for number in range(count):
        at = _START + number * _PERIOD
        common = {"dateTime": at, "extra": "".join(rng.choices(string.ascii_lowercase, k=30))}
        sellers = _FIRST_ID + max(0, persons - 50), _FIRST_ID + max(0, persons - 1)
        if number % 50 == 0:
            yield _person(_FIRST_ID + persons, rng) | common
            persons += 1
        elif number % 50 <= 3:
            yield _auction(_FIRST_ID + auctions, at, sellers, rng) | common
            auctions += 1
        else:
            newest = _FIRST_ID + max(0, auctions - 1)
            yield {
                "auction": rng.randint(max(_FIRST_ID, newest - 30), newest),
                "bidder": rng.randint(*sellers),
                "price": rng.randint(50, 100_000),
            } | common


def _person(number: int, rng: random.Random) -> dict[str, Any]:
    return {
        "id": number,
        "name": f"Peter {number}",
        "emailAddress": f"p{number}@example.com",
        "creditCard": "7241 7320 9143 4888",
        "city": rng.choice(_CITIES),
        "state": rng.choice(_STATES),
    }


def _auction(number: int, at: int, sellers: tuple[int, int], rng: random.Random) -> dict[str, Any]:
    return {
        "id": number,
        "itemName": f"item {number}",
        "description": "as good as new",
        "initialBid": rng.randint(1, 100),
        "reserve": rng.randint(50, 200),
        "expires": at + rng.randint(2_000, 20_000),
        "seller": rng.randint(*sellers),
        "category": 10 + rng.randint(0, 4),
    }


def write_events(path: Path, count: int) -> None:
    """Write the first `count` events as a file of JSON lines."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(event) + "\n" for event in events(count))

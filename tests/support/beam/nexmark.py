"""The answers to Nexmark's queries, computed from its events without Beam and without this package.

An answer is a list of results, each with its event time in microseconds. Beam's queries are in
`apache_beam.testing.benchmarks.nexmark.queries`.
"""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false, reportArgumentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

import importlib
import json
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.benchmarks.nexmark import nexmark_util
from apache_beam.testing.benchmarks.nexmark.models import nexmark_model
from apache_beam.transforms import window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

Event: TypeAlias = dict[str, Any]
Answer: TypeAlias = list[tuple[str, int]]
"""Results as JSON with their event times, in order."""

ARGUMENTS: Final = {
    "auction_skip": 123,
    "window_size_sec": 10,
    "window_period_sec": 5,
    "fanout": 5,
    "num_max_workers": 5,
    "max_log_events": 100_000,
    "occasional_delay_sec": 3,
    "max_auction_waiting_time": 600,
}
"""Those of Beam's launcher."""
_MILLI: Final = 1_000
_SIZE: Final = 10_000_000
_PERIOD: Final = 5_000_000
_GLOBAL_END: Final[int] = window.GlobalWindow().max_timestamp().micros


def query(number: int, source: Path, folder: Path, runner: Any, *options: str) -> Answer:
    """Return what Beam's query answers on a runner.

    Args:
        number: that of the query.
        source: a file with events.
        folder: where the results are written.
        runner: the runner.
        options: further options of the pipeline.
    """
    nexmark_util.setup_coder()
    given = PipelineOptions(["--allow_unsafe_triggers", *options])
    module = importlib.import_module(f"apache_beam.testing.benchmarks.nexmark.queries.query{number}")
    pipeline = beam.Pipeline(runner=runner, options=given)
    parsed = pipeline | beam.io.ReadFromText(str(source)) | beam.ParDo(nexmark_util.ParseJsonEventFn())
    stamped = parsed | "stamped" >> beam.Map(lambda event: window.TimestampedValue(event, event.date_time))
    results = module.load(stamped, ARGUMENTS, given) | "as lines" >> beam.ParDo(AsLine())
    _ = results | "rewindowed" >> beam.WindowInto(window.GlobalWindows()) | beam.io.WriteToText(str(folder / "answer"))
    pipeline.run().wait_until_finish()
    lines = [line for path in folder.glob("answer-*") for line in path.read_text().splitlines()]
    return sorted((result, time) for result, time in map(json.loads, lines))


class AsLine(beam.DoFn):  # type: ignore[misc] # Beam ships no types that mypy takes
    def process(self, result: Any, timestamp: Any = beam.DoFn.TimestampParam) -> Iterator[str]:
        yield json.dumps((_shown(result), timestamp.micros))


def _shown(result: Any) -> str:
    if not isinstance(result, dict):
        result = nexmark_model.construct_json_dict(result)
    return json.dumps(result, sort_keys=True)


def by_hand(number: int, events: Iterable[Event]) -> Answer:
    """Return the answer to a query."""
    return sorted((json.dumps(result, sort_keys=True), time) for result, time in _BY_HAND[number](list(events)))


_Results: TypeAlias = "Iterator[tuple[Any, int]]"


def _persons(events: list[Event]) -> list[Event]:
    return [event for event in events if "name" in event]


def _auctions(events: list[Event]) -> list[Event]:
    return [event for event in events if "itemName" in event]


def _bids(events: list[Event]) -> list[Event]:
    return [event for event in events if "bidder" in event]


def _time(event: Event) -> int:
    return int(event["dateTime"]) * _MILLI


def _fixed(event: Event) -> int:
    """Return the end of its window of 10 seconds, as the last instant of it."""
    return _time(event) // _SIZE * _SIZE + _SIZE - 1


def _sliding(time: int) -> list[int]:
    """Return the last instants of the windows of 10 seconds, one of which begins every 5."""
    last_start = time // _PERIOD * _PERIOD
    return [last_start + _SIZE - 1, last_start + _PERIOD - 1]


def _names(event: Event) -> Event:
    """Return an event with the names of fields that Beam's classes have."""
    snake = {
        "emailAddress": "email_address",
        "creditCard": "credit_card",
        "dateTime": "date_time",
        "itemName": "item_name",
        "initialBid": "initial_bid",
    }
    return {snake.get(name, name): value for name, value in event.items()}


def _unchanged(events: list[Event]) -> _Results:
    yield from ((_names(event), _time(event)) for event in events)


def _in_euros(events: list[Event]) -> _Results:
    yield from ((_names(bid) | {"price": bid["price"] * 0.89}, _time(bid)) for bid in _bids(events))


def _of_some_auctions(events: list[Event]) -> _Results:
    for bid in _bids(events):
        if bid["auction"] % ARGUMENTS["auction_skip"] == 0:
            yield {"auction_id": bid["auction"], "price": bid["price"]}, _time(bid)


def _local_sellers(events: list[Event]) -> _Results:
    persons = {each["id"]: each for each in _persons(events) if each["state"] in {"OR", "ID", "CA"}}
    for auction in _auctions(events):
        person = persons.get(auction["seller"])
        if auction["category"] == 10 and person is not None:
            found = {"name": person["name"], "city": person["city"], "state": person["state"]}
            yield found | {"auction_id": auction["id"]}, _GLOBAL_END


def _winners(events: list[Event]) -> Iterator[tuple[Event, Event]]:
    """Yield each auction with the best of the bids that are in time and not below its reserve."""
    bids = defaultdict(list)
    for bid in _bids(events):
        bids[bid["auction"]].append(bid)
    for auction in _auctions(events):
        of_auction = [
            bid
            for bid in bids[auction["id"]]
            if bid["dateTime"] < auction["expires"] and bid["price"] >= auction["reserve"]
        ]
        if of_auction:
            yield auction, max(of_auction, key=lambda bid: (bid["price"], -bid["dateTime"]))


def _mean_prices(events: list[Event]) -> _Results:
    prices: dict[tuple[int, int], list[int]] = defaultdict(list)
    for auction, bid in _winners(events):
        for end in _sliding(auction["expires"] * _MILLI - 1):
            prices[auction["category"], end].append(bid["price"])
    for (category, end), values in prices.items():
        yield {"category": category, "price": sum(values) / len(values), "is_last": True}, end


def _hot_auctions(events: list[Event]) -> _Results:
    counts: dict[int, Counter[int]] = defaultdict(Counter)
    for bid in _bids(events):
        for end in _sliding(_time(bid)):
            counts[end][bid["auction"]] += 1
    for end, of_window in counts.items():
        most = max(of_window.values())
        yield from (({"auction_id": each, "num": most}, end) for each, count in of_window.items() if count == most)


def _highest_bids(events: list[Event]) -> _Results:
    highest: dict[int, int] = defaultdict(int)
    for bid in _bids(events):
        highest[_fixed(bid)] = max(highest[_fixed(bid)], bid["price"])
    yield from ((_names(bid), _time(bid)) for bid in _bids(events) if bid["price"] == highest[_fixed(bid)])


def _new_sellers(events: list[Event]) -> _Results:
    persons = {(each["id"], _fixed(each)): each for each in _persons(events)}
    for auction in _auctions(events):
        person = persons.get((auction["seller"], _fixed(auction)))
        if person is not None:
            yield {"id": person["id"], "name": person["name"], "reserve": auction["reserve"]}, _fixed(auction)


def _winning_bids(events: list[Event]) -> _Results:
    for auction, bid in _winners(events):
        yield {"auction": _names(auction), "bid": _names(bid)}, auction["expires"] * _MILLI - 1


def _bids_of_sessions(events: list[Event]) -> _Results:
    last: dict[int, tuple[int, int]] = {}
    for bid in _bids(events):  # in order of time
        bidder, time = bid["bidder"], _time(bid)
        end, count = last.get(bidder, (time, 0))
        if time >= end and count:
            yield {"bidder_id": bidder, "bid_count": count}, end - 1
            count = 0
        last[bidder] = time + _SIZE, count + 1
    yield from (({"bidder_id": bidder, "bid_count": count}, end - 1) for bidder, (end, count) in last.items())


def _bids_of_bidders(events: list[Event]) -> _Results:
    counts = Counter(bid["bidder"] for bid in _bids(events))
    yield from (({"bidder_id": bidder, "bid_count": count}, _GLOBAL_END) for bidder, count in counts.items())


_BY_HAND: Final[dict[int, Callable[[list[Event]], _Results]]] = {
    0: _unchanged,
    1: _in_euros,
    2: _of_some_auctions,
    3: _local_sellers,
    4: _mean_prices,
    5: _hot_auctions,
    7: _highest_bids,
    8: _new_sellers,
    9: _winning_bids,
    11: _bids_of_sessions,
    12: _bids_of_bidders,
}
QUERIES: Final = tuple(_BY_HAND)
"""The queries that have an answer: the sixth fails on every runner, and the tenth writes files only."""

"""The story of the video sessions: sessions of each viewer, and over them, ad by ad, which ads are unpopular.

An ad is unpopular if it was watched for less than five seconds in most of the sessions that showed it. Viewers who were
offline upload late what they have watched; that may join two sessions into one, and the ads' counts must follow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.testing import TestStream
from tests.support.retractions.accounts import batch, elements_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

GAP = dm.Sessions("30 seconds")
DAYS = dm.FixedWindows("2 minutes")
"""Short days, so that sessions that join often move into another one."""
LONG = dm.duration("1000 days")
SHORT = 5

View = tuple[str, int]
"""Which ad, and for how many seconds."""


def seconds_by_ad(session: tuple[str, list[View]]) -> Iterator[tuple[str, int]]:
    """Give for each ad of a session 1 if it was watched for less than five seconds in all, else 0."""
    _, views = session
    watched: dict[str, int] = {}
    for ad, seconds in views:
        watched[ad] = watched.get(ad, 0) + seconds
    for ad in sorted(watched):
        yield ad, int(watched[ad] < SHORT)


def is_unpopular(share: tuple[str, float]) -> bool:
    return share[1] > 0.5


def sessions_strategy(trigger: dm.Trigger) -> dm.WindowInto:
    return dm.Window.into(GAP).trigger(trigger).allowed_lateness(LONG).accumulating_and_retracting()


def ads_strategy(trigger: dm.Trigger) -> dm.WindowInto:
    daily = dm.Window.into(DAYS).trigger(trigger).allowed_lateness(LONG).on_time("fire_if_non_empty")
    return daily.accumulating_and_retracting()


def story(p: dm.Pipeline, views: Any, first: dm.WindowInto, second: dm.WindowInto, name: str = "") -> None:
    """Add the whole pipeline behind views, with a sink behind each grouping and at the end."""
    sessions = views | f"{name}in sessions" >> first | f"{name}by viewer" >> dm.GroupByKey()
    _ = sessions | f"{name}sessions" >> dm.io.Collect()
    shown = sessions | f"{name}shown" >> dm.FlatMap(seconds_by_ad) | f"{name}daily" >> second
    shares = shown | f"{name}by ad" >> dm.Mean.per_key()
    _ = shares | f"{name}shares" >> dm.io.Collect()
    _ = shares | f"{name}unpopular only" >> dm.Filter(is_unpopular) | f"{name}unpopular" >> dm.io.Collect()


def shares_of(sessions: Iterable[tuple[tuple[str, list[View]], dm.EventTime]]) -> dict[tuple[Any, Any], float]:
    """Return by hand each ad's share of sessions that were short, for sessions and their event times."""
    shown = [(ad, short, at) for session, at in sessions for ad, short in seconds_by_ad(session)]
    return {(ad, day): sum(values) / len(values) for ad, day, values in batch(shown, DAYS)}


def sessions_of(script: TestStream) -> list[tuple[tuple[str, list[View]], dm.EventTime]]:
    """Return by hand the sessions of all that a script holds."""
    groups = batch(elements_of(script), GAP)
    return [((viewer, views), window.max_timestamp) for viewer, window, views in groups]


@st.composite
def uploads(draw: st.DrawFn, *, most: int = 14) -> TestStream:
    """Draw scripts of views: watermark, clock and viewers, some of whom upload minutes later what they have watched."""
    script, clock, watermark = TestStream(), 0, 0
    for _ in range(draw(st.integers(0, most))):
        match draw(st.sampled_from(["views", "views", "views", "offline", "watermark", "clock"])):
            case "watermark":
                watermark += draw(st.integers(1, 90))
                script = script.watermark(watermark)
            case "clock":
                clock += draw(st.integers(1, 20))
                script = script.processing_time(clock)
            case kind:
                back = 200 if kind == "offline" else 20
                bundle = [
                    (
                        (draw(st.sampled_from("AB")), draw(st.integers(0, 9))),
                        max(0, watermark + draw(st.integers(-back, 40))),
                    )
                    for _ in range(draw(st.integers(1, 3)))
                ]
                script = script.bundle(bundle, key=draw(st.sampled_from(["viewer 1", "viewer 2"])))
    return script

"""Checks of a topology: streams without a producer or without keys, and cycles."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from dataflow_model.errors import PlanError

if TYPE_CHECKING:
    from dataflow_model.transforms.topologies.topology import Added, Topology


def in_order(topology: Topology) -> list[Added]:
    """Return the computations in topological order.

    Raises:
        PlanError: for an empty topology, a stream that is read but never written, a stream without keys whose keys a
            subscriber needs, or a cycle.

    Example:
        >>> import dataflow_model as dm
        >>> topology = dm.Topology("echo")
        >>> topology.inject("words", dm.Create(["to", "be"]))
        >>> topology.sink("wrods", dm.io.Collect())
        >>> in_order(topology)
        Traceback (most recent call last):
        ...
        dataflow_model.errors.PlanError: 'wrods' reads the stream 'wrods', which nothing writes; the streams of
        'echo' are:
          'words': written by 'Inject.words', read by nothing
          'wrods': written by nothing, read by 'wrods'
        Hint: did you mean 'words'?
    """
    if not topology.injected:
        raise PlanError(
            f"the topology {topology.name!r} has no injector", hint="add one with topology.inject(stream, source)"
        )
    made, taken = makers(topology), takers(topology)
    for stream, by in taken.items():
        if stream not in made:
            close = difflib.get_close_matches(stream, made, n=1)
            hint = (
                f"did you mean {close[0]!r}?"
                if close
                else f"use topology.inject({stream!r}, …) or produces=[{stream!r}]"
            )
            problem = f"{by[0]!r} reads the stream {stream!r}, which nothing writes"
            raise PlanError(f"{problem}; {picture(topology)}", hint=hint)
    _check_keys(topology)
    order: list[Added]
    waiting, order = list(topology.added), []
    unmade = {stream: {added.label for added in topology.added if stream in added.produces} for stream in made}
    while waiting:
        ready = [added for added in waiting if not any(unmade[stream] for stream in added.subscribes)]
        if not ready:
            raise PlanError(
                f"the streams form a cycle: {_cycle(waiting)}; {picture(topology)}",
                hint="combine computations that exchange records into one, or write a stream to a sink and inject "
                "it again",
            )
        for added in ready:
            waiting.remove(added)
            order.append(added)
            for left in unmade.values():
                left.discard(added.label)
    return order


def produced_streams(topology: Topology) -> frozenset[str]:
    """Return the streams that some computation produces; their records have keys."""
    return frozenset(stream for added in topology.added for stream in added.produces)


def picture(topology: Topology) -> str:
    """Describe all streams in words: which parts write and which read each of them."""
    made, taken = makers(topology), takers(topology)
    lines = [
        f"  {stream!r}: written by {_listed(made.get(stream, []))}, read by {_listed(taken.get(stream, []))}"
        for stream in dict.fromkeys((*made, *taken))
    ]
    return "\n".join([f"the streams of {topology.name!r} are:", *lines])


def makers(topology: Topology) -> dict[str, list[str]]:
    """Return the labels of the parts that write each stream."""
    made: dict[str, list[str]] = {}
    for injected in topology.injected:
        made.setdefault(injected.stream, []).append(injected.label)
    for added in topology.added:
        for stream in added.produces:
            made.setdefault(stream, []).append(added.label)
    return made


def takers(topology: Topology) -> dict[str, list[str]]:
    """Return the labels of the parts that read each stream."""
    taken: dict[str, list[str]] = {}
    for added in topology.added:
        for stream in added.subscribes:
            taken.setdefault(stream, []).append(added.label)
    for sunk in topology.sunk:
        taken.setdefault(sunk.stream, []).append(sunk.label)
    return taken


def _check_keys(topology: Topology) -> None:
    for added in topology.added:
        for injected in topology.injected:
            if injected.stream in added.subscribes and added.subscribes[injected.stream] is None:
                raise PlanError(
                    f"{added.label!r} reads the stream {injected.stream!r} by the keys of its records, but the "
                    f"records that {injected.label!r} injects have none; {picture(topology)}",
                    hint=f"pass a key extractor: subscribe={{{injected.stream!r}: lambda value: …}}",
                )


def _cycle(waiting: list[Added]) -> str:
    """Return one cycle among computations that all wait for each other, as `a -x-> b -y-> a`."""
    path: list[tuple[Added, str]] = []  # each with the stream that it waits for
    current = waiting[0]
    while all(current is not before for before, _ in path):
        stream, maker = next(
            (stream, other) for stream in current.subscribes for other in waiting if stream in other.produces
        )
        path.append((current, stream))
        current = maker
    start = next(index for index, (before, _) in enumerate(path) if before is current)
    steps = [f" -{stream}-> {taker.label}" for taker, stream in reversed(path[start:])]
    return current.label + "".join(steps)


def _listed(labels: list[str]) -> str:
    return ", ".join(map(repr, labels)) or "nothing"

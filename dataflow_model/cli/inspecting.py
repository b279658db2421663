"""`dataflow-model inspect`: look into a checkpoint, without starting or disturbing anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.cli.answer import Answer, add_command, aligned, import_from_here, natural
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP, Duration, format_instant

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from dataflow_model.cli.answer import Commands
    from dataflow_model.runners.operating.inspecting import Inspection

_MICROS: Final = 1_000_000
_SHOWN_ORIGINS: Final = 10


def add(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "inspect",
        _inspect,
        does="look into a checkpoint",
        example="dataflow-model inspect checkpoints/delays",
        description="Print how far the run in CHECKPOINT is: watermarks, how far each source has been read, state by "
        "stage, the largest keys, the graph, and the format. Nothing is started, changed or locked, so the run may be "
        "running. The keys of a stream on Spark can only be read with Spark, and are left out.",
    )
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="the directory")
    parser.add_argument(
        "--keys",
        type=natural,
        metavar="N",
        help="list the N largest keys of each transform, for which all state is read into memory (default: 5, if the "
        "state is at most 256 MiB)",
    )
    parser.add_argument(
        "--trust-checkpoint", action="store_true", help="read it even if other users may write to it: it contains code"
    )


def _inspect(options: argparse.Namespace) -> Answer:
    from dataflow_model.runners.operating.inspecting import inspect

    import_from_here()  # the state may contain instances of the user's classes
    found = inspect(options.checkpoint, keys=options.keys, trust_checkpoint=options.trust_checkpoint)
    return Answer(_facts(found), list(_lines(found)))


def _lag(found: Inspection, label: str) -> Duration | None:
    """Return how far a watermark was behind the clock after the last commit; `None` if that is unknown."""
    watermark = found.watermarks.get(label)
    if watermark is None or found.clock is None or watermark == MIN_TIMESTAMP:
        return None
    return Duration(micros=0 if watermark == MAX_TIMESTAMP else int(found.clock) - int(watermark))


def _facts(found: Inspection) -> dict[str, Any]:
    lags = {label: _lag(found, label) for label in found.watermarks}
    return {
        **attrs.asdict(found),
        "clock": None if found.clock is None else format_instant(int(found.clock)),
        "watermarks": {label: format_instant(int(at)) for label, at in found.watermarks.items()},
        "watermark_lag_seconds": {label: None if lag is None else int(lag) / _MICROS for label, lag in lags.items()},
    }


def _lines(found: Inspection) -> Iterator[str]:
    shards = "1 shard" if found.shards == 1 else f"{found.shards} shards"
    yield f"{found.checkpoint}: {found.runner}, format {found.format}, run {found.run_id}, {shards}"
    yield f"{found.state}{'' if found.process is None else f' in {found.process}'}, {_last(found)}"
    if found.drain_requested and found.state != "drained":
        yield "requested: drain"
    if found.signals:
        yield f"requested: {', '.join(f'signal {name!r}' for name in found.signals)}"
    if found.sources:
        yield "sources:"
        yield from aligned([_source(found, source.label) for source in found.sources])
        for source in found.sources:
            rows = [(f"{origin.name}", f"{origin.read:,} of {origin.listed:,} rows") for origin in source.open]
            yield from aligned(rows[:_SHOWN_ORIGINS], indent="    ")
            if len(rows) > _SHOWN_ORIGINS:
                yield f"    and {len(rows) - _SHOWN_ORIGINS:,} more"
    if found.transforms:
        yield "state:"
        yield from aligned([_transform(found, index) for index in range(len(found.transforms))])
    keys = [(f"{state.label}:", key.key, f"{key.bytes:,} bytes") for state in found.transforms for key in state.largest]
    if keys:
        yield "largest keys:"
        yield from aligned(keys)
    yield "graph:"
    yield from (f"  {label}: {line}" for label, line in found.graph.items())
    yield from (f"note: {note}" for note in found.notes)


def _last(found: Inspection) -> str:
    if found.micro_batch is None:
        return "no micro-batch has been committed"
    clock = "" if found.clock is None else f", clock {format_instant(int(found.clock))}"
    return f"last committed micro-batch {found.micro_batch}{clock}"


def _source(found: Inspection, label: str) -> tuple[str, ...]:
    [source] = [source for source in found.sources if source.label == label]
    read = f"{source.rows:,} rows read, {source.behind:,} behind"
    return f"{label}:", read, f"{source.done:,} origins done, {len(source.open):,} open", _watermark(found, label)


def _transform(found: Inspection, index: int) -> tuple[str, ...]:
    state = found.transforms[index]
    size = f"{state.entries:,} keys, {state.bytes:,} bytes"
    return f"{state.label}:", f"stage {state.stage}", size, _watermark(found, state.label)


def _watermark(found: Inspection, label: str) -> str:
    watermark, lag = found.watermarks.get(label), _lag(found, label)
    if watermark is None:
        return ""
    behind = "" if lag is None or watermark == MAX_TIMESTAMP else f", lag {int(lag) / _MICROS:,.1f} s"
    return f"watermark {format_instant(int(watermark))}{behind}"

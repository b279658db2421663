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
    inspection = inspect(options.checkpoint, keys=options.keys, trust_checkpoint=options.trust_checkpoint)
    return Answer(_facts(inspection), list(_lines(inspection)))


def _lag(inspection: Inspection, label: str) -> Duration | None:
    """Return how far a watermark was behind the clock after the last commit; `None` if that is unknown."""
    watermark = inspection.watermarks.get(label)
    if watermark is None or inspection.clock is None or watermark == MIN_TIMESTAMP:
        return None
    return Duration(micros=0 if watermark == MAX_TIMESTAMP else int(inspection.clock) - int(watermark))


def _facts(inspection: Inspection) -> dict[str, Any]:
    lags = {label: _lag(inspection, label) for label in inspection.watermarks}
    return {
        **attrs.asdict(inspection),
        "clock": None if inspection.clock is None else format_instant(int(inspection.clock)),
        "watermarks": {label: format_instant(int(at)) for label, at in inspection.watermarks.items()},
        "watermark_lag_seconds": {label: None if lag is None else int(lag) / _MICROS for label, lag in lags.items()},
    }


def _lines(inspection: Inspection) -> Iterator[str]:
    shards = "1 shard" if inspection.shards == 1 else f"{inspection.shards} shards"
    yield f"{inspection.checkpoint}: {inspection.runner}, format {inspection.format}, run {inspection.run_id}, {shards}"
    yield f"{inspection.state}{'' if inspection.process is None else f' in {inspection.process}'}, {_last(inspection)}"
    if inspection.drain_requested and inspection.state != "drained":
        yield "requested: drain"
    if inspection.signals:
        yield f"requested: {', '.join(f'signal {name!r}' for name in inspection.signals)}"
    if inspection.sources:
        yield "sources:"
        yield from aligned([_source(inspection, source.label) for source in inspection.sources])
        for source in inspection.sources:
            rows = [(f"{origin.name}", f"{origin.read:,} of {origin.listed:,} rows") for origin in source.open]
            yield from aligned(rows[:_SHOWN_ORIGINS], indent="    ")
            if len(rows) > _SHOWN_ORIGINS:
                yield f"    and {len(rows) - _SHOWN_ORIGINS:,} more"
    if inspection.transforms:
        yield "state:"
        yield from aligned([_transform(inspection, index) for index in range(len(inspection.transforms))])
    keys = [
        (f"{state.label}:", key.key, f"{key.bytes:,} bytes") for state in inspection.transforms for key in state.largest
    ]
    if keys:
        yield "largest keys:"
        yield from aligned(keys)
    yield "graph:"
    yield from (f"  {label}: {line}" for label, line in inspection.graph.items())
    yield from (f"note: {note}" for note in inspection.notes)


def _last(inspection: Inspection) -> str:
    if inspection.micro_batch is None:
        return "no micro-batch has been committed"
    clock = "" if inspection.clock is None else f", clock {format_instant(int(inspection.clock))}"
    return f"last committed micro-batch {inspection.micro_batch}{clock}"


def _source(inspection: Inspection, label: str) -> tuple[str, ...]:
    [source] = [source for source in inspection.sources if source.label == label]
    read = f"{source.rows:,} rows read, {source.behind:,} behind"
    return f"{label}:", read, f"{source.done:,} origins done, {len(source.open):,} open", _watermark(inspection, label)


def _transform(inspection: Inspection, index: int) -> tuple[str, ...]:
    state = inspection.transforms[index]
    size = f"{state.entries:,} keys, {state.bytes:,} bytes"
    return f"{state.label}:", f"stage {state.stage}", size, _watermark(inspection, state.label)


def _watermark(inspection: Inspection, label: str) -> str:
    watermark, lag = inspection.watermarks.get(label), _lag(inspection, label)
    if watermark is None:
        return ""
    behind = "" if lag is None or watermark == MAX_TIMESTAMP else f", lag {int(lag) / _MICROS:,.1f} s"
    return f"watermark {format_instant(int(watermark))}{behind}"

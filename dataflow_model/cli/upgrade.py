"""`dataflow-model upgrade`: carry the state of a stopped run over to a changed pipeline."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import TYPE_CHECKING

from dataflow_model.cli.answer import Answer, WrongUsage, add_command, import_from_here
from dataflow_model.errors import UnsupportedOnRunner
from dataflow_model.time import format_instant

if TYPE_CHECKING:
    from dataflow_model.cli.answer import Commands
    from dataflow_model.runners.sharded.upgrade.carrying import Upgraded


def add(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "upgrade",
        _upgrade,
        does="carry a stopped run's state over to a changed pipeline",
        example="dataflow-model upgrade checkpoints/delays checkpoints/delays-2 --drop counts",
        description="Copy the state of a stopped streaming run from its checkpoint OLD to a new checkpoint NEW. Then "
        "start the changed pipeline with checkpoint=NEW: transforms with the same name and definition continue where "
        "they stopped. OLD is not modified.",
    )
    parser.add_argument("old", metavar="OLD", help="the checkpoint of the stopped run")
    parser.add_argument("new", metavar="NEW", help="the new checkpoint, a directory that does not exist yet")
    parser.add_argument(
        "--drop", action="append", default=[], metavar="LABEL", help="discard this transform's state; may be repeated"
    )
    parser.add_argument(
        "--rename",
        action="append",
        default=[],
        type=_labels,
        metavar="OLD=NEW",
        help="this transform, or all transforms in this composite one, have another label now; may be repeated",
    )
    parser.add_argument(
        "--watermark",
        action="append",
        default=[],
        type=_label_and_instant,
        metavar="LABEL=INSTANT",
        help="move this source's watermark back, such as rows=2013-01-01T12:00Z; may be repeated",
    )
    parser.add_argument(
        "--trust-checkpoint", action="store_true", help="read OLD even if other users may write to it: it contains code"
    )


def _label_and_instant(text: str) -> tuple[str, str]:
    """Split the value of an option; a label may contain the sign too."""
    label, sign, instant = text.rpartition("=")
    if not (label and sign and instant):
        raise argparse.ArgumentTypeError(f"expected LABEL=INSTANT, such as rows=2013-01-01T12:00Z, got {text!r}")
    return label, instant


def _labels(text: str) -> tuple[str, str]:
    """Split the value of an option at its only equals sign."""
    old, sign, new = text.partition("=")
    if not (old and sign and new) or "=" in new:
        raise argparse.ArgumentTypeError(
            f"expected OLD=NEW, such as sums=totals, got {text!r}; for labels with an equals sign, call dm.upgrade"
        )
    return old, new


def _upgrade(options: argparse.Namespace) -> Answer:
    from dataflow_model.runners.operating.upgrading import needs_spark, upgrade
    from dataflow_model.runners.spark.deployment.installation import missing_for_spark

    if needs_spark(options.old) and (missing := missing_for_spark()) is not None:
        raise UnsupportedOnRunner(f"upgrade reads Spark's state: {missing.problem}", hint=missing.hint)
    twice = [old for old, count in Counter(old for old, _ in options.rename).items() if count > 1]
    if twice:
        raise WrongUsage(f"--rename gives {twice[0]!r} two labels", hint="give each transform one new label")
    import_from_here()  # what waits in the state may be of classes of the user's
    done = upgrade(
        options.old,
        options.new,
        drop=options.drop,
        rename=dict(options.rename),
        watermarks=dict(options.watermark),
        trust_checkpoint=options.trust_checkpoint,
    )
    watermarks = {label: format_instant(int(to)) for label, to in done.watermarks.items()}
    facts = {
        "checkpoint": options.new,
        "old": options.old,
        "micro_batch": done.batch,
        "rows": dict(done.rows),
        "keys": dict(done.keys),
        "buffered": dict(done.waiting),
        "dropped": list(done.dropped),
        "renamed": dict(done.renamed),
        "watermarks": watermarks,
    }
    return Answer(facts, _lines(done, watermarks, options.old, options.new))


def _lines(done: Upgraded, watermarks: dict[str, str], old: str, new: str) -> list[str]:
    lines = [
        f"{label}: {'starts from the beginning' if label in done.dropped else f'{rows:,} rows read'}"
        for label, rows in done.rows.items()
    ]
    for label, keys in done.keys.items():
        waiting = f", {done.waiting[label]:,} elements buffered" if done.waiting[label] else ""
        lines.append(f"{label}: {keys:,} keys{waiting}{'; discarded' if label in done.dropped else ''}")
    lines += [f"{new}: was {old}" for old, new in done.renamed.items()]
    lines += [f"{label}: the watermark goes back to {to}" for label, to in watermarks.items()]
    lines.append(f"{new} continues after micro-batch {done.batch} of {old}; start the pipeline with checkpoint={new!r}")
    return lines

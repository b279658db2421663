"""`dataflow-model upgrade`: carry the state of a stopped run over to a changed pipeline."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.cli.answer import Answer, WrongUsage, add_command, aligned, import_from_here
from dataflow_model.cli.program import check_options, find, pipeline_of
from dataflow_model.errors import UnsupportedOnRunner
from dataflow_model.time import format_instant

if TYPE_CHECKING:
    from dataflow_model.cli.answer import Commands
    from dataflow_model.runners.sharded.upgrade.carrying import Upgraded
    from dataflow_model.runners.sharded.upgrade.fates import Fate
    from dataflow_model.transforms.pipelines.pipeline import Pipeline


def add(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "upgrade",
        _upgrade,
        does="carry a stopped run's state over to a changed pipeline",
        example="dataflow-model upgrade checkpoints/delays --pipeline flights:delays\n"
        "dataflow-model upgrade checkpoints/delays checkpoints/delays-2 --pipeline flights:delays --drop counts",
        description="Copy the state of a stopped streaming run from its checkpoint OLD to a new checkpoint NEW. Then "
        "start the changed pipeline with checkpoint=NEW: transforms with the same name and definition continue where "
        "they stopped. OLD is not modified. With --pipeline, the command first says what becomes of the state of each "
        "transform, and copies nothing if some would be lost that --drop does not name; without NEW, it copies nothing "
        "and its exit status is 1 if some would be lost.",
    )
    parser.set_defaults(takes_rest=True)
    parser.add_argument("old", metavar="OLD", help="the checkpoint of the stopped run")
    parser.add_argument("new", metavar="NEW", nargs="?", help="the new checkpoint, a directory that does not exist yet")
    parser.add_argument(
        "--pipeline",
        metavar="MODULE:NAME",
        help="the pipeline that will continue, as for `run`; options for it follow after `--`",
    )
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

    twice = [old for old, count in Counter(old for old, _ in options.rename).items() if count > 1]
    if twice:
        raise WrongUsage(f"--rename gives {twice[0]!r} two labels", hint="give each transform one new label")
    if options.new is None and options.pipeline is None:
        raise WrongUsage("NEW or --pipeline is missing", hint="name the new checkpoint, or the pipeline to look ahead")
    pipeline = _pipeline(options)
    if needs_spark(options.old) and (missing := missing_for_spark()) is not None:
        raise UnsupportedOnRunner(f"upgrade reads Spark's state: {missing.problem}", hint=missing.hint)
    import_from_here()  # what waits in the state may be of classes of the user's
    done = upgrade(
        options.old,
        options.new,
        pipeline=pipeline,
        drop=options.drop,
        rename=dict(options.rename),
        watermarks=dict(options.watermark),
        trust_checkpoint=options.trust_checkpoint,
    )
    watermarks = {label: format_instant(int(to)) for label, to in done.watermarks.items()}
    facts: dict[str, Any] = {
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
    if pipeline is not None:
        facts["transforms"] = [{**attrs.asdict(fate), "outcome": fate.outcome.value} for fate in done.fates]
        facts["would_lose_state"] = bool(done.command)
    return Answer(facts, _lines(done, watermarks, options.old, options.new), status=1 if done.command else 0)


def _pipeline(options: argparse.Namespace) -> Pipeline | None:
    """Return the pipeline that will continue; `None` if it was not named."""
    if options.pipeline is None:
        if options.rest:
            raise WrongUsage(
                "options after `--` are for the pipeline, got no --pipeline", hint="name it, or leave them"
            )
        return None
    from dataflow_model.runners.local import LocalRunner

    program = find(options.pipeline)
    check_options(program, options.rest)
    return pipeline_of(program, LocalRunner(), options.rest)


def _lines(done: Upgraded, watermarks: dict[str, str], old: str, new: str | None) -> list[str]:
    lines = aligned([_fate(fate) for fate in done.fates], indent="") if done.fates else _holdings(done)
    lines += [f"{label}: the watermark goes back to {to}" for label, to in watermarks.items()]
    if done.command:
        lines.append(f"nothing was copied; to go on without what needs --drop:\n  {done.command}")
    elif new is None:
        lines.append("nothing would be lost; nothing was copied, since no new checkpoint was named")
    else:
        end = f"start the pipeline with checkpoint={new!r}"
        lines.append(f"{new} continues after micro-batch {done.batch} of {old}; {end}")
    return lines


def _fate(fate: Fate) -> tuple[str, str, str]:
    """Return the cells of a line about a transform."""
    former = f" (was {fate.former})" if fate.former else ""
    says = [fate.change] if fate.change else []
    if fate.rows is not None:
        says.insert(0, f"{fate.rows:,} rows read")
    elif fate.outcome.value != "new":
        says.insert(0, fate.holds)
    return f"{fate.label}{former}:", fate.outcome.value, "; ".join(says)


def _holdings(done: Upgraded) -> list[str]:
    """Return a line about each source and each transform with state, if the new pipeline is not known."""
    lines = [
        f"{label}: {'starts from the beginning' if label in done.dropped else f'{rows:,} rows read'}"
        for label, rows in done.rows.items()
    ]
    for label, keys in done.keys.items():
        waiting = f", {done.waiting[label]:,} elements buffered" if done.waiting[label] else ""
        lines.append(f"{label}: {keys:,} keys{waiting}{'; discarded' if label in done.dropped else ''}")
    return [*lines, *(f"{renamed}: was {label}" for label, renamed in done.renamed.items())]

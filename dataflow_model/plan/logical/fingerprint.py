"""The fingerprint of a plan: everything that durable state depends on, as lines of text by label."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import attrs

from dataflow_model.plan.functions.dofn import BoundedLatenessFn
from dataflow_model.plan.logical.nodes import (
    AssignTimestamps,
    AssignWindows,
    Deduplicate,
    Flatten,
    GroupByKeyAndWindow,
    Node,
    ParDo,
    Read,
    Reshuffle,
    ToPairs,
    Write,
)
from dataflow_model.plan.logical.retracted import memoised, retracted_collections
from dataflow_model.time import duration_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dataflow_model.plan.endpoints.sources import Source
    from dataflow_model.plan.logical.graph import Plan

_GROUPING: Final = re.compile(r"(?:memoised )?grouping of (?P<input>.*?) with (?P<combine>.*) under (?P<windows>.*)")
_ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]+")
_SINK: Final = re.compile(r"^sink (\w+?)Sink of ")
_MODES: Final = {"clear_always": "discarding", "accumulate_always": "accumulating"}
_OF_A_GROUPING: Final = 3
"""How many parts the line of a grouping has at least: windows, trigger and mode."""
_ANY: Final = "…"
"""Replaces a node's inputs where they do not matter."""


def fingerprint(plan: Plan) -> dict[str, str]:
    """Return a line per transform: inputs, window function, trigger, modes and so on, but not function bodies.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> _ = p | dm.Create([("a", 1)]) | dm.Sum.per_key()
        >>> fingerprint(p.plan())["Sum.PerKey"][:77]
        'grouping of Create.main with Sum under GlobalWindows(), DefaultTrigger(), cle'
    """
    keeping = memoised(plan)
    return {
        node.label: ("memoised " if node.label in keeping else "") + _line(node, _reads(node)) for node in plan.nodes
    }


def definitions(plan: Plan) -> dict[str, str]:
    """Return what the state of each transform means regardless of its inputs: the fingerprint without edges.

    A grouping whose line is the same in another pipeline can continue with its state from there, and a source from its
    position, even if its watermark is estimated differently.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> _ = p | dm.Create([("a", 1)]) | dm.Sum.per_key()
        >>> definitions(p.plan())["Sum.PerKey"][:72]
        'grouping of … with Sum under GlobalWindows(), DefaultTrigger(), clear_al'
    """
    keeping, retracted = memoised(plan), retracted_collections(plan)
    lines = {}
    for node in plan.nodes:
        line = ("memoised " if node.label in keeping else "") + _line(node, _ANY)
        if isinstance(node, Read):
            line = (
                f"{type(node.source).__name__}, clock {node.source.processing_time or 'wall'}{_definition(node.source)}"
            )
        if isinstance(node, ParDo) and node.side_inputs:
            line += f" with {len(node.side_inputs)} side inputs"
        if isinstance(node, GroupByKeyAndWindow | ParDo) and node.input in retracted:
            line += ", of values that may be taken back"
        lines[node.label] = line
    return lines


def added_sources(before: Mapping[str, str], plan: Plan) -> frozenset[str]:
    """Return the labels of transforms that were added, or changed, only because a plan has more sources than before.

    These are new sources, new element-wise transforms and sinks that get input only from them, and `Flatten`s that have
    them as additional inputs. None of them affects existing state. Scripts and streaming DataFrames are excluded: all
    scripts of a plan form one sequence of steps, and Spark numbers its DataFrames itself.

    Args:
        before: the fingerprint of the earlier plan.
        plan: the plan.

    Example:
        >>> import dataflow_model as dm
        >>> def build(*names):
        ...     p = dm.Pipeline()
        ...     sources = tuple(p | name >> dm.Create([("a", 1)]) for name in names)
        ...     _ = sources | "all" >> dm.Flatten() | "sums" >> dm.Sum.per_key()
        ...     return p.plan()
        >>> sorted(added_sources(fingerprint(build("web")), build("web", "phones")))
        ['all', 'phones']
    """
    added: set[str] = set()
    keeping = memoised(plan)
    for node in plan.nodes:
        if node.label in before:
            if isinstance(node, Flatten):
                fresh = added - before.keys()
                rest = attrs.evolve(node, inputs=tuple(ref for ref in node.inputs if ref.label not in fresh))
                if len(rest.inputs) < len(node.inputs) and _line(rest, _reads(rest)) == before[node.label]:
                    added.add(node.label)
            continue
        match node:
            case Read():
                harmless = node.source.may_be_added
            case ParDo():
                harmless = not (node.is_stateful or node.side_inputs or node.label in keeping)
            case ToPairs() | AssignTimestamps() | AssignWindows() | Flatten() | Write():
                harmless = True
            case _:
                harmless = False
        if harmless and all(ref.label in added - before.keys() for ref in node.inputs):
            added.add(node.label)
    return frozenset(added)


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return how two fingerprints differ, a line for each label; of two groupings that are alike, only what differs.

    Example:
        >>> differences({"Sum": "grouping"}, {"Count": "grouping"})
        ["'Count' is new: grouping", "'Sum' is gone; it was: grouping"]
        >>> under = "grouping of hours.main with {} under FixedWindows('1 hour'), DefaultTrigger(), clear_always"
        >>> differences({"Mean.PerKey": under.format("Mean")}, {"Sum.PerKey": under.format("Sum")})
        ["'Sum.PerKey' takes the place of 'Mean.PerKey', which was: combiner Mean; it is: combiner Sum"]
    """
    gone = {label: line for label, line in before.items() if label not in after}
    replaced = {}
    for label, line in after.items():
        old = None if label in before else _alike(line, gone)
        if old is not None:
            replaced[label] = old, gone.pop(old)
    lines = [
        f"{label!r} takes the place of {old!r}, which {changed(line, after[label])}"
        if line != after[label]
        else f"{old!r} is called {label!r} now"
        for label, (old, line) in replaced.items()
    ]
    lines += [f"{label!r} is new: {line}" for label, line in after.items() if label not in {**before, **replaced}]
    lines += [f"{label!r} is gone; it was: {line}" for label, line in gone.items()]
    lines += [
        f"{label!r} {changed(before[label], line)}"
        for label, line in after.items()
        if label in before and before[label] != line
    ]
    return lines


def _alike(line: str, gone: Mapping[str, str]) -> str | None:
    """Return the label of the grouping that has most in common with a grouping, and more than half."""
    parts = _parts(line)
    if len(parts) < _OF_A_GROUPING:
        return None
    shared = {label: len({*parts} & {*_parts(other)}) for label, other in gone.items()}
    best = max(shared, key=shared.__getitem__, default=None)
    return None if best is None or 2 * shared[best] <= len(parts) else best


def changed(before: str, after: str) -> str:
    """Return how two lines of fingerprints differ: the parts that do, in the words of users.

    Example:
        >>> under = "grouping of hours.main with Sum under FixedWindows('{}'), DefaultTrigger(), clear_always"
        >>> changed(under.format("1 hour"), under.format("2 hours"))
        "was: windows FixedWindows('1 hour'); it is: windows FixedWindows('2 hours')"
    """
    was, now = _parts(before), _parts(after)
    old = [part for part in was if part not in now]
    new = [part for part in now if part not in was]
    return f"was: {', '.join(old) or 'the same without this'}; it is: {', '.join(new) or 'the same without this'}"


def stable_repr(value: object) -> str:
    """Return the `repr` of a value without addresses in memory, which differ at every start.

    Example:
        >>> class Shifts:
        ...     pass
        >>> stable_repr(Shifts()).rpartition(".")[2]
        'Shifts object>'
    """
    return _ADDRESS.sub("", repr(value))


def _parts(line: str) -> list[str]:
    """Return what a line says, part by part."""
    parts, depth, quote, start = [], 0, "", 0
    for index, sign in enumerate(line):
        if quote or sign in "'\"":
            quote = sign if not quote else "" if sign == quote else quote
        elif sign in "([{":
            depth += 1
        elif sign in ")]}":
            depth -= 1
        elif depth == 0 and line.startswith(", ", index):
            parts.append(line[start:index])
            start = index + 2
    parts.append(line[start:])
    grouping = _GROUPING.fullmatch(parts[0])
    if grouping is not None and len(parts) >= _OF_A_GROUPING:
        named = [f"input {grouping['input']}", f"combiner {grouping['combine']}", f"windows {grouping['windows']}"]
        mode, _, retracting = parts[2].partition(" ")
        parts = [*named, f"trigger {parts[1]}", f"{_MODES.get(mode, mode)} {retracting}".strip(), *parts[3:]]
    return [_SINK.sub(r"to \1 of ", part.replace(".main", "")) for part in parts]


def _reads(node: Node) -> str:
    return " and ".join(f"{ref.label}.{ref.tag}" for ref in node.inputs)


def _definition(of: Source | BoundedLatenessFn) -> str:
    return f", {of.definition()}".removesuffix(", ")


def _line(node: Node, reads: str) -> str:
    match node:
        case Read():
            source = node.source
            origins = f", {source.watermark_origins.describe()}".removesuffix(", ")
            return (
                f"source {type(source).__name__}, event time {source.event_time}, "
                f"clock {source.processing_time or 'wall'}, watermark {stable_repr(source.watermark)}"
                f"{origins}{_definition(source)}"
            )
        case GroupByKeyAndWindow():
            strategy = node.strategy
            return (
                f"grouping of {reads} with {node.combine.title()} under {stable_repr(strategy.window_fn)}, "
                f"{stable_repr(strategy.trigger)}, {strategy.accumulation_mode.value}"
                f"{' and retracting' if strategy.retracting else ''}, "
                f"lateness {duration_text(strategy.allowed_lateness)}, "
                f"on time {strategy.on_time.value}, closing {strategy.closing.value}, "
                f"late data {strategy.late_data.value if strategy.late_data else 'default'}, "
                f"timestamp {strategy.timestamp_combiner.value}"
            )
        case AssignWindows():
            window_fn = stable_repr(node.strategy.window_fn)
            return f"windows for {reads}: {window_fn}" if node.assigns else f"trigger for {reads}"
        case ParDo() if node.is_stateful:
            definition = _definition(node.fn) if isinstance(node.fn, BoundedLatenessFn) else ""
            return f"stateful ParDo of {reads} with {node.declaration.describe()}{definition}"
        case Deduplicate():
            return f"Deduplicate of {reads} for {duration_text(node.horizon)}"
        case ParDo() | ToPairs() | AssignTimestamps() | Flatten() | Reshuffle():
            return f"{type(node).__name__} of {reads}"
        case Write():
            return f"sink {type(node.sink).__name__} of {reads}"

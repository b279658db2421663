"""Measure this package against the hand-written alternatives: `python -m benchmarks [NAME…]`.

**What is compared.** Each comparison runs our side and the alternative in one session with the same settings, warm, by
turns, and takes medians; `agree` says whether both gave the same answer on the run before the timed ones, which wrote
Parquet. A ratio below its target is good.

**What is consumed.** Where no sink is named, the alternative writes to Spark's `noop` sink, which takes each row
inside the JVM and keeps none; ours goes to a sink that takes each bundle of records on the workers, by the interface
that users' sinks have, counts it and keeps none. With a Parquet sink both write files; ours the pane's index and
timing too. Spark's file source lists a sentinel file after the events, to close the last windows; ours ends the input
itself. Both read the same Parquet files, in the same micro-batches.

**What is in a time.** All of a run: planning, starting the query, the empty micro-batches at its end, the checkpoint.
Not in it: starting Spark (but for the memory comparison, where each side is a process of its own).

**In process.** The comparisons whose names begin with `local_`, and that with Beam, need no Spark: each side reads one
Parquet file and writes one, in this process. Those with early and late panes fail unless both kinds are common enough.

**Beam's runners.** Those whose names begin with `beam_` run one program of Beam's on our `LocalRunner` and on runners
of Beam's own, each run in a process of its own, after a run of few elements. Their figures are processor seconds of
all processes, theirs those of the fastest runner that gives our answer. Prism takes part if `python -m scripts.prism`
has built it.

**What has become worse.** With `--baseline FILE` the ratios are compared with those in the file, and the run fails if
one is worse by more than a quarter. `benchmarks/baseline.json` holds the ratios that changes must not lose; replace an
entry with the measured ratio once that is better.

`python -m benchmarks latency` measures how long a record takes instead, and `python -m benchmarks kafka` reading from
Kafka, and how long a message takes; see there.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Final

import attrs
from rich.console import Console
from rich.table import Table

from benchmarks import latency
from benchmarks.baseline import read_baseline, regressions
from benchmarks.cases import BENCHMARKS, ROWS
from benchmarks.harness import SIDES, Result, measure

_OPTIONAL: Final = frozenset({"ours_mib", "theirs_mib", "ours_once_mib", "theirs_once_mib", "early", "late", "peer"})
"""What is left out of the results of comparisons that do not have it."""
_RESULTS: Final = Path(__file__).resolve().parent / "results.json"


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmarks that are asked for.

    Return 1 if answers differ, if early or late panes are too rare, or if a ratio is worse than its baseline.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["latency"]:
        return latency.main(arguments[1:])
    if arguments[:1] == ["kafka"]:
        from benchmarks import kafka  # which needs the client of Kafka

        return kafka.main(arguments[1:])
    options = _parse(arguments)
    console = Console()
    if not console.is_terminal:
        console = Console(width=110)  # a log file has room for the table
    baseline = {} if options.baseline is None else read_baseline(options.baseline)
    results = []
    for name in options.names or baseline or BENCHMARKS:
        missing = BENCHMARKS[name].missing
        if missing is not None:
            console.print(f"{name}: left out, since {missing}")
            continue
        with console.status(f"{name}: {BENCHMARKS[name].what}"):
            result = measure(BENCHMARKS[name], options.rows, options.repeats, tuple(options.sides))
        results.append(result)
        if not console.is_terminal:
            console.print(f"{name}: {_times(result)}", highlight=False)
        if result.ours_once_mib is not None and result.theirs_once_mib is not None:
            once = f"ours {result.ours_once_mib:,.0f} MiB, theirs {result.theirs_once_mib:,.0f} MiB"
            console.print(f"{name}: {once}, with memory that processes share counted once", highlight=False)
    console.print(_table(results))
    output = options.output
    if output is None and options.rows == ROWS and len(options.sides) == len(SIDES):
        output = _RESULTS
    if output is None:
        console.print(
            "results.json is written only for all rows and both sides. To write these results, pass --output PATH."
        )
    else:
        _write(output, results)
    rare = [result for result in results if _has_too_few_panes(result)]
    for result in rare:
        shares = f"{result.early:.0%} of the panes are early and {result.late:.0%} late"
        console.print(f"{result.name}: {shares}; each must be over {BENCHMARKS[result.name].least_share:.0%}")
    worse = regressions(results, baseline)
    for line in worse:
        console.print(line, highlight=False)
    return int(bool(rare or worse) or any(result.agree is False for result in results))


def _has_too_few_panes(result: Result) -> bool:
    """Tell whether early or late panes are rarer than the comparison is about; few rows are too short for any."""
    benchmark = BENCHMARKS[result.name]
    if result.early is None or result.late is None or result.rows < int(ROWS * benchmark.scale):
        return False
    return min(result.early, result.late) <= benchmark.least_share


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"the benchmarks to run (default: all): {', '.join(BENCHMARKS)}"
    )
    parser.add_argument("--rows", type=int, default=ROWS, help="the number of events (default: %(default)s)")
    parser.add_argument(
        "--repeats",
        type=int,
        default=3,
        help="the number of timed runs of each side, three times as many for sides that take less than 0.3 s"
        " (default: %(default)s)",
    )
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES), help="run only these sides")
    parser.add_argument("--baseline", type=Path, help="a JSON file of ratios; fail if one is now worse by a quarter")
    parser.add_argument("--output", type=Path, help="the JSON file to write (default: benchmarks/results.json)")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"unknown benchmark {unknown[0]!r}; there are: {', '.join(BENCHMARKS)}")
    return options


def _write(output: Path, results: list[Result]) -> None:
    """Replace what was measured now; entries of other benchmarks stay."""
    old = json.loads(output.read_text()) if output.exists() else []
    entries = {entry["name"]: entry for entry in old}
    for result in results:
        fields = attrs.asdict(result)
        entries[result.name] = {
            name: field for name, field in fields.items() if field is not None or name not in _OPTIONAL
        }
    output.parent.mkdir(parents=True, exist_ok=True)
    ordered = [entries[name] for name in BENCHMARKS if name in entries]
    output.write_text(json.dumps(ordered, indent=2) + "\n")


def _table(results: list[Result]) -> Table:
    table = Table(title="Ours against the hand-written alternative")
    table.add_column("benchmark", no_wrap=True)
    for heading in ("rows", "ours", "theirs", "ratio", "target", "spread", "agree"):
        table.add_column(heading, justify="right")
    for result in results:
        met = result.ratio is not None and result.ratio <= result.target
        ratio = "" if result.ratio is None else f"[{'green' if met else 'red'}]{result.ratio:.2f}[/]"
        agree = "" if result.agree is None else "yes" if result.agree else "[red]NO[/]"
        table.add_row(
            result.name,
            f"{result.rows:,}",
            _side(result.ours_s, result.ours_mib),
            _side(result.theirs_s, result.theirs_mib),
            ratio,
            f"{result.target:g}",
            f"{result.spread:.0%}",
            agree,
        )
    return table


def _side(seconds: float | None, mib: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds:.2f} s" if mib is None else f"{mib:,.0f} MiB"


def _times(result: Result) -> str:
    ours, theirs = _side(result.ours_s, result.ours_mib), _side(result.theirs_s, result.theirs_mib)
    return f"ours {ours or '–'}, {result.peer or 'theirs'} {theirs or '–'}"


if __name__ == "__main__":
    sys.exit(main())

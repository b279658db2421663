"""Run Beam's own test modules, and those of libraries on Beam, on our runners; write what comes out into docs/beam.md.

    python -m scripts.beam                          # every suite on every host
    python -m scripts.beam local --suite trigger    # some of them

The table in docs/beam.md has for each suite and host how many tests passed, failed and were skipped, and how many ran a
pipeline on the host: a test without one says nothing about it. The list below it has each failure with its reason,
which is written by hand in tests/support/beam/known_failures.toml. A failure that is not in there fails the command,
and so does an entry for a test that passes. Failures on runners of Beam's own need no reason. One of these is Prism,
which `python -m scripts.prism` builds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, TypeAlias

from scripts import libraries, prism

REPOSITORY: Final = Path(__file__).resolve().parents[1]
PAGE: Final = REPOSITORY / "docs" / "beam.md"
KNOWN: Final = REPOSITORY / "tests" / "support" / "beam" / "known_failures.toml"
OUTCOMES: Final = REPOSITORY / "tests" / "support" / "beam" / "outcomes.json"
INSTEAD: Final = {
    "fn_runner": REPOSITORY / "tests" / "support" / "beam" / "portable_suite.py",
    "userstate": REPOSITORY / "tests" / "support" / "beam" / "state_suite.py",
}
"""Takes the place of a suite that names Beam's runner in process, or needs that functions run in the test's process."""
HOSTS: Final = {
    "local": "`LocalRunner`",
    "workers": "two workers",
    "stream": "stream in process",
    "spark": "Spark batch",
    "spark-stream": "Spark stream",
    "baseline": "Beam's `FnApiRunner`",
    "prism": "Beam's Prism",
}
OF_BEAM: Final = ("baseline", "prism")
"""The hosts that are runners of Beam's own."""
GROUPS: Final = {
    "every": ("local", "workers", "stream", "spark", "spark-stream"),
    "processes": ("workers", "spark", "spark-stream"),
}
"""Hosts for which a reason may be written once: ours, and those that run functions in other processes."""
SUITES: Final = {
    "fn_runner": "runners/portability/fn_api_runner/fn_runner_test.py",
    "test_stream": "testing/test_stream_test.py",
    "userstate": "transforms/userstate_test.py",
    "trigger": "transforms/trigger_test.py",
    "window": "transforms/window_test.py",
    "sideinputs": "transforms/sideinputs_test.py",
    "combiners": "transforms/combiners_test.py",
    "combinefn_lifecycle": "transforms/combinefn_lifecycle_test.py",
    "dofn_lifecycle": "transforms/dofn_lifecycle_test.py",
    "batch_dofn": "transforms/batch_dofn_test.py",
    "create": "transforms/create_test.py",
    "pipeline": "pipeline_test.py",
    "unbounded_source": "io/unbounded_source_test.py",
    "watch": "io/watch_test.py",
    "core": "transforms/core_test.py",
    "util": "transforms/util_test.py",
    "ptransform": "transforms/ptransform_test.py",
    "error_handling": "transforms/error_handling_test.py",
    "deduplicate": "transforms/deduplicate_test.py",
    "periodicsequence": "transforms/periodicsequence_test.py",
    "stats": "transforms/stats_test.py",
    "timestamped_value": "transforms/timestamped_value_type_test.py",
    "write": "transforms/write_ptransform_test.py",
    "keyword_only_args": "transforms/transforms_keyword_only_args_test.py",
    "external": "transforms/external_test.py",
    "async_dofn": "transforms/async_dofn_test.py",
    "typed_pipeline": "typehints/typed_pipeline_test.py",
    "pipeline_options": "options/pipeline_options_test.py",
    "metric": "metrics/metric_test.py",
    "testing_util": "testing/util_test.py",
    "synthetic": "testing/synthetic_pipeline_test.py",
    "textio": "io/textio_test.py",
    "fileio": "io/fileio_test.py",
    "parquetio": "io/parquetio_test.py",
    "avroio": "io/avroio_test.py",
    "tfrecordio": "io/tfrecordio_test.py",
    "filebasedsource": "io/filebasedsource_test.py",
    "filebasedsink": "io/filebasedsink_test.py",
    "concat_source": "io/concat_source_test.py",
    "dataframe_transforms": "dataframe/transforms_test.py",
    "dataframe_io": "dataframe/io_test.py",
    "dataframe_schemas": "dataframe/schemas_test.py",
    "yaml_transform": "yaml/yaml_transform_test.py",
    "yaml_mapping": "yaml/yaml_mapping_test.py",
    "yaml_combine": "yaml/yaml_combine_test.py",
    "yaml_join": "yaml/yaml_join_test.py",
    "yaml_udf": "yaml/yaml_udf_test.py",
    "yaml_main": "yaml/main_test.py",
    "inference": "ml/inference/base_test.py",
    "sklearn": "ml/inference/sklearn_inference_test.py",
    "examples": "examples/*_test.py",
    "complete": "examples/complete/*_test.py",
    "game": "examples/complete/game/*_test.py",
    "cookbook": "examples/cookbook/*_test.py",
    "xarray_beam": "xarray_beam/_src/*_test.py",
}
"""The modules of Beam's tests; those that need services of Google are left out of the ones with a `*`.

A suite with the name of a library has that library's tests.
"""
Kept: TypeAlias = dict[str, dict[str, Any]]
"""What is kept of the outcomes by suite and host; `None` where the host is absent."""
_BEGIN, _END = "<!-- outcomes of Beam's suites -->", "<!-- end of the outcomes -->"
_TIMEOUT: Final = 600
_TIMEOUT_ON_PRISM: Final = 60
"""After how many seconds a test counts as failed: one starts thirty streams, and on Prism some never end."""


def run(suite: str, host: str) -> list[dict[str, Any]]:
    """Return the outcome of each test of a suite on a host."""
    spec = find_spec("apache_beam")
    if spec is None or spec.origin is None:
        sys.exit(
            "needs Beam: pip install 'apache-beam[dataframe,yaml,tfrecord]' "
            "scikit-learn pyhamcrest parameterized tenacity mock"
        )
    library = libraries.installed(suite) if suite in libraries.LIBRARIES else None
    mode = "importlib" if library is None else "append"  # a library's modules look for each other in their packages
    root = Path(spec.origin).parent if library is None else library
    with tempfile.TemporaryDirectory() as folder:
        outcomes = Path(folder, "outcomes")
        command = [
            sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.support.beam.suite_plugin",
            "-W", "ignore", f"--timeout={_TIMEOUT_ON_PRISM if host == 'prism' else _TIMEOUT}",
            "--tb=native", "--hypothesis-seed=0",  # pytest's own form of a RecursionError can fail in Python 3.11
            "-c", os.devnull, f"--rootdir={folder}", f"--import-mode={mode}", *map(str, _paths(suite, root)),
        ]  # fmt: skip
        path = os.pathsep.join(map(str, filter(None, (REPOSITORY, library))))
        variables = {"BEAM_HOST": host, "BEAM_OUTCOMES": str(outcomes), "PYTHONPATH": path}
        done = subprocess.run(
            command, env=os.environ | variables, cwd=folder, capture_output=True, text=True, check=False
        )
        if not outcomes.exists() or done.returncode not in {0, 1}:  # 1 if tests failed, others if pytest did
            sys.exit(f"{suite} on {host} did not run to its end:\n{done.stdout}\n{done.stderr}")
        found = [json.loads(line) for line in outcomes.read_text(encoding="utf-8").splitlines()]
    if "*" in SUITES[suite]:
        found = [each | {"test": f"{each['module']}.{each['test']}"} for each in found]
    return found


def summary(outcomes: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what is kept of the outcomes of a suite on a host."""
    counts = Counter(each["outcome"] for each in outcomes)
    return {
        "passed": counts["passed"],
        "failed": counts["failed"],
        "skipped": counts["skipped"],
        "ran": sum(each["outcome"] == "passed" and each["ran"] > 0 for each in outcomes),
        "skips": {each["test"]: each["reason"] for each in outcomes if each["outcome"] == "skipped"},
        "failures": sorted(each["test"] for each in outcomes if each["outcome"] == "failed"),
    }


def unexplained(kept: Kept, known: dict[str, Any]) -> list[str]:
    """Return a line for each failure without a reason, and for each reason without a failure."""
    lines = []
    for suite, by_host in kept.items():
        for host, of_host in by_host.items():
            if host in OF_BEAM:
                continue
            reasons = _reasons(known, suite, host)
            lines += [f"{suite} on {host}: {test} fails" for test in of_host["failures"] if test not in reasons]
            other = {*of_host["failures"], *of_host["skips"]}
            lines += [f"{suite} on {host}: {test} passes" for test in reasons if test not in other]
    return lines


def table(kept: Kept, known: dict[str, Any]) -> str:
    """Return the table, and the failures with their reasons."""
    hosts = [host for host in HOSTS if any(host in by_host for by_host in kept.values())]
    lines = [f"| suite | {' | '.join(HOSTS[host] for host in hosts)} |", f"|---|{'---|' * len(hosts)}"]
    for suite in (suite for suite in SUITES if suite in kept):
        cells = [_cell(kept[suite][host]) if host in kept[suite] else "not run" for host in hosts]
        lines.append(f"| `{SUITES[suite]}` | {' | '.join(cells)} |")
    lines += ["", "| module | tests that fail | on | why |", "|---|---|---|---|"]
    for suite in (suite for suite in SUITES if suite in kept):
        on: dict[tuple[str, str], list[str]] = {}
        for host in (host for host in hosts if host in kept[suite]):
            failures = kept[suite][host]["failures"] if kept[suite][host] is not None else ()
            for test, reason in _reasons(known, suite, host).items():
                if test in failures:
                    on.setdefault((test, reason), []).append(HOSTS[host])
        alike: dict[tuple[str, str], list[str]] = {}
        for (test, reason), names in sorted(on.items()):
            alike.setdefault((", ".join(names), reason), []).append(f"`{test}`")
        lines += [f"| {suite} | {', '.join(tests)} | {names} | {reason} |" for (names, reason), tests in alike.items()]
    return "\n".join(lines)


def write(kept: Kept, known: dict[str, Any]) -> None:
    """Write the table into the page."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    PAGE.write_text(f"{before}{_BEGIN}\n\n{table(kept, known)}\n\n{_END}{after}", encoding="utf-8")


def _paths(suite: str, root: Path) -> list[Path]:
    if suite in INSTEAD:
        return [INSTEAD[suite]]
    return [path for path in sorted(root.glob(SUITES[suite])) if not path.name.endswith("_it_test.py")]


def _cell(of_host: dict[str, Any] | None) -> str:
    if of_host is None:
        return "absent"
    return f"{of_host['passed']} / {of_host['failed']} / {of_host['skipped']} ({of_host['ran']})"


def _reasons(known: dict[str, Any], suite: str, host: str) -> dict[str, str]:
    """Return why tests of a suite fail on a host: what is known of it, and of the groups that it belongs to."""
    of_suite = known.get(suite, {})
    groups = [group for group, hosts in GROUPS.items() if host in hosts]
    return {test: reason for group in (*groups, host) for test, reason in of_suite.get(group, {}).items()}


def main() -> None:
    """Run what the command line names, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("hosts", nargs="*", help=f"some of {', '.join(HOSTS)}; by default all of them")
    parser.add_argument("--suite", action="append", choices=SUITES, help="a suite; by default all of them")
    given = parser.parse_args()
    kept: Kept = json.loads(OUTCOMES.read_text(encoding="utf-8")) if OUTCOMES.exists() else {}
    for suite in given.suite or SUITES:
        for host in given.hosts or HOSTS:
            if host == "prism" and prism.built() is None:
                kept.setdefault(suite, {}).setdefault(host, None)  # what was kept of it stays
                print(f"{suite} on {host}: {_cell(None)}; python -m scripts.prism builds it")
                continue
            outcomes = run(suite, host)
            kept.setdefault(suite, {})[host] = summary(outcomes)
            print(f"{suite} on {host}: {_cell(kept[suite][host])}", flush=True)
            for each in outcomes:
                if each["outcome"] == "failed" and host not in OF_BEAM:
                    print(f"    {each['test']}: {each['reason'][:200]}")
            OUTCOMES.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    known = tomllib.loads(KNOWN.read_text(encoding="utf-8"))
    write(kept, known)
    problems = unexplained(kept, known)
    if problems:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()

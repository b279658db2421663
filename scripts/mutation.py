"""Mutation-test a trigger evaluator: change it in small ways, and see whether the tests notice.

    python scripts/mutation.py                   # all mutants of the core's evaluator: hours on one core
    python scripts/mutation.py reference         # those of the built-in triggers' classes
    python scripts/mutation.py --sample 300      # that many, drawn with --seed

Works on a copy of the checkout in a folder of its own (`--folder` keeps it, and goes on where it stopped). The core
runs as Python. The tests are those of the trigger tree, those that compare both evaluators in memory and with state
that is stored, and a few hundred fixed cases against the executable specification; none needs Java. Text of error
messages is not changed. Needs the package mutmut.

Prints the share of mutants killed and the survivors as diffs; fails under the share that `--least` asks for.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parent.parent
COMMON_TESTS = ["tests/triggers", "tests/laws/test_fixed_cases.py"]


class Subject(NamedTuple):
    """What is mutated.

    Attributes:
        package: the folder of the modules.
        modules: their names.
        tests: the tests that should notice.
    """

    package: str
    modules: list[str]
    tests: list[str]


SUBJECTS = {
    "core": Subject(
        "dataflow_model/runners/engine/core",
        ["evaluation", "tree_merging"],
        ["tests/engine/core/test_core.py", "tests/engine/core/test_durable.py", *COMMON_TESTS],
    ),
    "reference": Subject(
        "dataflow_model/triggers",
        [
            "composites",
            "counts",
            "delays",
            "elements",
            "evaluator",
            "event_context",
            "periods",
            "repetition",
            "signals",
            "watermark",
        ],
        COMMON_TESTS,
    ),
}
MARK = "ǁ"
"""What mutmut puts between a class and its method."""
LOG = "mutmut.log"
COPIED = ["dataflow_model", "tests", "docs", "data", "scripts", "pyproject.toml"]
MESSAGES = [r"raise \w+\(", "hint=", r"_misuse\("]
"""Lines that only say what is wrong."""
PROFILE = """
settings.register_profile("mutation", _CALM, max_examples=8, derandomize=True, database=None)
settings.load_profile("mutation")
"""
SURVIVED, UNTESTED = 0, 33
"""Of mutmut's exit codes; a mutant that hangs or crashes the interpreter is killed too."""


def main() -> int:
    """Copy, mutate, run, report."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--sample", type=int, help="the number of mutants to try (default: all)")
    parser.add_argument("--seed", type=int, default=1, help="the seed for drawing the sample (default: %(default)s)")
    parser.add_argument(
        "--least", type=float, default=95, help="the percentage of mutants that must be killed (default: %(default)s)"
    )
    parser.add_argument("--folder", type=Path, help="the folder for the copy (default: a temporary one)")
    parser.add_argument("--minutes", type=float, help="stop after this many minutes and report the results so far")
    parser.add_argument("subject", nargs="?", choices=SUBJECTS, default="core", help="(default: %(default)s)")
    given = parser.parse_args()
    if given.folder is not None:
        return mutate(given.folder, given)
    with tempfile.TemporaryDirectory() as folder:
        return mutate(Path(folder) / "copy", given)


def mutate(folder: Path, given: argparse.Namespace) -> int:
    """Run what has not been run yet, and report it all."""
    subject = SUBJECTS[given.subject]
    if not folder.exists():
        copy(folder, subject)
    if not results(folder, subject):
        mutmut(folder, ["none"])  # makes all mutants, and finds that none has this name
        if not results(folder, subject):
            sys.exit(f"mutmut failed; see {folder / LOG}")
    names = sorted(results(folder, subject))
    if given.sample is not None and given.sample < len(names):
        names = random.Random(given.seed).sample(names, given.sample)  # noqa: S311 - not for secrets
    waiting = [name for name in names if results(folder, subject)[name] is None]
    if waiting:
        mutmut(folder, waiting, given.minutes)
    codes = results(folder, subject)
    return report(folder, {name: codes[name] for name in names}, given.least)


def copy(folder: Path, subject: Subject) -> None:
    """Copy the checkout, with mutmut's settings and a profile of few examples in it."""
    folder.mkdir(parents=True)
    for name in COPIED:
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
        else:
            shutil.copy(source, folder / name)
    settings = {
        "source_paths": [subject.package],
        "only_mutate": [f"{subject.package}/{name}.py" for name in subject.modules],
        "also_copy": [name for name in COPIED if name not in {"tests", "pyproject.toml"}],
        "pytest_add_cli_args_test_selection": subject.tests,
        "pytest_add_cli_args": ["-p", "no:cacheprovider", "-m", "not slow and not spark"],
        "do_not_mutate_patterns": MESSAGES,
        "use_git_change_detection": False,
    }
    with (folder / "pyproject.toml").open("a", encoding="utf-8") as file:
        # Strings, lists of strings and flags: as JSON they are TOML.
        file.write("\n[tool.mutmut]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items()))
    with (folder / "tests/conftest.py").open("a", encoding="utf-8") as file:
        file.write(PROFILE)


def mutmut(folder: Path, names: list[str], minutes: float | None = None) -> None:
    """Run mutants by name."""
    tool = Path(sys.executable).parent / "mutmut"
    command = [str(tool), "run", "--max-children", "1", *names]
    seconds = None if minutes is None else minutes * 60
    environment = {**os.environ, "DATAFLOW_MODEL_COMPILED": "no"}
    with (folder / LOG).open("w", encoding="utf-8") as file, contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(command, cwd=folder, stdout=file, stderr=file, check=False, timeout=seconds, env=environment)


def results(folder: Path, subject: Subject) -> dict[str, int | None]:
    """Return the exit code of each mutant; `None` where it has not run."""
    codes: dict[str, int | None] = {}
    for path in sorted(folder.glob(f"mutants/{subject.package}/*.meta")):
        codes.update(json.loads(path.read_text(encoding="utf-8"))["exit_code_by_key"])
    return codes


def report(folder: Path, asked: dict[str, int | None], least: float) -> int:
    """Print the share killed, function by function, and what survived."""
    codes = {name: code for name, code in asked.items() if code is not None}
    killed = {name for name, code in codes.items() if code not in {SURVIVED, UNTESTED}}
    by_function = Counter(function_of(name) for name in codes)
    killed_by_function = Counter(function_of(name) for name in killed)
    for function, count in sorted(by_function.items()):
        print(f"{function:40}{killed_by_function[function]:5} of {count:5} killed")
    share = 100 * len(killed) / len(codes) if codes else 0
    print(f"{'all':40}{len(killed):5} of {len(codes):5} killed: {share:.1f} % (of {len(asked)} asked for)")
    for name in sorted(codes.keys() - killed):
        shown = [str(Path(sys.executable).parent / "mutmut"), "show", name]
        diff = subprocess.run(shown, cwd=folder, capture_output=True, text=True, check=False).stdout
        print(f"\n{name}{' (no test runs it)' if codes[name] == UNTESTED else ''}")
        print("\n".join(line for line in diff.splitlines() if line[:1] in set("-+") and line[:3] not in {"---", "+++"}))
    return 0 if share >= least else 1


def function_of(name: str) -> str:
    """Return the module, class and function of a mutant, from its name."""
    *_, module, function = name.partition("__mutmut_")[0].split(".")
    return f"{module}.{function.lstrip('x').strip(MARK + '_').replace(MARK, '.')}"


if __name__ == "__main__":
    sys.exit(main())

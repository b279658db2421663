"""What mypy and Pyright infer, both strict, for the collections of the documents.

The blocks of a page make up one module, as they do when they run, with a `reveal_type` behind each name that is given
a collection. Each checker runs once, over all of the modules.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.documents import blocks
from tests.support.settings import REPOSITORY

pytestmark = pytest.mark.slow

EXPECTED: dict[str, dict[str, str | list[str]]] = json.loads(
    Path(__file__).with_name("expected.json").read_text(encoding="utf-8")
)
"""By page and name: the type that both checkers reveal, or that of mypy and that of Pyright."""
MYPY, PYRIGHT = 0, 1
APPLIED = {"operator", "arg-type", "call-overload", "type-var", "misc"}
"""The rules of mypy that speak of how transforms are applied; others are about what pages leave unannotated."""
APPLIED_IN_PYRIGHT = {"reportOperatorIssue", "reportArgumentType", "reportCallIssue", "reportOptionalMemberAccess"}
WITH_ERRORS = {
    "docs/recipes/late_data.md": "calls a lambda, which has no types",
    "docs/state.md": "passes on what may be None",
    "docs/when.md": "assigns two types to one name",
}
"""Pages whose own code is not strict, and why."""
MODULE = re.compile(r"\b[a-z_]+\.(?=[A-Za-z_])")
NAMED_TUPLE = re.compile(r"tuple\[[^\[\]]*, fallback=(\w+)\]")

Revealed = dict[str, dict[str, str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages as modules."""
    folder = tmp_path_factory.mktemp("pages")
    for page in EXPECTED:
        (folder / module_of(page)).write_text(revealing(REPOSITORY / page), encoding="utf-8")
    return folder


def module_of(page: str) -> str:
    return page.removesuffix(".md").replace("/", "_") + ".py"


def is_strict(module: Path) -> bool:
    return module.name not in {module_of(page) for page in WITH_ERRORS}


def revealing(path: Path) -> str:
    """Return the code of a page, with what each collection that is given a name is, revealed behind it."""
    code = "\n".join(code for _, how, code in blocks(path) if ">>>" not in code and how != "spark")
    lines = code.splitlines()
    given = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Assign) and is_applied(node.value)]
    for node in sorted(given, key=lambda node: node.lineno, reverse=True):
        [target] = node.targets
        if isinstance(target, ast.Name) and target.id != "_" and node.end_lineno is not None:
            lines.insert(node.end_lineno, f"{' ' * node.col_offset}reveal_type({target.id})")
    return "\n".join(lines) + "\n"


def is_applied(value: ast.expr) -> bool:
    return isinstance(value, ast.BinOp) and isinstance(value.op, ast.BitOr)


def plain(revealed: str) -> str:
    """Return a type as users write it: without modules, and without mypy's mark of an undeclared literal."""
    return NAMED_TUPLE.sub(r"\1", MODULE.sub("", revealed)).replace("Literal[1]?", "int").replace("?", "")


def expected_of(checker: int) -> Revealed:
    return {
        page: {name: types if isinstance(types, str) else types[checker] for name, types in names.items()}
        for page, names in EXPECTED.items()
    }


def only_expected(revealed: dict[tuple[str, str], str]) -> Revealed:
    """Return what was revealed, as far as it is expected to be."""
    return {
        page: {name: revealed.get((module_of(page), name), "not revealed") for name in names}
        for page, names in EXPECTED.items()
    }


def name_on(module: Path, line: int) -> str:
    return module.read_text(encoding="utf-8").splitlines()[line - 1].strip().removeprefix("reveal_type(")[:-1]


def test_the_documents_have_enough_collections_with_inferred_types() -> None:
    assert sum(len(names) for names in EXPECTED.values()) >= 30


def test_mypy_infers_the_types_that_the_documents_state(folder: Path) -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--no-pretty", "--config-file="]
    done = subprocess.run(
        [*command, "--cache-dir", str(folder / ".cache"), *map(str, sorted(folder.glob("*.py")))],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    revealed: dict[tuple[str, str], str] = {}
    wrong = []
    for line in done.stdout.splitlines():
        match = re.fullmatch(r"(.+\.py):(\d+): (note|error): (.*)", line)
        if match is None or (folder / Path(match[1]).name).parent != folder:
            continue
        module = folder / Path(match[1]).name
        if match[4].startswith("Revealed type is "):
            revealed.setdefault((module.name, name_on(module, int(match[2]))), plain(match[4].split('"')[1]))
        elif is_strict(module) and any(match[4].endswith(f"[{rule}]") for rule in APPLIED):
            wrong.append(line)
    assert only_expected(revealed) == expected_of(MYPY), done.stdout + done.stderr
    assert not wrong


def test_pyright_infers_the_types_that_the_documents_state(folder: Path) -> None:
    pyright = Path(sys.executable).with_name("pyright")
    if not pyright.exists():
        pytest.skip("Pyright is not installed")
    settings = {"typeCheckingMode": "strict", "pythonVersion": "3.11", "extraPaths": [str(REPOSITORY)]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [str(pyright), "--outputjson", "--pythonpath", sys.executable, "--project", str(folder)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    revealed: dict[tuple[str, str], str] = {}
    wrong = []
    for diagnostic in json.loads(done.stdout)["generalDiagnostics"]:
        module = Path(diagnostic["file"])
        if match := re.fullmatch(r'Type of "(\w+)" is "(.*)"', diagnostic["message"]):
            revealed.setdefault((module.name, match[1]), plain(match[2]))
        elif is_strict(module) and diagnostic.get("rule") in APPLIED_IN_PYRIGHT:
            wrong.append(f"{module.name}:{diagnostic['range']['start']['line'] + 1}: {diagnostic['message']}")
    assert only_expected(revealed) == expected_of(PYRIGHT), done.stderr
    assert not wrong

"""The documents' code runs and their links lead somewhere.

A fenced ``python`` block runs after the blocks above it on the same page; ``python no-run`` marks one that is only
to be read, ``python spark`` one that uses the name ``spark``.
"""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(path for pattern in ("*.md", "docs/**/*.md", "data/*.md") for path in REPOSITORY.glob(pattern))
FENCE = re.compile(r"^```python(?P<how>[^\n]*)\n(?P<code>.*?)^```$", flags=re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")


def name_of(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


def blocks(path: Path) -> list[tuple[int, str, str]]:
    """Return line, marks and code of each block that is to run."""
    text = path.read_text(encoding="utf-8")
    found = [(text.count("\n", 0, m.start("code")), m["how"].strip(), m["code"]) for m in FENCE.finditer(text)]
    return [block for block in found if block[1] != "no-run"]


def run_document(path: Path, names: dict[str, object]) -> None:
    for line, _, code in blocks(path):
        if ">>>" in code:
            test = doctest.DocTestParser().get_doctest(code, names, name_of(path), str(path), line)
            runner = doctest.DebugRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
            runner.run(test, clear_globs=False)
            names.update(test.globs)
        else:
            # Blank lines first, so that a traceback names the line of the page.
            exec(compile("\n" * line + code, str(path), "exec"), names)


def needs_spark(path: Path) -> bool:
    return any(how == "spark" for _, how, _ in blocks(path))


@pytest.fixture
def folder_with_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in a folder that is thrown away, with the flights where a checkout has them."""
    (tmp_path / "data").symlink_to(REPOSITORY / "data")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("folder_with_data")
@pytest.mark.parametrize("path", [p for p in DOCUMENTS if blocks(p) and not needs_spark(p)], ids=name_of)
def test_the_code_of_a_document_runs(path: Path) -> None:
    run_document(path, {"__name__": "__main__"})


@pytest.mark.spark
@pytest.mark.usefixtures("folder_with_data")
@pytest.mark.parametrize("path", [p for p in DOCUMENTS if needs_spark(p)], ids=name_of)
def test_the_code_of_a_document_with_spark_runs(path: Path, request: pytest.FixtureRequest) -> None:
    run_document(path, {"__name__": "__main__", "spark": request.getfixturevalue("spark")})


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_the_links_of_a_document_lead_somewhere(path: Path) -> None:
    targets = LINK.findall(path.read_text(encoding="utf-8"))
    assert not [target for target in targets if not (path.parent / target).exists()]

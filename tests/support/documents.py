"""The code blocks of a document, and running them."""

from __future__ import annotations

import doctest
import re
from typing import TYPE_CHECKING

from tests.support.settings import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

FENCE = re.compile(r"^```python(?P<how>[^\n]*)\n(?P<code>.*?)^```$", flags=re.MULTILINE | re.DOTALL)


def name_of(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


def blocks(path: Path) -> list[tuple[int, str, str]]:
    """Return line, marks and code of each block that is to run."""
    text = path.read_text(encoding="utf-8")
    fences = [(text.count("\n", 0, m.start("code")), m["how"].strip(), m["code"]) for m in FENCE.finditer(text)]
    return [block for block in fences if block[1] != "no-run"]


def run_document(path: Path, names: dict[str, object], *, leave_out: str | None = None) -> None:
    """Run the blocks of a document one after the other, except those that are marked with `leave_out`."""
    for line, how, code in blocks(path):
        if how == leave_out:
            continue
        if ">>>" in code:
            test = doctest.DocTestParser().get_doctest(code, names, name_of(path), str(path), line)
            runner = doctest.DebugRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
            runner.run(test, clear_globs=False)
            names.update(test.globs)
        else:
            # Blank lines first, so that a traceback names the line of the page.
            exec(compile("\n" * line + code, str(path), "exec", dont_inherit=True), names)

"""The documents' code runs and their links lead somewhere.

A fenced ``python`` block runs after the blocks above it on the same page; ``python no-run`` marks one that is only
to be read, ``python spark`` one that uses the name ``spark``. The blocks of a page without those also run on their own,
so they must not need what those define.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.support.documents import blocks, name_of, run_document
from tests.support.settings import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

DOCUMENTS = sorted(path for pattern in ("*.md", "docs/**/*.md", "data/*.md") for path in REPOSITORY.glob(pattern))
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")


def needs_spark(path: Path) -> bool:
    return any(how == "spark" for _, how, _ in blocks(path))


@pytest.fixture
def folder_with_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in a folder that is thrown away, with the flights where a checkout has them."""
    (tmp_path / "data").symlink_to(REPOSITORY / "data")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("folder_with_data", "cases_of_the_profile")
@pytest.mark.parametrize("path", [p for p in DOCUMENTS if blocks(p)], ids=name_of)
def test_the_code_of_a_document_runs(path: Path) -> None:
    run_document(path, {"__name__": "__main__"}, leave_out="spark")


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.usefixtures("folder_with_data")
@pytest.mark.parametrize("path", [p for p in DOCUMENTS if needs_spark(p)], ids=name_of)
def test_the_code_of_a_document_with_spark_runs(path: Path, request: pytest.FixtureRequest) -> None:
    run_document(path, {"__name__": "__main__", "spark": request.getfixturevalue("spark")})


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_the_links_of_a_document_lead_somewhere(path: Path) -> None:
    targets = LINK.findall(path.read_text(encoding="utf-8"))
    assert not [target for target in targets if not (path.parent / target).exists()]

"""Every public name is on a page of the API reference, and every page of the site is reached from another."""

from __future__ import annotations

import importlib
import inspect
import re
import runpy
from typing import Final

import pytest

from dataflow_model.transforms.drawing.boxes import mermaid
from tests.support.settings import REPOSITORY

PACKAGES: Final = tuple(
    f"dataflow_model{name}" for name in ("", ".io", ".testing", ".metrics", ".figures", ".demo", ".runners.spark")
)
DOCS: Final = REPOSITORY / "docs"
DIRECTIVE: Final = re.compile(r"^\.\. currentmodule:: (?P<module>\S+)|^ {3}(?P<name>\w+)$", flags=re.MULTILINE)


def names_on_pages() -> dict[str, list[str]]:
    """Return the pages of the API reference that each full name is on."""
    pages: dict[str, list[str]] = {}
    for path in sorted((DOCS / "api").glob("*.rst")):
        if path.stem == "index":
            continue
        module = ""
        for line in DIRECTIVE.finditer(path.read_text(encoding="utf-8")):
            module = line["module"] or module
            if line["name"]:
                pages.setdefault(f"{module}.{line['name']}", []).append(path.stem)
    return pages


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_on_a_page_of_the_reference(package: str) -> None:
    module = importlib.import_module(package)
    pages = names_on_pages()
    public = {name for name in module.__all__ if name != "__version__" and not inspect.ismodule(getattr(module, name))}
    by_another_name = {name for name in public if f"dataflow_model.{name}" in pages}
    assert {name for name in public - by_another_name if f"{package}.{name}" not in pages} == set()


def test_every_name_on_a_page_of_the_reference_exists_and_is_on_no_other() -> None:
    pages = names_on_pages()
    assert not {name: places for name, places in pages.items() if len(places) > 1}
    for name in pages:
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute), f"{name} on the page {pages[name]} does not exist"


def test_every_page_is_in_a_table_of_contents() -> None:
    """Sphinx would say so too, but only where it is installed."""
    listed: set[str] = set()
    for path in (path for path in DOCS.rglob("*") if path.suffix in {".md", ".rst"} and "_" not in path.parts[-2][:1]):
        text = path.read_text(encoding="utf-8")
        for tree in re.findall(r"```\{toctree\}\n(.*?)```|\.\. toctree::\n((?:\n| {3}.*\n?)*)", text, flags=re.DOTALL):
            for line in "".join(tree).splitlines():
                entry = re.sub(r".*<(.+)>$", r"\1", line.strip())
                if entry and not entry.startswith(":"):
                    listed |= {
                        file.resolve().relative_to(DOCS).with_suffix("").as_posix()
                        for file in path.parent.glob(f"{entry}.*")
                    }
    folders = (DOCS, DOCS / "api", DOCS / "clusters", DOCS / "design", DOCS / "recipes")
    pages = {
        path.relative_to(DOCS).with_suffix("").as_posix()
        for folder in folders
        for path in folder.glob("*.*")
        if path.suffix in {".md", ".rst"}
    }
    assert pages - listed == {"index"}


@pytest.mark.parametrize("page", ["docs/computations.md", "dataflow_model/examples/zeitgeist/README.md"])
def test_a_flow_chart_on_a_page_is_a_picture_on_the_site(page: str) -> None:
    pytest.importorskip("sphinx")
    settings = runpy.run_path(str(DOCS / "conf.py"))
    (chart,) = re.findall(
        r"^```mermaid\n(.*?)^```", (REPOSITORY / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    boxes, lines = settings["graph_of"](chart)
    assert settings["graph_of"](mermaid(boxes, lines)) == (boxes, lines)
    assert len(lines) == chart.count("-->")
    assert settings["graph_of"](f"{chart}  style n0 fill:#fff") is None

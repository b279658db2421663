"""How Sphinx builds the site: `make docs` runs it over the pages of this folder.

The pages are Markdown and stand alone: each can be read in the repository, and its links lead from file to file there.
Two things are therefore done on the way to the site. Links to documents elsewhere in the repository are turned into
links to the pages that show them, and names of the package in code are linked to their place in the reference.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.errors import PycodeError
from sphinx.pycode import ModuleAnalyzer
from sphinx.transforms import SphinxTransform
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging

import dataflow_model
from dataflow_model.transforms.drawing.boxes import SHAPES, Box, Kind, Line, unquoted
from dataflow_model.transforms.drawing.svg import svg

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

DOCS = Path(__file__).parent
REPOSITORY = DOCS.parent

# ------------------------------------------------------------------------------------------------- Sphinx's settings

project = "dataflow_model"
author = "the dataflow_model authors"
version = release = dataflow_model.__version__
html_title = f"{project} {version}"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["_build", "_templates"]
templates_path = ["_templates"]
nitpicky = True
linkcheck_ignore = [r"http://127\.0\.0\.1.*"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4  # `page.md#a-heading`, as repositories show it

autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
toc_object_entries_show_parents = "hide"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 90
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_custom_sections = [("Warns", "Warns")]

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_sidebars: dict[str, list[str]] = {"index": [], "getting_started": [], "tutorial": []}  # no pages are below them
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/mark.svg"
html_search_scorer = str(DOCS / "_static" / "scorer.js")
html_show_sourcelink = False
html_copy_source = False
html_theme_options: dict[str, Any] = {
    "logo": {"text": project, "image_light": "_static/mark.svg", "image_dark": "_static/mark.svg"},
    "header_links_before_dropdown": 8,
    "navbar_align": "left",
    "navigation_depth": 3,
    "show_nav_level": 1,
    "show_toc_level": 2,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
copyright = "the dataflow_model authors, Apache-2.0"  # noqa: A001 - Sphinx's name

# ------------------------------------------------------------------------- documents elsewhere in the repository

ELSEWHERE = {
    "changelog": "CHANGELOG.md",
    "contributing": "CONTRIBUTING.md",
    "flights": "data/README.md",
    "readme": "README.md",
    "zeitgeist": "dataflow_model/examples/zeitgeist/README.md",
}
"""The pages whose text is another file of the repository; in this folder, each has only a link to it."""

_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)(?P<path>[^)#\s]+)")


def show_documents_elsewhere(_app: Sphinx, docname: str, source: list[str]) -> None:
    """Put the text of a document elsewhere into its page, and let links lead to pages of the site."""
    file = REPOSITORY / ELSEWHERE[docname] if docname in ELSEWHERE else DOCS / f"{docname}.md"
    if file.suffix != ".md" or not file.exists():
        return
    text = file.read_text(encoding="utf-8") if docname in ELSEWHERE else source[0]
    pages = {(REPOSITORY / document).resolve(): page for page, document in ELSEWHERE.items()}
    page_folder = (DOCS / docname).parent

    def to_page(link: re.Match[str]) -> str:
        target = (file.parent / link["path"]).resolve()
        if target in pages:
            target = DOCS / f"{pages[target]}.md"
        return Path(os.path.relpath(target, page_folder)).as_posix()

    source[0] = _LINK.sub(to_page, text)


# -------------------------------------------------------------------------------------- names of the package in code

_PACKAGES = ("dataflow_model", "dataflow_model.io", "dataflow_model.testing", "dataflow_model.metrics")
_NAME = re.compile(r"^(?:dm\.)?(?P<name>(?:(?:io|testing|metrics)\.)?[A-Za-z_]+)(?:\(.*\))?$", flags=re.DOTALL)

_ANOTHER = re.compile(r"\b(?:Beam|Flink|Spark|MillWheel|papers)\b[^.;,(]*$")


@functools.cache
def public_names() -> dict[str, str]:
    """Return the full public name of each class and function, by how texts write it: `Sum`, `io.Collect`."""
    names: dict[str, str] = {}
    for package in _PACKAGES:
        module = importlib.import_module(package)
        for name in module.__all__:
            if inspect.ismodule(getattr(module, name)):
                continue
            full = f"{package}.{name}"
            names[full.removeprefix("dataflow_model.")] = full
            names.setdefault(name, full)
    return names


@functools.cache
def public_name_of(full_name: str) -> str | None:
    """Return the public name of what an annotation calls by the module that defines it."""
    module, _, name = full_name.rpartition(".")
    public = public_names().get(name)
    if public is None or not (module == "" or module.startswith("dataflow_model")):
        return None
    return public


def _is_of_another(literal: nodes.literal) -> bool:
    """Return whether the sentence before a name says that it is a name in another system: "Beam's `FixedWindows`"."""
    before = literal.parent.astext()[: sum(len(node.astext()) for node in _before(literal))]
    return _ANOTHER.search(before) is not None


def _before(node: nodes.Node) -> list[nodes.Node]:
    return list(node.parent.children[: node.parent.index(node)])


class LinkNames(SphinxPostTransform):
    """Link inline code that is a public name, alone or with arguments, to its page of the reference."""

    default_priority = 5  # before references are resolved

    def run(self, **_kwargs: Any) -> None:
        """Wrap each such literal in a reference."""
        for literal in list(self.document.findall(nodes.literal)):
            if isinstance(literal.parent, nodes.reference | pending_xref | nodes.title) or _is_of_another(literal):
                continue
            match = _NAME.match(literal.astext())
            # A word such as `duration` is an ordinary argument: of functions, only `dm.duration(…)` is meant.
            if match is None or not (match["name"].split(".")[-1][:1].isupper() or literal.astext().startswith("dm.")):
                continue
            full = public_names().get(match["name"])
            if full is not None:
                reference = pending_xref(
                    "", refdomain="py", reftype="obj", reftarget=full, refdoc=self.env.docname, refexplicit=False
                )
                literal.replace_self(reference)
                reference += literal


_LONG: int = 24
"""Code of more letters than this is broken in a table; names stay whole."""


class BreakLongCode(SphinxPostTransform):
    """Mark long code in tables, which the style sheet then breaks, so that no column is pushed out of the page."""

    default_priority = 6

    def run(self, **_kwargs: Any) -> None:
        """Mark each such literal."""
        for entry in self.document.findall(nodes.entry):
            for literal in entry.findall(nodes.literal):
                if len(literal.astext()) > _LONG:
                    literal["classes"].append("long")


def resolve_by_public_name(
    _app: Sphinx, env: BuildEnvironment, node: pending_xref, contnode: nodes.TextElement
) -> nodes.Element | None:
    """Link a type of an annotation to where users find it; leave the types of others as they are."""
    if node.get("refdomain") != "py":
        return None
    public = public_name_of(node["reftarget"])
    if public is None or public == node["reftarget"]:
        return contnode
    reference = env.domains.python_domain.resolve_xref(env, node["refdoc"], _app.builder, "obj", public, node, contnode)
    return contnode if reference is None else reference


# ------------------------------------------------------------------------------------------- flow charts as pictures

_SHAPE = "|".join(f"{re.escape(left)}(?P<{kind.name}>.*?){re.escape(right)}" for kind, (left, right) in SHAPES.items())
_NODE = re.compile(rf" *(?P<name>\w+)(?:{_SHAPE})?")
_ARROW = re.compile(r' *(?:-- "(?P<stream>.*?)" )?-->')


class DrawFlowCharts(SphinxTransform):
    """Show a flow chart in Mermaid as the picture that `draw("svg")` makes of the same graph; no script is loaded."""

    default_priority = 400

    def apply(self, **_kwargs: Any) -> None:
        """Replace each block of Mermaid."""
        for block in list(self.document.findall(nodes.literal_block)):
            if block.get("language") != "mermaid":
                continue
            graph = graph_of(block.astext())
            if graph is None:
                logging.getLogger(__name__).warning(
                    "a block of Mermaid with more than the boxes and arrows that draw() writes", location=block
                )
            else:
                picture = f'<figure class="flow-chart">{svg("", *graph)}</figure>'
                block.replace_self(nodes.raw("", picture, format="html"))


def graph_of(text: str) -> tuple[list[Box], list[Line]] | None:
    """Return the boxes and lines of a flow chart that has nothing else; `None` for any other text."""
    head, *rows = text.strip().splitlines()
    boxes: dict[str, Box] = {}
    lines: list[Line] = []
    for row in rows:
        place, stream, start = 0, None, None
        while place < len(row):
            node = _NODE.match(row, place)
            if node is None:
                return None
            name = node["name"]
            boxes.setdefault(name, Box(name, Kind.COMPUTATION))
            for kind in SHAPES:
                if node[kind.name] is not None:
                    label, _, detail = node[kind.name].partition("<br/>")
                    boxes[name] = Box(unquoted(label), kind, unquoted(detail.replace("<br/>", "\n")))
            names = list(boxes)
            if start is not None:
                lines.append(Line(names.index(start), names.index(name), unquoted(stream or "")))
            arrow = _ARROW.match(row, node.end())
            if arrow is None:
                if row[node.end() :].strip():
                    return None
                break
            place, stream, start = arrow.end(), arrow["stream"], name
    return (list(boxes.values()), lines) if head == "flowchart LR" and boxes else None


# ------------------------------------------------------------------------------------------------------- docstrings

_CODE = re.compile(r"(?<![`\\])`([^`\n]+)`(?!`)(?P<suffix>\w)?")


def code_in_docstrings(_app: Sphinx, what: str, name: str, _object: object, _options: object, lines: list[str]) -> None:
    """Read docstrings as they are written: single backticks are code, and a constant's text stands below it."""
    if what == "data":
        lines[:] = _text_of_constant(name) or lines
    for index, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            lines[index] = _CODE.sub(
                lambda code: f"``{code[1]}``" + (f"\\ {code['suffix']}" if code["suffix"] else ""), line
            )


def _text_of_constant(name: str) -> list[str]:
    """Return the docstring of a constant, which is in the module that defines it."""
    package, _, constant = name.rpartition(".")
    for module in sorted(name for name in sys.modules if name.startswith(package.partition(".")[0] + ".")):
        try:
            documented = ModuleAnalyzer.for_module(module).find_attr_docs()
        except PycodeError:  # a module that was compiled has no source to read, and no constant of the public API
            continue
        if ("", constant) in documented:
            return documented["", constant]
    return []


def setup(app: Sphinx) -> None:
    """Connect what is above."""
    app.connect("source-read", show_documents_elsewhere)
    app.connect("missing-reference", resolve_by_public_name)
    app.connect("autodoc-process-docstring", code_in_docstrings)
    app.add_post_transform(LinkNames)
    app.add_post_transform(BreakLongCode)
    app.add_transform(DrawFlowCharts)

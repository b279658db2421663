"""Errors: the page that lists them is current, and each has a value, a rule and a way out."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

import pytest

from scripts.errors import CLASSES, DOCS, PACKAGE, pages, sites
from scripts.texts_of_code import nodes_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.xdist_group("source of the package")  # it is parsed once

OTHERS: Final = {
    "AssertionError": "a check of the user's fails, or a bug of this package",
    "AttributeError": "what Python expects of a name that is missing; `plan.names.spellings` adds the way out",
    "BadValueError": "the reason of a bad row",
    "Broken": "within `testing`, which reports it as an AssertionError",
    "ConnectionError": "after which the engine calls a source again, until it raises a SourceError",
    "Incomparable": "an InvalidType that the checks of `testing` do not report as a broken rule",
    "KafkaException": "an error of Kafka's client, which becomes a SinkError or a SourceError",
    "KeyError": "what Python expects of a column that is missing, or caught where the row type is known",
    "LookupError": "Beam has no word for a trigger or a window function, which `beam.windowings` catches",
    "LawBroken": "an AssertionError with the smallest input that breaks the law",
    "ModuleNotFoundError": "what Python expects; with `explain(…, hint=…)`",
    "NotImplementedError": "a method that a subclass must define",
    "OverflowError": "caught by the engine, which goes on with Python's numbers",
    "StoppedBySignal": "a KeyboardInterrupt, with which a signal ends a command",
    "SystemExit": "the end of a command",
    "TypeError": "part of the message of an error of ours, as those of pickle",
    "ValueError": "part of the message of an error of ours, or of a table that is wrong in this package",
    "WrongUsage": "an InvalidArgument with which a command ends with the status 2",
    "argparse.ArgumentTypeError": "becomes a message of the command line",
}
"""What may be raised that is no error of this package, and why."""
WITHOUT_VALUE: Final = {
    "a Polars DataFrame needs Polars, which is not installed": "a package is missing",
    "the `url` of WriteTable is not the URL of a database": "a URL may hold a password",
    "the `url` of WriteTable has more than one '@' before its database, so the end of the password would be read as "
    "the host": "a URL may hold a password",
    "the Spark session was stopped before the run ended": "there is one session",
    "the Spark session was stopped before the run started": "there is one session",
    "mode='batch' has no weak productions: a bounded job publishes once, at its end": "the value is in the message",
    "the pipeline has no runner": "it is missing",
    "the pipeline has no result, since it has not been run by leaving a `with` block": "it is missing",
    "a key may not be the float NaN, which is not equal to itself": "the value is in the message",
    "a key may not be the Decimal NaN, which is not equal to itself": "the value is in the message",
    "a key may not be NaT, which is not equal to itself": "the value is in the message",
}
"""Messages without a value of the user's, and why; beside those that say that they got none, or something empty."""


def raises(path: Path) -> Iterator[tuple[int, ast.expr]]:
    for node in nodes_of(path):
        if isinstance(node, ast.Raise) and node.exc is not None:
            yield node.lineno, node.exc


def makers() -> set[str]:
    """Return the functions and methods of the package that return an exception."""
    names = set()
    for path in PACKAGE.rglob("*.py"):
        for node in nodes_of(path):
            if isinstance(node, ast.FunctionDef) and node.returns is not None:
                kind = ast.unparse(node.returns).split(" | ")[0]
                if kind in {*CLASSES, *OTHERS, "DataflowError", "Exception", "BaseException"}:
                    names.add(node.name)
    return names


def test_the_pages_of_errors_are_up_to_date() -> None:
    written = {path: (DOCS / path).read_text(encoding="utf-8") for path in pages()}
    assert written == pages(), "run: python -m scripts.errors"
    assert {path.relative_to(DOCS).as_posix() for path in DOCS.glob("errors/*.md")} == set(pages()) - {"errors.md"}


def test_no_page_of_errors_is_too_long() -> None:
    assert max(map(len, pages().values())) < 25_000


def test_each_class_of_errors_is_raised_somewhere() -> None:
    assert {site.kind for site in sites()} == set(CLASSES)


def has_words(text: str) -> bool:
    """Return whether a text says anything by itself, without the values in it."""
    return any(sign.isalpha() for sign in text)


def test_each_error_names_the_way_out() -> None:
    # What a user's function has raised has the hint of that error, if it has one; the line and the element are shown.
    blind = [site for site in sites() if not has_words(site.hint) and site.kind != "UserCodeError"]
    assert [f"{site.path}:{site.line}: {site.message}" for site in blind] == []


def test_an_error_created_by_a_function_is_listed_where_the_function_is_called() -> None:
    refusals = [site for site in sites() if site.path.name == "requirements.py" and "input of the run" in site.message]
    assert [site.hint for site in refusals] == ["start the new pipeline with a new checkpoint"]


def test_each_error_shows_the_value() -> None:
    blind = [site for site in sites() if not site.shows_value and ", got " not in site.message]
    blind = [site for site in blind if site.message not in WITHOUT_VALUE]
    assert [f"{site.path}:{site.line}: {site.message}" for site in blind] == []


def test_every_raised_exception_is_an_error_of_this_package_or_on_a_list_of_exceptions() -> None:
    known = {*CLASSES, *OTHERS, *makers()}
    bare = {name.removeprefix("_") for name in known}
    unknown = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for line, raised in raises(path):
            if not isinstance(raised, ast.Call):
                continue  # raised again, or made before by one of the calls
            name = ast.unparse(raised.func)
            if name not in known and name.rpartition(".")[2].removeprefix("_") not in bare:
                unknown.append(f"{path}:{line}: {name}")
    assert unknown == []


def test_there_is_one_logger() -> None:
    calls = [
        (path.relative_to(PACKAGE).as_posix(), ast.unparse(node))
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("logging.")
    ]
    assert calls == [("errors.py", "logging.getLogger('dataflow_model')")]

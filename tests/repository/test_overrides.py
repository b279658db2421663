"""A method that overrides another one has documentation of its own, or inherits it: it does not repeat it."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import TYPE_CHECKING

import dataflow_model
from dataflow_model.overriding import override

if TYPE_CHECKING:
    from collections.abc import Iterator


class Base:
    def described(self) -> str:
        """Return a description."""
        return ""

    @property
    def name(self) -> str:
        """The name."""
        return ""


class Repeating(Base):
    def described(self) -> str:
        """Return a description."""
        return "repeating"

    @property
    def name(self) -> str:
        """The name."""
        return "repeating"


class Inheriting(Base):
    @override
    def described(self) -> str:
        return "inheriting"

    @property
    def name(self) -> str:
        """The name, in lower case."""
        return "inheriting"


def repeated_in(kind: type) -> list[str]:
    """Return the public methods of a class whose docstring is that of the method that they override."""
    return [name for name, member in vars(kind).items() if not name.startswith("_") and repeats(kind, name, member)]


def repeats(kind: type, name: str, member: object) -> bool:
    overridden = next((vars(base)[name] for base in kind.__mro__[1:] if name in vars(base)), None)
    return member is not overridden and own_doc(member) is not None and own_doc(member) == own_doc(overridden)


def own_doc(member: object) -> str | None:
    if isinstance(member, property):
        member = member.fget
    elif isinstance(member, staticmethod | classmethod):
        member = member.__func__
    return member.__doc__ if inspect.isfunction(member) else None


def classes() -> Iterator[type]:
    """Yield the classes of all modules, without those that need an extra which is not installed."""
    for found in pkgutil.walk_packages(dataflow_model.__path__, "dataflow_model."):
        if found.name.endswith("__main__"):
            continue
        try:
            module = importlib.import_module(found.name)
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("dataflow_model"):
                raise
            continue
        members = {member for member in vars(module).values() if inspect.isclass(member)}
        yield from (member for member in members if member.__module__ == found.name)


def test_no_method_of_the_package_repeats_the_docstring_of_the_method_that_it_overrides() -> None:
    repeated = [f"{kind.__module__}.{kind.__qualname__}.{name}" for kind in classes() for name in repeated_in(kind)]
    assert not repeated, f"remove these docstrings, and mark the methods with @override: {', '.join(repeated)}"


def test_a_repeated_docstring_is_noticed_and_one_that_is_inherited_is_not() -> None:
    assert repeated_in(Repeating) == ["described", "name"]
    assert repeated_in(Inheriting) == []
    assert inspect.getdoc(Inheriting.described) == "Return a description."

"""A module of a user's program whose classes change between two starts."""

from __future__ import annotations

import sys
import types
from typing import Any, Final

__all__ = ["KINDS", "MODULE", "define"]

MODULE: Final = "places_of_a_program"
_IMPORTS: Final = """
import dataclasses, enum, typing
import attrs
"""
KINDS: Final = {
    "NamedTuple": "class Place(typing.NamedTuple):",
    "frozen dataclass with slots": "@dataclasses.dataclass(frozen=True, slots=True)\nclass Place:",
    "frozen dataclass": "@dataclasses.dataclass(frozen=True)\nclass Place:",
    "dataclass with slots": "@dataclasses.dataclass(slots=True, unsafe_hash=True)\nclass Place:",
    "attrs.frozen": "@attrs.frozen\nclass Place:",
    "attrs.frozen with its hash": "@attrs.frozen(cache_hash=True)\nclass Place:",
    "attrs without slots": "@attrs.frozen(slots=False)\nclass Place:",
}
"""How a class of records begins."""


def define(kind: str, *fields: str) -> Any:
    """Define the class `Place` anew, and return the module.

    Args:
        kind: one of `KINDS`.
        fields: its fields, as they are written.
    """
    module = sys.modules[MODULE] = types.ModuleType(MODULE)
    exec(_IMPORTS + KINDS[kind] + "".join(f"\n    {field}" for field in fields), module.__dict__)
    return module

"""Pickles for other processes: what cannot be referred to by name is part of them, and an open file is rejected."""

from __future__ import annotations

import functools
import io
import sys
from typing import TYPE_CHECKING, Any

import pytest

from dataflow_model.values.pickles import dump, dump_by_value, load

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("pickled", [dump, dump_by_value])
def test_an_open_text_file_is_rejected_wherever_it_is(pickled: Any, tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("1\n2\n")
    with path.open() as file:
        for value in (file, {"rows": [file]}, file.readline):
            with pytest.raises(TypeError, match=r"cannot pickle the open file '.*lines\.txt'"):
                pickled(value)


def test_standard_streams_are_referred_to_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", sys.__stdout__)
    pickled = dump(sys.stdout)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert load(pickled) is sys.stdout


def test_a_cached_function_that_other_processes_cannot_import_is_pickled_by_value() -> None:
    calls: list[int] = []

    @functools.lru_cache(maxsize=3, typed=True)
    def double(number: int) -> int:
        calls.append(number)
        return number * 2

    copy = load(dump_by_value(double))
    assert copy is not double
    assert copy.cache_parameters() == {"maxsize": 3, "typed": True}
    assert [copy(2), copy(2)] == [4, 4]
    assert copy.cache_info().hits == 1


def test_a_cached_function_of_the_main_module_that_calls_itself_is_pickled_by_value() -> None:
    namespace: dict[str, Any] = {"functools": functools, "__name__": "__main__"}
    source = "@functools.cache\ndef fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\n"
    exec(source, namespace)
    assert load(dump_by_value(namespace["fib"]))(60) == 1_548_008_755_920


def test_a_cached_function_of_a_module_is_referred_to_by_name() -> None:
    assert load(dump_by_value(cached)) is cached
    assert load(dump_by_value(Cached.method)) is Cached.method


@functools.cache
def cached(number: int) -> int:
    return number


class Cached:
    @functools.lru_cache
    @staticmethod
    def method(number: int) -> int:
        return number

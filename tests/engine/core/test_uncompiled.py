"""The warning of a pipeline that runs without the compiled core."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import pytest

import dataflow_model as dm
from dataflow_model.runners.engine.core.build import CoreBuild
from dataflow_model.runners.engine.grouping import uncompiled

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def warned() -> Iterator[list[warnings.WarningMessage]]:
    """Return the warnings that are issued from now on, as if no pipeline had run in this process."""
    uncompiled.warn_if_uncompiled.cache_clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught
    uncompiled.warn_if_uncompiled.cache_clear()


def run_twice() -> None:
    for _ in range(2):
        p = dm.Pipeline(runner=dm.LocalRunner())
        _ = p | dm.Create([("a", 1), ("b", 2)]) | dm.Sum.per_key() | dm.io.Collect()
        p.run().wait_until_finish()


def test_two_pipelines_without_a_compiled_core_warn_once_and_name_the_way_out(
    warned: list[warnings.WarningMessage], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uncompiled, "build_of_core", lambda: CoreBuild.PYTHON)
    run_twice()
    (warning,) = warned
    assert warning.category is RuntimeWarning
    assert warning.filename == __file__
    problem, _, hint = str(warning.message).partition("\n")
    assert problem.endswith("about 30 times slower")
    assert hint.startswith("Hint: use a wheel, which needs no compiler; or get a C compiler")


def test_a_core_whose_source_has_changed_says_how_to_compile_it_again(
    warned: list[warnings.WarningMessage], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uncompiled, "build_of_core", lambda: CoreBuild.STALE)
    run_twice()
    (warning,) = warned
    assert "in a clone, run make set-up" in str(warning.message)


@pytest.mark.parametrize("build", [CoreBuild.COMPILED, CoreBuild.SWITCHED_OFF])
def test_no_warning_is_given_if_the_core_is_compiled_or_switched_off_on_purpose(
    warned: list[warnings.WarningMessage], monkeypatch: pytest.MonkeyPatch, build: CoreBuild
) -> None:
    monkeypatch.setattr(uncompiled, "build_of_core", lambda: build)
    run_twice()
    assert warned == []

"""The decimal context, NumPy's error state and context variables of a program, in its functions and combiners."""

from __future__ import annotations

import contextvars
import decimal
import subprocess
import sys
import textwrap
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import dataflow_model as dm
from tests.support.hosts import on_hosts, runner_on
from tests.support.pipelines import run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TENANT: contextvars.ContextVar[Any] = contextvars.ContextVar("tenant", default="nobody")
IN_PROCESS = on_hosts("local", "process", "workers")


@pytest.fixture(autouse=True)
def _apart() -> Iterator[None]:
    """Undo what a test sets."""
    token = TENANT.set("nobody")
    with decimal.localcontext(), np.errstate():
        yield
    TENANT.reset(token)


def collected(runner: Any, build: Any) -> list[Any]:
    result = run(runner, build, None)
    return [record.value for record in result.collected("out")]


def thirds(p: dm.Pipeline) -> None:
    one, two = decimal.Decimal(1), decimal.Decimal(2)
    pairs = p | dm.Create([("a", one), ("a", one), ("a", two)]) | dm.Map(lambda pair: (pair[0], pair[1] / 7))
    _ = pairs | dm.Mean.per_key() | "out" >> dm.io.Collect()


def means_of_columns(p: dm.Pipeline) -> None:
    amounts = pa.array([decimal.Decimal(1), decimal.Decimal(1), decimal.Decimal(2)], pa.decimal128(5, 2))
    rows = p | dm.io.ReadTable(pa.table({"key": ["a"] * 3, "amount": amounts}), event_time=None)
    _ = rows | dm.WithKeys("key", value="amount") | dm.Mean.per_key() | "out" >> dm.io.Collect()


def divided(p: dm.Pipeline) -> None:
    _ = (
        p
        | dm.Create([0.0])
        | "divide" >> dm.Map(lambda x: float(np.float64(1) / np.float64(x)))
        | "out" >> dm.io.Collect()
    )


def tenants(p: dm.Pipeline) -> None:
    _ = p | dm.Create([1]) | dm.Map(lambda _: TENANT.get()) | "out" >> dm.io.Collect()


@IN_PROCESS
def test_functions_and_combiners_compute_with_the_decimal_context_of_the_program(
    host: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    decimal.getcontext().prec = 50
    [(_, mean)] = collected(runner_on(host, request, tmp_path / "checkpoint"), thirds)
    assert mean == (decimal.Decimal(1) / 7 + decimal.Decimal(1) / 7 + decimal.Decimal(2) / 7) / 3
    assert len(mean.as_tuple().digits) == 50


@IN_PROCESS
def test_the_mean_of_a_column_of_decimals_has_the_precision_of_the_program(
    host: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    decimal.getcontext().prec = 50
    [(_, mean)] = collected(runner_on(host, request, tmp_path / "checkpoint"), means_of_columns)
    assert mean == decimal.Decimal(4) / 3


@IN_PROCESS
def test_functions_have_the_error_state_of_numpy_that_the_program_has(
    host: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    np.seterr(divide="ignore")
    assert collected(runner_on(host, request, tmp_path / "first"), divided) == [float("inf")]
    np.seterr(divide="raise")
    with pytest.raises(dm.UserCodeError, match=r"FloatingPointError(.|\n)*transform: 'divide'"):
        collected(runner_on(host, request, tmp_path / "second"), divided)


@IN_PROCESS
def test_functions_see_the_context_variables_of_the_program(
    host: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    TENANT.set("ann")
    assert collected(runner_on(host, request, tmp_path / "checkpoint"), tenants) == ["ann"]


def test_a_context_variable_that_cannot_be_pickled_has_its_default_in_a_worker(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    TENANT.set(threading.Lock())
    assert collected(dm.LocalRunner(workers=2), tenants) == ["nobody"]


def test_workers_see_a_context_variable_of_the_main_module(tmp_path: Path) -> None:
    program = """
        import contextvars
        import dataflow_model as dm

        class Tenant:
            name = "nobody"

        tenant, zone = contextvars.ContextVar("tenant", default=Tenant()), contextvars.ContextVar("zone")
        set_tenant = Tenant()
        set_tenant.name = "ann"
        tenant.set(set_tenant)

        def see(x):
            return tenant.get().name, isinstance(tenant.get(), Tenant), zone.get("no zone")

        with dm.Pipeline(runner=dm.LocalRunner(workers=2)) as p:
            _ = p | dm.Create([1]) | dm.Map(see) | "out" >> dm.io.Collect()
        print(*[record.value for record in p.result.collected("out")])
    """
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(program))
    ended = subprocess.run([sys.executable, path], check=False, capture_output=True, text=True, timeout=120)
    assert ended.stdout == "('ann', True, 'no zone')\n", ended.stderr


@IN_PROCESS
def test_what_a_function_sets_is_not_seen_by_the_program(
    host: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    def change(x: int) -> int:
        decimal.getcontext().prec = 5
        np.seterr(divide="raise")
        TENANT.set("bob")
        return x

    def build(p: dm.Pipeline) -> None:
        _ = p | dm.Create([1]) | dm.Map(change) | "out" >> dm.io.Collect()

    before = decimal.getcontext().prec, np.geterr(), TENANT.get()
    collected(runner_on(host, request, tmp_path / "checkpoint"), build)
    assert (decimal.getcontext().prec, np.geterr(), TENANT.get()) == before


def test_a_run_started_inside_of_a_function_has_counters_of_its_own() -> None:
    counted = dm.metrics.Counter("counted")

    def count(x: int) -> int:
        counted.inc()
        return x

    def nested(x: int) -> int:
        def build(p: dm.Pipeline) -> None:
            _ = p | dm.Create([x, x]) | "inner" >> dm.Map(count) | "out" >> dm.io.Collect()

        return len(collected(dm.LocalRunner(), build))

    def build(p: dm.Pipeline) -> None:
        _ = p | dm.Create([1]) | "outer" >> dm.Map(nested) | "out" >> dm.io.Collect()

    report = run(dm.LocalRunner(), build, None).report()
    assert "inner" not in report.transforms
    assert not report.transforms["outer"].counters

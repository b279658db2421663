"""The endpoint: what a scrape gives is what the report says."""

from __future__ import annotations

import sys
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

import dataflow_model as dm
from tests.support.metrics import counting

if TYPE_CHECKING:
    from dataflow_model.metrics import RunReport


def scrape(port: int) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.fixture
def result() -> Any:
    p = dm.Pipeline(runner=dm.LocalRunner())
    counting.build(p | dm.Create([("a", 1), ("b", 2), ("a", 4)]))
    running = p.run()
    running.wait_until_finish()
    return running


def test_a_scrape_returns_the_figures_of_the_report(result: Any) -> None:
    report: RunReport = result.report()
    with dm.metrics.serve(result, port=0) as server:
        samples = scrape(server.port)

    def of(name: str, /, **labels: str) -> float:
        return samples[f"dataflow_{name}", frozenset(labels.items())]

    assert of("elements_in_total", transform="map") == 3
    assert of("elements_out_total", transform="all") == 6
    assert of("panes_total", transform="sums", timing="on_time") == report.transforms["sums"].panes["on_time"] == 2
    assert of("watermark_timestamp_seconds", transform="sums") == float("inf")
    assert of("watermark_lag_seconds", transform="sums") == 0
    assert of("system_lag_seconds") == 0
    assert of("commits_total") == 1
    assert of("state_entries", transform="remember") == 0
    assert of("state_calls_total", stage="1") == 0
    assert of("cache_total", stage="1", how="fresh") == 0
    assert of("bundle_size_count", transform="map") == 1
    assert of("bundle_size_sum", transform="map") == 3
    assert of("bundle_size_max", transform="map") == 3
    assert of("user_counter_total", transform="map", name="seen") == 3
    assert of("user_gauge", transform="map", name="last") == 7
    assert of("user_distribution_sum", transform="map", name="sizes") == 7
    assert of("user_distribution_min", transform="map", name="sizes") == 1
    names = {name for name, _ in samples}
    assert all(name.startswith("dataflow_") for name in names)


def test_a_label_may_contain_any_characters() -> None:
    label = 'back\\slash, "quote" and\nline – ü'
    p = dm.Pipeline(runner=dm.LocalRunner())
    _ = p | label >> dm.Create([1]) | dm.io.Collect()
    running = p.run()
    running.wait_until_finish()
    with dm.metrics.serve(running, port=0) as server:
        samples = scrape(server.port)
    assert samples["dataflow_elements_out_total", frozenset({("transform", label)})] == 1


def test_the_port_is_free_again_once_it_is_closed(result: Any) -> None:
    first = dm.metrics.serve(result, port=0)
    first.close()
    with dm.metrics.serve(result, port=first.port) as second:
        assert second.port == first.port
        assert scrape(second.port)


@pytest.mark.parametrize("port", [-1, 65_536, True, "9464"])
def test_a_wrong_port_is_refused(result: Any, port: int) -> None:
    with pytest.raises(dm.InvalidArgument, match=r"`port` must be from 0 to 65535, got .*\nHint: 0 takes"):
        dm.metrics.serve(result, port=port)


def test_a_missing_prometheus_client_is_reported_with_the_extra(result: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(
        ModuleNotFoundError, match=r"prometheus-client, .*\nHint: run pip install 'dataflow-model\[prom"
    ):
        dm.metrics.serve(result, port=0)

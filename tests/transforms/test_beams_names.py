"""Each public name of Beam is here, or is missing with a hint; so is each import of one, and each argument."""

from __future__ import annotations

import importlib
import subprocess
import sys
from typing import Any

import pytest

import dataflow_model as dm
from tests.support.beam_names import BEAMS_CLASSES, BEAMS_MODULES

OUR_MODULES = {
    "beam.io": "dataflow_model.io",
    "beam.metrics": "dataflow_model.metrics",
    "beam.runners": "dataflow_model.runners",
    "beam.testing.test_pipeline": "dataflow_model.testing",
    "beam.testing.test_stream": "dataflow_model.testing",
    "beam.testing.util": "dataflow_model.testing",
    "beam.transforms": "dataflow_model.transforms",
}
"""Where programs look first for what a module of Beam has; for all others, in the package itself."""

ANY: Any = dm
"""The package, of which type checkers do not know what calls take."""
NUMBERS: Any = dm.Pipeline() | dm.Create([1])
OBJECTS: dict[str, Any] = {
    "ApproximateQuantiles": dm.ApproximateQuantiles, "ApproximateUnique": dm.ApproximateUnique,
    "CombineFn": dm.CombineFn, "CombineGlobally": dm.CombineGlobally(sum), "Count": dm.Count, "DoFn": dm.DoFn,
    "GroupBy": dm.GroupBy("key"), "GroupIntoBatches": dm.GroupIntoBatches, "IntervalWindow": dm.IntervalWindow(0, 1),
    "Latest": dm.Latest, "Mean": dm.Mean, "PCollection": NUMBERS, "ParDo": dm.ParDo(str), "Pipeline": dm.Pipeline(),
    "Sample": dm.Sample, "TestStream": dm.testing.TestStream(), "Timestamp": dm.event_time(0), "Top": dm.Top,
}  # fmt: skip


def _fails_without_a_hint(attribute: str, of: Any) -> bool:
    try:
        getattr(of, attribute)
    except AttributeError as error:
        return "\nHint: " not in str(error)
    return False


def _imports_without_a_hint(statement: str) -> bool:
    try:
        exec(statement, {})
    except ImportError as error:
        return "\nHint: " not in str(error)
    return False


@pytest.mark.parametrize("module", BEAMS_MODULES)
def test_each_name_of_a_module_of_beam_exists_or_has_a_hint(module: str) -> None:
    own = importlib.import_module(OUR_MODULES.get(module, "dataflow_model"))
    assert [name for name in BEAMS_MODULES[module].split() if _fails_without_a_hint(name, own)] == []


@pytest.mark.parametrize("kind", BEAMS_CLASSES)
def test_each_member_of_a_class_of_beam_exists_or_has_a_hint(kind: str) -> None:
    of = OBJECTS[kind.rpartition(".")[2]]
    assert [name for name in BEAMS_CLASSES[kind].split() if _fails_without_a_hint(name, of)] == []


@pytest.mark.parametrize("module", BEAMS_MODULES)
def test_each_import_of_a_name_of_beam_works_or_has_a_hint(module: str) -> None:
    own = OUR_MODULES.get(module, "dataflow_model")
    statements = [f"from {own} import {name}" for name in BEAMS_MODULES[module].split()]
    assert [statement for statement in statements if _imports_without_a_hint(statement)] == []


@pytest.mark.parametrize("module", [module for module in BEAMS_MODULES if module.count(".")])
def test_each_import_of_a_module_of_beam_works_or_has_a_hint(module: str) -> None:
    ours = module.replace("beam.", "dataflow_model.", 1)
    assert not _imports_without_a_hint(f"import {ours}")


@pytest.mark.parametrize(
    ("statement", "hint"),
    [
        ("from dataflow_model import pvalue", "use dm.AsSingleton, dm.AsIter"),
        ("from dataflow_model.pvalue import AsSingleton", "use dm.AsSingleton, dm.AsIter"),
        ("from dataflow_model.io import ReadFromText", "use dm.io.ReadText(…)"),
        ("from dataflow_model.io.textio import ReadFromText", "use dm.io.ReadText(…)"),
        ("from dataflow_model.metrics import Metrics", "use dm.metrics.counter(name)"),
        ("from dataflow_model.options.pipeline_options import PipelineOptions", "there are no options"),
        ("from dataflow_model.runners import DirectRunner", "use dm.LocalRunner()"),
        ("from dataflow_model.testing.test_pipeline import TestPipeline", "use dm.Pipeline()"),
        ("from dataflow_model.testing.util import assert_that", "use dm.testing.assert_that"),
        ("from dataflow_model.transforms import FixedWindows", "use dm.FixedWindows"),
        ("from dataflow_model.transforms.window import FixedWindows", "windows are names of the package"),
    ],
)
def test_an_import_that_fails_says_what_to_write_instead(statement: str, hint: str) -> None:
    with pytest.raises(ImportError) as raised:
        exec(statement, {})
    assert f"\nHint: {hint}" in str(raised.value)


def test_importing_a_name_that_no_system_has_fails_as_usual() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'dataflow_model\.nothing'$"):
        importlib.import_module("dataflow_model.nothing")
    with pytest.raises(ImportError, match=r"^cannot import name 'nothing' from 'dataflow_model'"):
        exec("from dataflow_model import nothing", {})


def test_imports_of_other_packages_are_not_explained() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'pvalue'$"):
        importlib.import_module("pvalue")


def test_the_finder_of_hints_is_installed_once_and_asked_last() -> None:
    code = """
import importlib, sys
import dataflow_model
importlib.reload(dataflow_model)
print([finder.__module__ == "dataflow_model.plan.names.imports" for finder in sys.meta_path][::-1].index(True))
print(sum(finder.__module__ == "dataflow_model.plan.names.imports" for finder in sys.meta_path))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "0\n1\n"


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda: NUMBERS | ANY.FlatMap(), "for elements that are iterables themselves, pass dm.FlatMap(lambda parts"),
        (lambda: ANY.AfterCount(countdown=1), "use `n`"),
        (lambda: ANY.ApproximateQuantiles.globally(3, weighted=True), "leave it out, and repeat an element"),
        (lambda: ANY.AsSingleton(NUMBERS, default_value=1), "use `default`"),
        (lambda: ANY.BagStateSpec(name="a", coder=None), "the attribute that holds a spec is its name"),
        (lambda: ANY.CoGroupByKey(pipeline=NUMBERS.pipeline), "leave it out; of no collection, write p | dm.Create"),
        (lambda: ANY.Create([1], reshuffle=False), "leave it out, or write … | dm.Reshuffle() after it"),
        (lambda: ANY.Flatten(pipeline=NUMBERS.pipeline), "leave it out; of no collection, write p | dm.Create"),
        (lambda: ANY.LogElements(with_pane_info=True), "use `with_pane`"),
        (lambda: ANY.LogElements(label="seen"), "write 'name' >> dm.LogElements(…)"),
        (lambda: ANY.Pipeline(argv=[]), "there are no options of a pipeline"),
        (lambda: ANY.Repeatedly(underlying=ANY.AfterCount(1)), "use `trigger`"),
        (lambda: ANY.Reshuffle(num_buckets=3), "leave it out: the runner decides"),
        (lambda: ANY.Reshuffle(3), "leave it out$"),
        (lambda: ANY.Sessions(gap_size=5), "use `gap`"),
        (
            lambda: ANY.TimerSpec("t", time_domain=ANY.TimeDomain.WATERMARK),
            "the attribute that holds a spec is its name",
        ),
        (lambda: ANY.Top.globally(2, compare=len), "use key=…"),
        (lambda: ANY.io.PeriodicImpulse(start_timestamp=0, fire_interval=60), "use `start`"),
        (lambda: ANY.io.ReadText(file_pattern="x"), "use `path`"),
        (lambda: ANY.io.WriteText("x", footer="a"), "leave it out: only a header is written"),
        (lambda: ANY.io.WriteText("x", shard_name_template=""), "leave it out: names begin with part-; num_shards=1"),
        (lambda: ANY.io.WriteText("x", file_name_suffix=".txt"), "use `suffix`"),
        (lambda: ANY.testing.TestStream(coder=None), "leave it out: elements are pickled"),
        (
            lambda: ANY.testing.assert_that(NUMBERS, ANY.testing.equal_to([]), reify_windows=True),
            "put dm.Map(lambda el",
        ),
        (lambda: NUMBERS.pipeline.run(test_runner_api=False), "leave it out: a plan is not translated"),
    ],
)
def test_an_argument_of_beam_is_rejected_with_our_argument(call: Any, hint: str) -> None:
    with pytest.raises(dm.InvalidType) as raised:
        call()
    given = str(raised.value).partition("\nHint: ")[2]
    assert given == hint[:-1] if hint.endswith("$") else given.startswith(hint)


def test_the_dynamic_timer_tag_of_beam_is_the_tag_of_a_timer() -> None:
    class Timed(dm.DoFn):
        timer = dm.TimerSpec()

        def process(self, pair: Any, timer: Any) -> Any:
            timer.set(5, dynamic_timer_tag="a")
            yield pair

        @dm.on_timer(timer)
        def fired(self) -> None: ...

    with (
        pytest.raises(
            dm.UserCodeError, match=r"a timer has no argument 'dynamic_timer_tag'.*\n(.*\n)*Hint: write tag='a'"
        ),
        dm.Pipeline() as p,
    ):
        _ = p | dm.Create([("a", 1)]) | dm.ParDo(Timed())


def test_the_hint_for_to_string_of_pairs_works() -> None:
    with pytest.raises(AttributeError, match=r"dm\.MapTuple\(lambda key, value: f'\{key\},\{value\}'\) for Kvs\(\)"):
        getattr(dm, "ToString")  # noqa: B009 - type checkers see that it is missing
    pairs = dm.Pipeline() | dm.Create([("a", 1)]) | dm.MapTuple(lambda key, value: f"{key},{value}")
    assert pairs.head() == ["a,1"]


def test_a_function_of_flat_map_that_returns_text_is_refused() -> None:
    with (
        pytest.raises(dm.UserCodeError, match=r"got 'ab' of type str\n(.*\n)*Hint: .*list\(text\)"),
        dm.Pipeline() as p,
    ):
        _ = p | dm.Create(["ab"]) | dm.FlatMap(lambda text: text)


def test_cancelling_a_run_stops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    p = dm.Pipeline()
    _ = p | dm.Create([1])
    result = p.run()
    result.wait_until_finish()
    stopped: list[bool] = []
    monkeypatch.setattr(result, "stop", lambda: stopped.append(True))
    result.cancel()
    assert stopped == [True]

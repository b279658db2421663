"""The pipeline: where transforms are applied, labels are checked and the plan is made."""

from __future__ import annotations

import re
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, overload

from dataflow_model.arguments import calls_explained
from dataflow_model.display import PrintedText
from dataflow_model.errors import DataflowError, InvalidArgument, InvalidType, PlanError, without_own_frames
from dataflow_model.plan.checks.all_checks import check
from dataflow_model.plan.checks.end_times import warn_about_end_times
from dataflow_model.plan.checks.side_panes import check_side_inputs
from dataflow_model.plan.functions.combine import CombineFn
from dataflow_model.plan.functions.dofn import DeadLetter, DoFn
from dataflow_model.plan.logical.dropped import STRATEGY_OF_DROPPED, Dropped
from dataflow_model.plan.logical.graph import Plan, dropped_of, outputs_of
from dataflow_model.plan.logical.nodes import MAIN, Ref
from dataflow_model.plan.logical.refinements import check_refinements
from dataflow_model.plan.logical.runner import as_run, check_runner, wait_or_stop
from dataflow_model.plan.logical.strategy import DEFAULT_STRATEGY, LateData, WindowingStrategy
from dataflow_model.plan.logical.triggering import warn_about_sorting
from dataflow_model.plan.names.beam_names import OPTIONS
from dataflow_model.plan.names.spellings import with_spellings
from dataflow_model.plan.rewrites.explain import explain as explain_plan
from dataflow_model.transforms.drawing.pipelines import pipeline_graph
from dataflow_model.transforms.drawing.svg import Drawing, drawn
from dataflow_model.transforms.pipelines import ptransform
from dataflow_model.transforms.pipelines.options import as_option
from dataflow_model.transforms.pipelines.pcollection import OutputTuple, PBegin, PCollection
from dataflow_model.transforms.pipelines.ptransform import MAKES_TRANSFORM, PTransform, written
from dataflow_model.triggers import Trigger
from dataflow_model.windowing import WindowFn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType

    from dataflow_model.plan.functions.typevars import ResultT
    from dataflow_model.plan.logical.nodes import Node
    from dataflow_model.plan.logical.runner import PipelineResult, Runner
    from dataflow_model.transforms.pipelines.pcollection import Expands

_PACKAGE: Final = "dataflow_model."
_METHOD: Final = re.compile(r"\w+\.\w+")
"""The qualified name of a method of a class at the top of its module."""
_default_runner: list[Callable[[], Runner]] = []


def set_default_runner(factory: Callable[[], Runner]) -> None:
    """Set the factory of the runner for pipelines without one."""
    _default_runner[:] = [factory]


@with_spellings
@calls_explained({"options": OPTIONS, "argv": OPTIONS})
class Pipeline:
    """A graph of transforms over collections, built with `|` and run by a runner.

    As a context manager, it runs when the block ends without an exception, waits for the run to finish, and stores the
    result as `p.result`.

    Args:
        runner: the runner that executes the pipeline; `LocalRunner()` by default.
        late_data: what happens to elements whose window has expired, unless their windowing strategy sets it: `"drop"`
            (the default: drop and count) or `"duplicate_window"`.

    Raises:
        InvalidType: if `runner` is not a runner, for example if it is a runner's class instead of an instance.

    Source: Beam's `Pipeline`; so are `|` and `"label" >>`.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> delays = p | dm.Create([("UA", 4), ("AA", -2)]) | dm.Mean.per_key()
        >>> [node.label for node in p.plan().nodes]
        ['Create', 'Mean.PerKey']
    """

    def __init__(
        self,
        runner: Runner | None = None,
        late_data: LateData | Literal["drop", "duplicate_window"] = LateData.DROP,
    ) -> None:
        if runner is not None:
            check_runner(runner)
        self.runner = runner
        self.late_data = as_option(LateData, late_data, "late_data")
        self._result: PipelineResult | None = None
        self._nodes: list[Node] = []
        self._strategies: dict[Ref, WindowingStrategy] = {}
        self._labels: set[str] = set()
        self._scope: list[str] = []

    # ------------------------------------------------------------------------------------------------- building

    def __or__(self, transform: Expands[PBegin, ResultT]) -> ResultT:
        applied: ResultT = self.apply(transform, PBegin(self))
        return applied

    def apply(self, transform: object, pvalue: Any, label: str | None = None) -> Any:
        """Apply a transform to one or several collections, or to the beginning of the pipeline, as `|` does.

        Raises:
            InvalidType: for a value that is not a transform, or an input that the transform does not accept.
            InvalidArgument: for a label that already exists in its scope, or collections of another pipeline.
        """
        try:
            return self._apply(transform, pvalue, label)
        except DataflowError as error:  # the lines of the user lead to it, and the message says the rest
            error.__traceback__ = without_own_frames(error.__traceback__)
            raise

    def _apply(self, transform: object, pvalue: Any, label: str | None) -> Any:
        if not isinstance(transform, PTransform):
            raise InvalidType(f"`|` applies only transforms, got {transform!r}", hint=_way_out(transform))
        name = transform.label if label is None else label
        full = "/".join([*self._scope, name])
        if full in self._labels and label is None and transform._label is None:  # noqa: SLF001 - one that nobody chose
            name = transform.label_by_code() or name
            full = "/".join([*self._scope, name])
        if full in self._labels:
            raise InvalidArgument(
                f"the label {full!r} is already used by another transform; labels must be unique in their scope",
                hint=f"give the second transform another label: {transform.with_another_label()}; in a "
                "notebook, create the pipeline in the same cell, so that running it again starts a new one",
            )
        _check_input(transform, pvalue, full)
        for member in _members(pvalue):
            self.check_mine(member, full)
        before = len(self._nodes), dict(self._strategies), set(self._labels)
        self._labels.add(full)
        self._scope.append(name)
        try:
            result = transform.expand(pvalue)
        except BaseException:
            # A failed application leaves no trace, so that a notebook's cell can be corrected and run again.
            del self._nodes[before[0] :]
            self._strategies, self._labels = before[1], before[2]
            raise
        finally:
            self._scope.pop()
        if transform._output_type is not None and isinstance(result, PCollection):  # noqa: SLF001 - set for this use
            return PCollection(self, result.ref, transform._output_type, result.strategy)  # noqa: SLF001
        return result

    @property
    def scope(self) -> str:
        """The full label of the transform that is being expanded, which is the label of its node."""
        return "/".join(self._scope)

    def add(
        self,
        node: Node,
        *,
        strategy: WindowingStrategy = DEFAULT_STRATEGY,
        element_types: Mapping[str, Any] | None = None,
    ) -> dict[str, PCollection]:
        """Add one node to the plan and return its outputs by tag; for transforms that are not composites.

        Args:
            node: the node; its label is `scope`.
            strategy: the windowing strategy that its outputs carry, but for the elements that it drops.
            element_types: the known element types of the outputs, by tag.
        """
        self._nodes.append(node)
        known = element_types or {}
        outputs = {ref.tag: PCollection(self, ref, known.get(ref.tag, Any), strategy) for ref in outputs_of(node)}
        dropped = dropped_of(node)
        if dropped is not None:
            outputs[dropped.tag] = PCollection(self, dropped, Dropped, STRATEGY_OF_DROPPED)
        self._strategies.update({output.ref: output.strategy for output in outputs.values()})
        return outputs

    def add_main(
        self, node: Node, *, strategy: WindowingStrategy = DEFAULT_STRATEGY, element_type: Any = Any
    ) -> PCollection:
        """Add one node that has only a main output, and return this output."""
        return self.add(node, strategy=strategy, element_types={MAIN: element_type})[MAIN]

    def add_all(self, nodes: Iterable[Node], strategies: Mapping[Ref, WindowingStrategy]) -> None:
        """Add nodes that have been made elsewhere, with the strategies of their outputs.

        Args:
            nodes: the nodes; the label of each is `scope`, or begins with it and a slash.
            strategies: the strategies.
        """
        self._nodes += nodes
        self._strategies.update(strategies)

    def check_mine(self, collection: PCollection, label: str) -> None:
        """Raise `InvalidArgument` if `collection` belongs to another pipeline."""
        if collection.pipeline is not self:
            raise InvalidArgument(
                f"{label!r} is applied to {collection!r}, which belongs to another pipeline",
                hint="build all inputs of a transform from the same dm.Pipeline()",
            )

    # -------------------------------------------------------------------------------------------------- running

    def plan(self) -> Plan:
        """Return the plan of the transforms that have been applied so far."""
        return Plan(nodes=tuple(self._nodes), strategies=dict(self._strategies), late_data=self.late_data)

    def explain(self) -> PrintedText:
        """Return the stages, with windowing and triggers in words; the text prints itself at a prompt.

        In a program, write `print(p.explain())`.

        Example:
            >>> import dataflow_model as dm
            >>> p = dm.Pipeline()
            >>> _ = p | dm.Create([1]) | dm.Map(str)
            >>> p.explain()
            stage 0
              Create: 1 element from the program
                + Map: Map(str)
        """
        return PrintedText(explain_plan(as_run(self.runner, self.plan())))

    @overload
    def draw(self) -> Drawing: ...
    @overload
    def draw(self, form: str) -> str: ...
    def draw(self, form: str = "mermaid") -> str:
        """Return a drawing of the transforms, which a notebook shows as a picture, and whose text is Mermaid.

        A box says in which stage its transform runs, and whether it is fused into that stage or combined before the
        shuffle (lifted). A grouping says where, when and how, as far as these are not the defaults.

        Args:
            form: `"svg"` for only the picture, as the text of an SVG file.

        Raises:
            InvalidArgument: for another form.

        Example:
            >>> import dataflow_model as dm
            >>> p = dm.Pipeline()
            >>> _ = p | dm.Create([("UA", 1)]) | dm.Sum.per_key() | dm.Values()
            >>> p.draw()
            flowchart LR
              n0[("Create<br/>stage 0, source")]
              n1["Sum.PerKey<br/>stage 1"]
              n2("Values<br/>fused into stage 1")
              n0 --> n1
              n1 --> n2
        """
        return drawn(form, "pipeline", *pipeline_graph(self.plan()))

    def __repr__(self) -> str:
        runner = "" if self.runner is None else f" on {self.runner!r}"
        return f"<Pipeline of {len(self._nodes)} transforms{runner}>"

    def _repr_html_(self) -> str:
        return self.draw("svg") if self._nodes else "an empty pipeline"

    @calls_explained({"test_runner_api": "leave it out: a plan is not translated"})
    def run(self, until: Literal["drained"] | None = None) -> PipelineResult:
        """Start the pipeline and return immediately; the result reports its progress.

        Call `wait_until_finish()` on the result to wait for the end, and to have the error of a failed run raised. If
        the program ends without waiting, bounded runs are completed first, streams are stopped, and errors are logged.

        Args:
            until: `"drained"` ends an unbounded input at its current end, with the watermark at +∞.

        Raises:
            InvalidArgument: for another value of `until`.
            PlanError: if the pipeline could never emit anything, mixes clocks, or would leave a wrong result in a sink.
            UnsupportedOnRunner: if the runner does not support a feature that the pipeline needs.

        Warns:
            PlanWarning: if a grouping counts the panes of another grouping again with each refinement, or may miss
                their retractions; if a reader of what a sink writes cannot tell the panes of a window apart; if windows
                are assigned to the panes of a grouping in the global window, whose event time is the end of time; if a
                function that requires sorted input follows a trigger that does not wait for the low watermark.
        """
        if until not in (None, "drained"):  # not in a set, as what is given may have no hash
            is_runner = hasattr(until, "run")
            raise InvalidArgument(
                f"`until` must be None or 'drained', got {until!r}",
                hint="pass the runner to the pipeline: dm.Pipeline(runner=…)"
                if is_runner
                else "use run(until='drained')",
            )
        plan = self.plan()
        if self.runner is None:
            self.runner = self.local_runner()
        rewritten = as_run(self.runner, plan)
        in_rounds = rewritten.strategies is not plan.strategies
        check(plan if in_rounds else rewritten, drained=until == "drained")
        check_side_inputs(rewritten, in_rounds=in_rounds)
        check_refinements(rewritten, in_rounds=in_rounds)
        warn_about_end_times(plan)
        warn_about_sorting(plan)
        return self.runner.run(plan, until=until)

    def local_runner(self) -> Runner:
        """Return `LocalRunner()`, which computes samples, and runs the pipeline if no runner is given."""
        if not _default_runner:
            raise PlanError("the pipeline has no runner", hint="use dm.Pipeline(runner=dm.LocalRunner())")
        return _default_runner[0]()

    @property
    def result(self) -> PipelineResult:
        """The result of the run that started at the end of the `with` block.

        Raises:
            PlanError: before the end of the block, and for a pipeline that is run with `run()`, which returns its
                result.

        Example:
            >>> import dataflow_model as dm
            >>> with dm.Pipeline() as p:
            ...     _ = p | dm.Create([1, 2]) | dm.io.Collect()
            >>> [record.value for record in p.result.collected("Collect")]
            [1, 2]
        """
        if self._result is None:
            raise PlanError(
                "the pipeline has no result, since it has not been run by leaving a `with` block",
                hint="read `p.result` after the block, or use the result that `p.run()` returns",
            )
        return self._result

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self._result = self.run()
            wait_or_stop(self._result)


def _members(pvalue: Any) -> list[PCollection]:
    """Return the collections of an input."""
    match pvalue:
        case PCollection():
            return [pvalue]
        case dict():
            return [member for member in pvalue.values() if isinstance(member, PCollection)]
        case tuple() | list() | OutputTuple():
            return [member for member in pvalue if isinstance(member, PCollection)]
        case _:
            return []


def _check_input(transform: PTransform, pvalue: Any, label: str) -> None:
    kind = transform.input_kind
    if kind == "collection":
        _check_unpacked(transform, pvalue, label)
    if kind == "pipeline" and not isinstance(pvalue, PBegin):
        raise InvalidType(
            f"{label!r} must be applied to a pipeline, got {pvalue!r}",
            hint=f"apply it to the pipeline: p | {written(transform)}",
        )
    if kind == "collection" and isinstance(pvalue, PBegin):
        raise InvalidType(
            f"{label!r} must be applied to a collection, got the pipeline itself",
            hint=f"start with a source: p | dm.Create([…]) | {written(transform)}",
        )
    if kind == "collection" and not isinstance(pvalue, PCollection):
        raise InvalidType(
            f"{label!r} takes one collection, got {pvalue!r}",
            hint=f"merge the collections first: (…) | dm.Flatten() | {written(transform)}",
        )
    if kind == "collections" and not isinstance(pvalue, tuple | list | dict | OutputTuple):
        raise InvalidType(
            f"{label!r} takes several collections, got {pvalue!r}",
            hint=f"pass a tuple: (first, second) | {written(transform)}",
        )


def _check_unpacked(transform: PTransform, pvalue: Any, label: str) -> None:
    """Reject the pair that a transform with exception handling returns, which must be unpacked first."""
    match pvalue:
        case (_, PCollection(element_type=kind)) if kind is DeadLetter:
            raise InvalidType(
                f"{label!r} takes one collection, got the result and the dead letters of .with_exception_handling(): "
                f"{pvalue!r}",
                hint=f"unpack it: good, failed = …; then good | {written(transform)}",
            )


def _way_out(given: object) -> str:
    """Return the hint for a value that is not a transform: what was probably meant."""
    name = getattr(given, "__name__", type(given).__name__)
    match given:
        case type() if issubclass(given, PTransform):
            return f"call it: dm.{name}(…)"
        case type() if issubclass(given, CombineFn):
            return f"combine per key or globally: dm.{name}.per_key() or dm.{name}.globally()"
        case CombineFn():
            if hasattr(given, "per_key"):
                return f"combine per key or globally: dm.{name}.per_key(…) or dm.{name}.globally(…)"
            return "combine per key or globally: dm.CombinePerKey(…) or dm.CombineGlobally(…)"
        case DoFn():
            return f"wrap it: dm.ParDo({name}(…))"
        case WindowFn() | WindowingStrategy():
            return "wrap it: dm.Window.into(…)"
        case Trigger():
            return "wrap it: dm.Window.trigger(…)"
        case FunctionType() | MethodType() if _is_own_method(given) or hasattr(given, MAKES_TRANSFORM):
            return f"call it: {given.__qualname__.rpartition('<locals>.')[2]}(…)"
        case _ if callable(given):
            return f"wrap it: dm.Map({name})"
        case list() | tuple() | dict() | set():
            return "make a source of it: p | dm.Create(…)"
        case _ if name in {"DataFrame", "LazyFrame", "RecordBatch", "Table"}:  # the libraries need not be there
            return "make a source of it: p | dm.io.ReadTable(table, event_time=…), or dm.io.ReadDataFrame for Spark's"
        case _:
            return "apply dm.Map(…) or another transform"


def _is_own_method(function: FunctionType | MethodType) -> bool:
    """Return whether a function is a method of this package, such as `Sum.per_key`."""
    return str(function.__module__).startswith(_PACKAGE) and _METHOD.fullmatch(function.__qualname__) is not None


def _apply_to_several(several: object, transform: PTransform) -> Any:
    """Apply a transform to a left operand of `|` that is not a collection but a tuple or a dict of collections."""
    if several is None:
        raise InvalidType(
            f"{transform.label!r} must be applied to a collection, got None",
            hint="return the collection from the `expand` of the transform before it; a sink has no output",
        )
    if transform.input_kind == "collection":
        _check_unpacked(transform, several, transform.label)
    members = _members(several)
    size = len(several) if isinstance(several, tuple | list | dict) else -1
    if not members or size != len(members):
        raise InvalidType(
            f"{transform.label!r} must be applied to a collection or a tuple or dict of collections, got {several!r}",
            hint=f"start with a pipeline: p | dm.Create([…]) | {written(transform)}",
        )
    return members[0].pipeline.apply(transform, several)


# A tuple does not know `|`, so PTransform is asked; the layer below cannot import this module.
ptransform._apply_to_several[:] = [_apply_to_several]  # noqa: SLF001 - the two modules are one class in two parts

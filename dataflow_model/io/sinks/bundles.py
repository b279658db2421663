"""Sinks that write no files: they call a user's function, or keep the records for the program."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa

from dataflow_model.errors import InvalidType, SinkError, UserCodeError, is_interrupt, shown
from dataflow_model.io.sinks.element_rows import fit_batches, infer_schema
from dataflow_model.io.sinks.sink_columns import checked_schema, full_schema
from dataflow_model.plan.endpoints.message_sinks import DataFrameSink, MessageSink, TabularSink
from dataflow_model.plan.endpoints.outcomes import Reader
from dataflow_model.plan.functions.parameters import called_signature, check_plain, misfit_of
from dataflow_model.runners.engine.functions.forks import end_fork
from dataflow_model.transforms.pipelines.code_names import code_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dataflow_model.plan.columns.records import Record


@attrs.frozen(kw_only=True)
class ForeachBundleSink(MessageSink):
    """Calls a function with the values of each commit: `io.ForeachBundle`.

    Attributes:
        fn: `fn(values)` or `fn(values, commit_id)`.
        whole_records: whether it is given `Record`s (with event time, window and pane) instead of values.
        label: what an error calls the transform.
    """

    fn: Callable[..., Any]
    whole_records: bool = False
    label: str = "ForeachBundle"

    def __attrs_post_init__(self) -> None:
        """Check the function."""
        if not callable(self.fn):
            raise InvalidType(
                f"ForeachBundle takes a function, got {self.fn!r}", hint="use ForeachBundle(lambda values: …)"
            )
        check_plain(self.fn, "ForeachBundle")
        misfit = misfit_of(self.fn)
        if misfit is not None and not _takes_two(self.fn):
            raise InvalidType(
                "ForeachBundle calls its function with the values of a commit, got a function with the parameters "
                f"{misfit[0]}: {misfit[1]}",
                hint="use ForeachBundle(lambda values: …), or ForeachBundle(lambda values, commit_id: …)",
            )

    def describe(self) -> str:
        """Return how users write it."""
        return f"ForeachBundle({code_name(self.fn)})"

    def reader(self, *, has_window: bool, keeps_windows: bool) -> Reader:
        """Return that the function is passed values or records."""
        del has_window, keeps_windows
        return Reader.RECORDS if self.whole_records else Reader.VALUES

    def destination(self) -> Mapping[str, object]:
        """Return what the function gets; what it does is code."""
        return {"whole_records": self.whole_records}

    def commit(self, commit_id: str, messages: Sequence[bytes]) -> None:
        """Call the function, unless the commit has no values.

        Raises:
            UserCodeError: when it raises.
        """
        records = self.records(messages)
        if not records:
            return
        values = records if self.whole_records else [record.value for record in records]
        try:
            if _takes_two(self.fn):
                self.fn(values, commit_id)
            else:
                self.fn(values)
        except BaseException as error:
            end_fork(error)
            if is_interrupt(error):
                raise
            last = traceback.extract_tb(error.__traceback__)[-1]
            raise UserCodeError(
                f"{last.filename}:{last.lineno}: {type(error).__name__}: {error}\n"
                f"in the function of {self.label!r}, given {len(values)} values of commit {commit_id}, "
                f"the first {shown(values[0])}",
                hint="this commit does not count as written; the function is called again when the run is resumed",
            ) from error


def _takes_two(fn: Callable[..., Any]) -> bool:
    """Return whether a function takes the commit's id: a second parameter with a default must have its name."""
    try:
        signature = called_signature(fn)
        signature.bind([], "")
    except (TypeError, ValueError):  # a builtin may have no signature
        return False
    first, *others = signature.parameters.values()
    second = first if first.kind is first.VAR_POSITIONAL else others[0]
    return second.default is second.empty or second.name == "commit_id"


@attrs.frozen(kw_only=True)
class CollectSink(TabularSink):
    """Keeps records for `PipelineResult.collected` and `PipelineResult.table`: `io.Collect`.

    Checkpoints know sinks by the names of their classes, so this one has the name of the plan's own.

    Attributes:
        panes: whether window and pane are columns of the table.
        label: what an error calls the transform.
    """

    panes: bool = False
    label: str = attrs.field(default="Collect", repr=False)

    def describe(self) -> str:
        """Return how users write it."""
        return f"Collect({'panes=True' if self.panes else ''})"

    def destination(self) -> Mapping[str, object]:
        """Return nothing: the records are the same for any table of them."""
        return {}

    def table(self, records: Sequence[Record]) -> pa.Table:
        """Return records as columns, with one that marks retractions if there are any."""
        retractions = any(record.is_retraction for record in records)
        way_out = f"map the elements to one shape first, or read the records with result.collected({self.label!r})"
        return _table(records, None, self.label, way_out, panes=self.panes, retractions=retractions)


@attrs.frozen(kw_only=True)
class ArrowTableSink(DataFrameSink):
    """Gives the records as columns: `io.ToDataFrame`.

    Attributes:
        schema: the columns, or `None` to infer them.
        panes: whether window and pane are columns too.
        retractions: whether values may be retracted; the column `is_retraction` then marks the retractions.
        label: what an error calls the transform.
    """

    schema: pa.Schema | None = attrs.field(default=None, converter=checked_schema)
    panes: bool = False
    retractions: bool = attrs.field(default=False, repr=False)
    label: str = "ToDataFrame"

    def reader(self, *, has_window: bool, keeps_windows: bool) -> Reader:
        """Return that the rows have the columns of window and pane, or not."""
        del has_window
        return Reader.ROWS_WITH_PANES if self.panes and keeps_windows else Reader.ROWS

    def describe(self) -> str:
        """Return how users write it."""
        return f"ToDataFrame({'panes=True' if self.panes else ''})"

    def table(self, records: Sequence[Record]) -> pa.Table:
        """Return records as columns; with neither schema nor records there are none."""
        way_out = "pass schema=pa.schema({…}), or map the elements to one shape first"
        return _table(records, self.schema, self.label, way_out, panes=self.panes, retractions=self.retractions)


def _table(
    records: Sequence[Record], own: pa.Schema | None, label: str, way_out: str, *, panes: bool, retractions: bool
) -> pa.Table:
    added = {"panes": panes, "retractions": retractions}
    schema = infer_schema(records, **added) if own is None else full_schema(own, **added)
    fitted = list(fit_batches(records, pa.schema([]) if schema is None else schema, **added))
    misfits = [misfit for _, _, unfit in fitted for misfit in unfit]
    if misfits:
        raise SinkError(
            f"{label!r} cannot write {shown(misfits[0].value)}: {misfits[0].reason} ({len(misfits)} such rows)",
            hint=way_out,
        )
    return pa.Table.from_batches([batch for batch, _, _ in fitted])

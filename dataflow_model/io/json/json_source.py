"""Files of JSON lines as a source. Types are fixed once; a row that does not fit them is a bad row."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

import attrs

from dataflow_model.errors import InvalidArgument
from dataflow_model.io.json.json_bad_rows import bad_lines
from dataflow_model.io.json.json_inference import json_schema
from dataflow_model.io.json.json_parsing import parse_lines, problem_of_line
from dataflow_model.io.listing.file_identity import FileVersion
from dataflow_model.io.text.lines_of_rows import LinesOfRows, inferred
from dataflow_model.io.text.parsing import parse_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa

    from dataflow_model.io.text.row_texts import RowTexts
    from dataflow_model.plan.columns.source_columns import BadRow

_GIVE: Final = (
    "check that the files hold one JSON object on each line; with schema=pa.schema({…}), they are not sampled"
)
_DOCUMENT: Final = (
    "pass lines=False if the files hold arrays, or objects that extend over several lines; `jq -c .` writes one object "
    "on each line, and `jq -c '.[]'` those of an array"
)


def _check_mixed(source: JsonSource, attribute: attrs.Attribute[Any], value: Any) -> None:
    del source, attribute
    if value not in {None, "text"}:
        raise InvalidArgument(
            f"`mixed` must be 'text' or None, got {value!r}",
            hint="mixed='text' keeps the values of fields with several kinds of values as text",
        )


@attrs.frozen(kw_only=True)
class JsonSource(LinesOfRows):
    """Rows of files with one JSON object a line. A missing field is null, an unknown one is ignored.

    Attributes:
        mixed: `"text"` if columns of text hold values of other kinds as JSON; `None` if these make bad rows.
    """

    mixed: Literal["text"] | None = attrs.field(default=None, validator=_check_mixed)
    kind: ClassVar[str] = "JSON"

    def file_schema(self, path: str) -> pa.Schema | None:
        """Infer names and types from the first 16,384 rows."""
        return _schema(FileVersion.of(path), self._sampler(path))

    def own_columns(self, path: str, folders: pa.Schema) -> pa.Schema:
        """Return all of the columns: a missing field is null, which says nothing else than the folder."""
        del path
        return folders

    def _sampler(self, path: str) -> JsonSource:
        """Return a source of one file that is the same for all sources with the same options."""
        return type(self)(paths=path, event_time=None, mixed=self.mixed, line_timeout=self.line_timeout)

    def parsed(self, path: str, columns: pa.Schema, parts: Iterable[RowTexts]) -> Iterator[pa.RecordBatch]:
        """Parse lines."""
        del path
        is_mixed = self.mixed == "text"

        def parse(data: bytes) -> pa.Table:
            return parse_lines(data, columns, mixed=is_mixed)

        def explain(data: bytes, problem: str) -> str:
            return problem_of_line(data, columns, problem, mixed=is_mixed)

        def find(texts: RowTexts) -> Mapping[int, str]:
            return bad_lines(texts, columns, mixed=is_mixed)

        for texts in parts:
            yield from parse_rows(texts, parse, columns, explain, find)

    def advice(self, bad: BadRow) -> str:
        """Return what to do about a row that looks like a part of a document."""
        is_part = self.grows and isinstance(bad.row, str) and _is_part(bad.row)
        return f"{_DOCUMENT}; otherwise " if is_part else super().advice(bad)


@functools.lru_cache(maxsize=256)
def _schema(version: FileVersion, source: JsonSource) -> pa.Schema | None:
    sample = source.sample(version)
    if not sample:
        return None
    is_part = source.grows and _is_part(sample[0].decode("utf-8", "replace"))
    hint = _DOCUMENT if is_part else _GIVE
    return inferred(version, lambda: json_schema(sample, mixed=source.mixed == "text"), hint)


def _is_part(line: str) -> bool:
    """Return whether a line looks like a part of a document that extends over several lines, or like an array."""
    line = line.strip()
    return line.startswith("[") or line in {"{", "}", "]"}

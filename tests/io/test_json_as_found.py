"""JSON as programs and people write it: the same columns however it is cut, and at most bad rows."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import example, given

import dataflow_model as dm
from dataflow_model.io.json.json_documents import JsonDocumentSource, texts_of_document
from dataflow_model.io.json.json_inference import json_schema
from dataflow_model.io.json.json_source import JsonSource
from dataflow_model.io.text import row_texts, unpacking
from tests.support.laws.examples import share_of_examples

if TYPE_CHECKING:
    from collections.abc import Sequence

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text("ab\n\"\\é'", max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
    max_leaves=6,
)
ROWS = st.lists(st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3), min_size=1, max_size=12)
HUGE = b'{"at": 1e400}'


def read(source: Any) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the rows, and the reasons of the bad ones."""
    rows: list[dict[str, Any]] = []
    reasons: list[str] = []
    [origin] = source.origins()
    for batch in source.read(origin.name, 0, None):
        decoded = source.decode(batch)
        rows.extend(row._asdict() for row in decoded.values)
        reasons.extend(bad.reason for bad in decoded.bad)
    return rows, reasons


def source_of(folder: str | Path, content: bytes, kind: type[JsonSource] = JsonSource, **options: Any) -> Any:
    path = Path(folder, "a.json")
    path.write_bytes(content)
    return kind(paths=str(path), event_time=None, **options)


def lines_of(rows: Sequence[Any]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


@share_of_examples(0.4)
@given(ROWS, st.integers(1, 40))
@example([{"a": None}, {"a": [None, None]}, {"a": [{"b": None}, {"b": None}]}], 7)
def test_columns_and_rows_do_not_depend_on_how_the_file_is_cut(rows: list[Any], block: int) -> None:
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        whole = source_of(folder, lines_of(rows))
        try:
            expected = whole.full_schema(), *read(whole.bound())
        except dm.InvalidArgument:  # none of the rows has a field
            return
        for name in ("BLOCK", "_FIRST"):
            patch.setattr(unpacking, name, block)
        row_texts._indexes.clear()
        cut = source_of(folder, b" " + lines_of(rows))  # another version of the file, which no cache has
        assert (cut.full_schema(), *read(cut.bound())) == expected
        assert len(expected[1]) + len(expected[2]) == len(rows)


@given(ROWS)
def test_each_line_of_json_is_read_like_python_reads_it_or_is_a_bad_row(rows: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source = source_of(folder, lines_of(rows), mixed="text")
        try:
            source = source.bound()
        except dm.InvalidArgument:
            return
        good, reasons = read(source)
    assert len(good) + len(reasons) == len(rows)
    kinds = {field.name: field.type for field in source.schema()}
    for row in good:
        matching = [
            theirs
            for theirs in rows
            if all(
                pa.types.is_string(kind) or pa.types.is_nested(kind) or row[name] == theirs.get(name)
                for name, kind in kinds.items()
            )
        ]
        assert matching


@given(ROWS, st.randoms(use_true_random=False))
def test_nulls_and_missing_fields_do_not_change_the_inferred_types(rows: list[Any], random: Any) -> None:
    lines = lines_of(rows).splitlines()
    names = json_schema(lines, mixed=True).names
    more = [json.dumps(dict.fromkeys(names)).encode(), b"{}"] * 3
    mixed = lines[:1] + random.sample(lines[1:] + more, len(lines[1:] + more))
    expected = json_schema(lines, mixed=True)
    actual = json_schema(mixed, mixed=True)
    assert {field.name: _in_order(field.type) for field in actual} == {
        field.name: _in_order(field.type) for field in expected
    }


def _in_order(kind: pa.DataType) -> Any:
    if pa.types.is_struct(kind):
        return {field.name: _in_order(field.type) for field in kind}
    return [_in_order(kind.value_type)] if pa.types.is_list(kind) else kind


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ('"v": null', '"v": ["x"]'),
        ('"w": 1', '"v": {"b": 1}'),
        ('"v": []', '"v": [{"b": 1}]'),
        ('"v": {"tags": null}', '"v": {"tags": ["x"]}'),
    ],
)
def test_a_field_that_is_null_for_a_megabyte_has_the_type_of_its_values(tmp_path: Path, first: str, then: str) -> None:
    pad = "p" * 400
    lines = "".join(f'{{"pad": "{pad}", {first if n < 4_000 else then}}}\n' for n in range(4_010))
    source = source_of(tmp_path, lines.encode()).bound()
    rows, reasons = read(source)
    assert (len(rows), reasons) == (4_010, [])
    assert rows[-1]["v"] == json.loads(f"{{{then}}}")["v"]


def test_lists_whose_items_are_all_null_are_read(tmp_path: Path) -> None:
    rows = [{"a": [{"b": None}, {"b": None}], "c": [None, None]}, {"a": None, "c": [[]][0]}]
    for schema in (None, pa.schema({"a": pa.list_(pa.struct({"b": pa.null()})), "c": pa.list_(pa.null())})):
        source = source_of(tmp_path, lines_of(rows), given=schema).bound()
        assert read(source) == (rows, [])


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"n": 1e400}', "column 'n' is double and cannot hold 1e400"),
        (b'{"n": %s}' % (b"9" * 400), "column 'n' is double and cannot hold 999"),
        (b'{"n": -1e+9999, "t": "x"}', "column 'n' is double and cannot hold -1e+9999"),
        (b'{"t": "Z\xfcrich"}', "it is not UTF-8"),
        (b'{"t": 5}', "column 't' is string and cannot hold 5"),
        (b'{"l": [1, "x"]}', "column 'l' is list<item: int64> and cannot hold [1, 'x']"),
        (b'{"t": "x\x01"}', "it is not JSON"),
        (b"\x00", "it is not JSON"),
        (b'{"n": 1', "it is not JSON"),
    ],
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_line_that_cannot_be_read_is_one_bad_row_wherever_it_is(
    tmp_path: Path, line: bytes, reason: str, place: int
) -> None:
    lines = [b'{"n": 0.5, "t": "x", "l": [1]}', b'{"n": 1}']
    if place == 0 and b'"t": 5' in line:
        return  # the first kind counts
    if b'"l": [1, "x"]' in line or place:
        lines.insert(max(place, 1), line)
    else:
        lines.insert(0, line)
    rows, reasons = read(source_of(tmp_path, b"\n".join([*lines, b""])).bound())
    assert [row["n"] for row in rows] == [0.5, 1.0]
    assert len(reasons) == 1
    assert reasons[0].startswith(reason)


def test_a_number_beyond_the_range_of_floats_in_an_ignored_field_is_ignored(tmp_path: Path) -> None:
    source = source_of(tmp_path, b'{"n": 1, "other": 1e400}\n{"n": 2}\n', given=pa.schema({"n": pa.int64()}))
    assert read(source) == ([{"n": 1}, {"n": 2}], [])


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64(), pa.list_(pa.float32())], ids=str)
def test_a_number_that_would_overflow_is_a_bad_row_and_words_for_infinity_are_read(tmp_path: Path, kind: Any) -> None:
    item = pa.types.is_list(kind)
    texts = ["1e39", "1" * 400, "1e400", '"Infinity"', "2"]
    if kind == pa.float64():
        texts = texts[1:]
    content = "".join(f'{{"v": {f"[{text}]" if item else text}}}\n' for text in texts)
    rows, reasons = read(source_of(tmp_path, content.encode(), given=pa.schema({"v": kind})))
    values = [row["v"][0] if item else row["v"] for row in rows]
    assert values == [float("inf"), 2.0]
    assert len(reasons) == len(texts) - 2


def test_a_byte_order_mark_before_a_line_is_skipped(tmp_path: Path) -> None:
    content = b'\xef\xbb\xbf{"a": 1}\n\xef\xbb\xbf{"a": 2}\n{"a": 3}\n'
    assert read(source_of(tmp_path, content).bound()) == ([{"a": 1}, {"a": 2}, {"a": 3}], [])


def test_a_line_of_ten_megabytes_is_read_as_one_row(tmp_path: Path) -> None:
    content = lines_of([{"a": "x" * 10_000_000, "n": 1}, {"a": "y", "n": 2}])
    rows, reasons = read(source_of(tmp_path, content).bound())
    assert ([len(row["a"]) for row in rows], reasons) == ([10_000_000, 1], [])


def test_values_of_mixed_types_are_read_as_text_with_the_option_mixed(tmp_path: Path) -> None:
    content = b'{"g": "B12", "n": [1]}\n{"g": 1.50, "n": ["x"]}\n{"g": {"a": [true, null, 1e400]}}\n{"g": null}\n'
    source = source_of(tmp_path, content, mixed="text").bound()
    assert source.schema() == pa.schema({"g": pa.string(), "n": pa.list_(pa.string())})
    rows, reasons = read(source)
    assert [row["g"] for row in rows] == ["B12", "1.50", '{"a": [true, null, 1e400]}', None]
    assert ([row["n"] for row in rows], reasons) == ([["1"], ["x"], None, None], [])


def test_values_of_mixed_types_are_bad_rows_without_the_option_mixed(tmp_path: Path) -> None:
    rows, [reason] = read(source_of(tmp_path, b'{"g": "B12"}\n{"g": 1}\n').bound())
    assert (rows, reason) == ([{"g": "B12"}], "column 'g' is string and cannot hold 1")
    with pytest.raises(dm.InvalidArgument, match=r"`mixed` must be 'text' or None, got 'json'\nHint: "):
        dm.io.ReadJson(tmp_path, event_time=None, mixed="json")  # type: ignore[call-overload]


DOCUMENTS = st.sampled_from(["array", "pretty array", "pretty objects", "objects", "arrays"])


@given(ROWS, DOCUMENTS, st.sampled_from(["\n", "\r\n"]))
def test_a_json_document_has_the_same_rows_as_lines_of_json(rows: list[Any], form: str, end: str) -> None:
    text = {
        "array": json.dumps(rows),
        "pretty array": json.dumps(rows, indent=2),
        "pretty objects": "\n".join(json.dumps(row, indent=2) for row in rows),
        "objects": "".join(map(json.dumps, rows)),
        "arrays": json.dumps(rows[:1]) + "\n" + json.dumps(rows[1:]),
    }[form]
    with tempfile.TemporaryDirectory() as folder:
        try:
            expected = read(source_of(folder, lines_of(rows)).bound())
        except dm.InvalidArgument:
            return
        document = source_of(folder, text.replace("\n", end).encode(), JsonDocumentSource).bound()
        assert read(document) == expected


@given(st.text('[]{}",:1\\ \na', max_size=30))
def test_no_text_of_a_json_document_is_lost_when_it_is_split_into_rows(text: str) -> None:
    texts, lines = texts_of_document(text.encode())
    assert len(texts) == len(lines)
    ignored = str.maketrans("", "", "[], \n")
    assert texts.text().decode().translate(ignored) == text.translate(ignored)


def test_an_item_of_a_json_array_that_is_not_an_object_is_a_bad_row(tmp_path: Path) -> None:
    content = b'[{"a": 1}, 5, "x", [{"a": 2}], {"a": 3}, {"a": '
    rows, reasons = read(source_of(tmp_path, content, JsonDocumentSource).bound())
    assert rows == [{"a": 1}, {"a": 3}]
    assert [reason[:19] for reason in reasons] == ["it is not an object"] * 3 + ["it is not JSON: Exp"]


@pytest.mark.parametrize("content", ['[\n{"a": 1},\n{"a": 2}\n]\n', '{\n  "a": 1\n}\n', '[{"a": 1}]'])
def test_a_json_document_read_as_lines_is_refused_with_the_option_that_reads_it(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(dm.SourceError, match=r"a\.json.*\nHint: pass lines=False"), dm.Pipeline() as p:
        _ = p | dm.io.ReadJson(tmp_path, event_time=None) | dm.io.Collect()
    source = source_of(tmp_path, content.encode(), given=pa.schema({"a": pa.int64()}))
    bad = next(bad for batch in source.read("a.json", 0, None) for bad in source.decode(batch).bad)
    assert "Hint: pass lines=False" in str(source.refusal("rows", "a.json", 0, bad))
    with dm.Pipeline() as p:
        _ = p | dm.io.ReadJson(tmp_path, event_time=None, lines=False) | "rows" >> dm.io.Collect()
    assert p.result is not None
    assert p.result.collected("rows")[0].value.a == 1


def test_the_error_for_bad_json_names_the_file_the_line_and_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b'{"at": 1}\n\r\n\n{"at": 2}\n' + HUGE + b"\n")
    pipeline = dm.Pipeline()
    _ = pipeline | "read" >> dm.io.ReadJson(tmp_path, event_time=None) | dm.io.Collect()
    with pytest.raises(
        dm.SourceError,
        match=r"'read' cannot read line 5 of a\.json: column 'at' is double and cannot hold 1e400.*\nHint: fix the",
    ):
        pipeline.run().wait_until_finish()


def test_line_numbers_in_json_documents_are_those_of_a_text_editor(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[\n  {"a": 1},\n\n  {"a":\n   "x"}\n]\n')
    with dm.Pipeline() as p:
        rows, bad = p | dm.io.ReadJson(tmp_path, event_time=None, lines=False).with_exception_handling()
        _ = rows | "rows" >> dm.io.Collect(), bad | "bad" >> dm.io.Collect()
    assert p.result is not None
    [letter] = [record.value for record in p.result.collected("bad")]
    assert letter.reason == "a.json, line 4: column 'a' is int64 and cannot hold 'x'"

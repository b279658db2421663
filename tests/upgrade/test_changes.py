"""What may change from one run to the next, on a restart and through an upgrade, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dataflow_model as dm
from dataflow_model.plan.logical.fingerprint import definitions, differences, fingerprint
from dataflow_model.plan.logical.stages import changing_sides, cut_into_stages
from dataflow_model.plan.logical.state_parts import parts_of_state
from dataflow_model.runners.sharded.checkpoint.kept_rows import KeptRows, mapped_rows
from dataflow_model.runners.sharded.checkpoint.renaming import Renames
from dataflow_model.runners.sharded.feed.planning import Feed
from dataflow_model.runners.sharded.upgrade.adopting import seed_in
from dataflow_model.time import MIN_TIMESTAMP
from tests.support.inputs import write_history
from tests.support.micro_batches import Run
from tests.support.pipelines import difference, run, seen
from tests.support.upgrade.pipelines import ROWS, TWENTY, Build, branched, history, pairs, plain, several, sums

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from dataflow_model.plan.columns.records import Record


def taken(run: Run, label: str) -> int:
    """Return how many elements a grouping has had, dropped ones among them."""
    counters = run.metrics()[label]
    return int(counters["elements_in"])


@pytest.mark.parametrize("percentile", [100, 50])
def test_an_added_grouping_receives_the_rows_read_from_then_on_and_others_continue(
    rows: Path, tmp_path: Path, percentile: float
) -> None:
    expected = seen(run(dm.LocalRunner(), branched(rows, "sums")).collected("panes"))
    old = Run(branched(rows, "sums"), tmp_path / "old", rows=61).steps(4)
    read = old.metrics()["rows"]["elements_out"]
    new = old.upgraded(branched(rows, "sums", "counts", percentile=percentile), 3).finish()
    assert not difference(expected, seen(new.collected("panes")))
    assert taken(new, "counts") == 2 * ROWS - read
    counted = sum(record.value[1] for record in new.collected("counted"))
    lost = sum(count for name, count in new.metrics()["counts"].items() if name.startswith("dropped"))
    assert counted + lost == 2 * ROWS - read


def test_an_added_grouping_knows_the_watermark_from_its_first_element_on(rows: Path, tmp_path: Path) -> None:
    old = Run(branched(rows, "sums"), tmp_path / "old", rows=61).steps(5)
    reached = old.progress()["watermarks"]["rows"]
    assert reached > 20
    new = old.upgraded(branched(rows, "sums", "counts"), 2).finish()
    assert all(int(record.window.end) > reached for record in new.collected("counted"))
    assert new.metrics()["counts"]["dropped_because_late"] > 0


def test_the_first_grouping_of_a_pipeline_can_be_added(rows: Path, tmp_path: Path) -> None:
    def mapped(p: dm.Pipeline) -> None:
        _ = pairs(p, rows) | "given" >> dm.io.Collect()

    old = Run(mapped, tmp_path / "old", rows=61).steps(3)
    assert len(old.collected("given")) == 183
    new = old.upgraded(branched(rows, "sums", "counts"), 3).finish()
    assert taken(new, "sums") == taken(new, "counts") == 2 * ROWS - 183


def test_a_removed_grouping_with_keys_has_to_be_named(rows: Path, tmp_path: Path) -> None:
    whole, part = branched(rows, "sums", "counts"), branched(rows, "sums")
    old = Run(whole, tmp_path / "old", rows=61).steps(4)
    with pytest.raises(dm.CheckpointMismatch) as refused:
        old.upgraded(part, 2)
    message = str(refused.value)
    assert "'counts' is gone; it was: grouping of" in message
    assert " keys and " in message
    assert " buffered elements" in message
    assert "'sums'" not in message
    assert "dataflow-model upgrade" in message
    assert "--drop counts" in message
    expected = seen(run(dm.LocalRunner(), part).collected("panes"))
    new = old.upgraded(part, 2, drop=["counts"]).finish()
    assert not difference(expected, seen(new.collected("panes")))


def test_a_changed_grouping_starts_empty_if_it_is_named(rows: Path, tmp_path: Path) -> None:
    def changed(p: dm.Pipeline) -> None:
        elements = pairs(p, rows)
        _ = sums(elements) | "panes" >> dm.io.Collect()
        windows = "count windows" >> dm.Window.into(dm.FixedWindows("10 microseconds"))
        _ = elements | windows | "counts" >> dm.Count.per_key() | "counted" >> dm.io.Collect()

    old = Run(branched(rows, "sums", "counts"), tmp_path / "old", rows=61).steps(4)
    with pytest.raises(dm.CheckpointMismatch, match=r"(?s)'counts' was: .*FixedWindows.*; it is: .*lost: \d+ keys"):
        old.upgraded(changed, 2)
    new = old.upgraded(changed, 2, drop=["counts"]).finish()
    expected = seen(run(dm.LocalRunner(), changed).collected("panes"))
    assert not difference(expected, seen(new.collected("panes")))
    read = old.metrics()["rows"]["elements_out"]
    assert taken(new, "counts") == 2 * ROWS - read


def test_the_transforms_before_a_grouping_may_be_rearranged(rows: Path, tmp_path: Path) -> None:
    def rearranged(p: dm.Pipeline) -> None:
        elements = pairs(p, rows) | "again" >> dm.Reshuffle() | "same" >> dm.Map(lambda pair: pair)
        _ = sums(elements) | "panes" >> dm.io.Collect()

    expected = seen(run(dm.LocalRunner(), rearranged).collected("panes"))
    old = Run(plain(rows), tmp_path / "old", rows=61)
    while not old.steps(1).offset.last:
        new = old.upgraded(rearranged, 3).finish()
        assert not difference(expected, seen(new.collected("panes"))), old.offset


def test_a_renamed_source_has_to_be_named_since_it_would_be_read_again(rows: Path, tmp_path: Path) -> None:
    def renamed(p: dm.Pipeline) -> None:
        _ = sums(pairs(p, rows, "flights")) | "panes" >> dm.io.Collect()

    old = Run(plain(rows), tmp_path / "old", rows=61).steps(4)
    with pytest.raises(
        dm.CheckpointMismatch, match=r"'rows' is gone.*lost: its position in the source \(244 rows read\)"
    ):
        old.upgraded(renamed, 2)
    new = old.upgraded(renamed, 2, drop=["rows"]).finish()
    assert new.metrics()["flights"]["elements_out"] == 2 * ROWS


def test_a_source_with_another_watermark_estimator_keeps_its_offset(rows: Path, tmp_path: Path) -> None:
    def patient(p: dm.Pipeline) -> None:
        read = p | "rows" >> dm.io.ReadParquet(
            rows, event_time="at", processing_time="seen", watermark=dm.BoundedOutOfOrderness("40 microseconds")
        )
        _ = sums(read | "rows pairs" >> dm.Map(lambda row: (row.key, row.n))) | "panes" >> dm.io.Collect()

    old = Run(plain(rows), tmp_path / "old", rows=61).steps(4)
    before = old.progress()["watermarks"]["sums"]
    new = old.upgraded(patient, 2)
    while not new.offset.last:
        new.step()
        assert new.progress()["watermarks"]["sums"] >= before
        before = new.progress()["watermarks"]["sums"]
    assert new.metrics()["rows"]["elements_out"] == 2 * ROWS


# Sources that are added.


def by_window(records: Sequence[Record]) -> dict[Any, Any]:
    """Return each window's last pane."""
    return {(record.window, record.value[0]): record.value[1] for record in records}


@pytest.mark.parametrize("way", ["restart", "upgrade"])
def test_a_source_can_be_added_and_no_watermark_goes_back(rows: Path, tmp_path: Path, way: str) -> None:
    write_history(tmp_path / "more" / "3.parquet", history(3, rows=90))
    old = Run(several(rows), tmp_path / "old", rows=61).steps(4)
    both = several(rows, tmp_path / "more")
    new = old.restarted(both) if way == "restart" else old.upgraded(both, 3)
    before = old.progress()["watermarks"]
    assert before["sums"] > int(MIN_TIMESTAMP)
    while not new.offset.last:
        new.step()
        after = new.progress()["watermarks"]
        assert all(after[label] >= before[label] for label in before)
        before = after
    metrics = new.metrics()
    assert metrics["more"]["elements_out"] == 90
    assert metrics["rows"]["elements_out"] == 2 * ROWS
    assert metrics["sums"]["elements_in"] == 2 * ROWS + 90
    assert metrics["sums"]["dropped_because_late"] > 0  # what is old to the others is late


def test_an_added_source_with_later_event_times_loses_nothing(rows: Path, tmp_path: Path) -> None:
    write_history(tmp_path / "more" / "3.parquet", [(at + 900, seen + 300, key, n) for at, seen, key, n in history(3)])
    both = several(rows, tmp_path / "more")
    new = Run(several(rows), tmp_path / "old", rows=61).steps(4).restarted(both).finish()
    alone = by_window(run(dm.LocalRunner(), several(tmp_path / "more")).collected("panes"))
    assert {cell: value for cell, value in by_window(new.collected("panes")).items() if cell in alone} == alone


def test_created_elements_can_be_added_as_a_source(rows: Path, tmp_path: Path) -> None:
    def both(p: dm.Pipeline) -> None:
        few = p | "few" >> dm.Create([dm.TimestampedValue(("h", 1), 10_000)] * 3)
        together = (pairs(p, rows), few) | "all" >> dm.Flatten() | "again" >> dm.Reshuffle()
        _ = sums(together) | "panes" >> dm.io.Collect()

    old = Run(several(rows), tmp_path / "old", rows=61).steps(4)
    new = old.restarted(both).finish()
    assert {record.value for record in new.collected("panes") if record.value[0] == "h"} == {("h", 3)}
    again = new.restarted(both)
    assert again.offset.last


def test_an_unfinished_micro_batch_is_run_again_without_the_added_sources(rows: Path, tmp_path: Path) -> None:
    write_history(tmp_path / "more" / "3.parquet", history(3, rows=90))
    old = Run(several(rows), tmp_path / "old", rows=61).steps(2)
    start = old.offset
    before = Feed(old.program.staged.sources, 61, 2)
    end = before.next(start, drain=False)

    def more(p: dm.Pipeline) -> None:
        few = p | "few" >> dm.Create([dm.TimestampedValue(("h", 1), 10_000)])
        sources = (*(pairs(p, folder, folder.name) for folder in (rows, tmp_path / "more")), few)
        _ = sums(sources | "all" >> dm.Flatten() | "again" >> dm.Reshuffle()) | "panes" >> dm.io.Collect()

    after = Feed(old.restarted(more).program.staged.sources, 61, 2)
    assert after.control(start, end) == before.control(start, end)
    assert after.slices(start, end) == before.slices(start, end)
    control = after.control(end, after.next(end, drain=False))
    assert set(control.begins) == {"more", "few"}
    assert control.ended == ("few",)
    assert ("more", "3.parquet") in control.open_origins


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda p, rows: branched(rows, "sums", "counts")(p), id="a grouping more"),
        pytest.param(lambda p, rows: pairs(p, rows) | "panes" >> dm.io.Collect(), id="a grouping less"),
        pytest.param(lambda p, rows: sums(pairs(p, rows, "others")) | "panes" >> dm.io.Collect(), id="another source"),
    ],
)
def test_other_changes_are_refused_on_a_restart_with_the_command_that_upgrades(
    change: Any, rows: Path, tmp_path: Path
) -> None:
    old = Run(plain(rows), tmp_path / "old", rows=61).steps(2)
    record = (old.folder / "dataflow" / "run.json").read_text()
    with pytest.raises(dm.CheckpointMismatch) as refused:
        old.restarted(lambda p: change(p, rows))
    message = str(refused.value)
    assert "was made by another pipeline" in message
    assert " is new: " in message or " is gone; " in message
    assert f"dataflow-model upgrade {old.folder} {old.folder}-2" in message
    assert (old.folder / "dataflow" / "run.json").read_text() == record


# State in columns.


def in_columns(folder: Path, *, mapped: bool = False) -> Build:
    def build(p: dm.Pipeline) -> None:
        read: Any = p | "rows" >> dm.io.ReadParquet(folder, event_time="at", watermark=dm.BoundedOutOfOrderness(10**6))
        elements = read | "keyed" >> dm.WithKeys("key", value="n")
        if mapped:
            elements = elements | "same" >> dm.Map(lambda pair: pair)
        windowed = elements | "windows" >> dm.Window.into(dm.FixedWindows(TWENTY))
        _ = windowed | "sums" >> dm.Sum.per_key() | "panes" >> dm.io.Collect()

    return build


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("after", [False, True])
def test_a_grouping_keeps_the_kind_of_state_that_it_has(rows: Path, tmp_path: Path, before: bool, after: bool) -> None:
    expected = by_window(run(dm.LocalRunner(), in_columns(rows)).collected("panes"))
    old = Run(in_columns(rows, mapped=before), tmp_path / "old", rows=61).steps(4)
    assert bool(old.program.lifts) is not before
    new = old.upgraded(in_columns(rows, mapped=after), 3)
    assert bool({**new.program.lifts, **new.program.folded}) is not before
    new.finish()
    assert by_window(new.collected("panes")) == expected
    assert len(new.collected("panes")) == len(expected)


# What is damaged, or is no run.


def test_a_damaged_seed_of_an_upgrade_is_refused(rows: Path, tmp_path: Path) -> None:
    new = Run(plain(rows), tmp_path / "old", rows=61).steps(4).upgraded(plain(rows), 2)
    (damaged, *_) = sorted(seed_in(str(new.folder / "dataflow")).rglob("0000.pickle"))
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"!")
    with pytest.raises(dm.StateCorruption, match=r"keys/sums/0000.pickle.*fails its checksum"):
        new.step()


@pytest.mark.parametrize("content", ["{", None])
def test_a_seed_whose_manifest_is_damaged_or_missing_is_refused(
    content: str | None, rows: Path, tmp_path: Path
) -> None:
    old = Run(plain(rows), tmp_path / "old", rows=61).steps(4)
    folder = old.carried_over(tmp_path / "new")
    manifest = seed_in(str(folder / "dataflow")) / "manifest.json"
    if content is None:
        manifest.unlink()
    else:
        manifest.write_text(content)
    with pytest.raises(dm.StateCorruption, match=r"manifest\.json.*\nHint: upgrade the old checkpoint again"):
        Run(plain(rows), folder)


@pytest.mark.parametrize("name", ["none", "empty", "other"])
def test_a_folder_that_is_not_a_checkpoint_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "other" / "offsets").mkdir(parents=True)
    with pytest.raises(dm.CheckpointMismatch, match="contains no checkpoint of a dataflow_model run"):
        dm.upgrade(str(tmp_path / name), str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def test_a_target_that_exists_or_is_inside_of_the_checkpoint_is_refused(rows: Path, tmp_path: Path) -> None:
    old = Run(plain(rows), tmp_path / "old", rows=61).steps(1)
    with pytest.raises(dm.InvalidArgument, match="already exists"):
        dm.upgrade(str(old.folder), str(tmp_path))
    with pytest.raises(dm.InvalidArgument, match="is inside"):
        dm.upgrade(str(old.folder), str(old.folder / "new"))


def test_integer_keys_beyond_64_bits_keep_their_shard_in_columns(tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    rows = [(number % 50, number, "abc"[number % 3], 2**62) for number in range(120)]
    table = pa.table({"at": [row[0] for row in rows], "key": [row[2] for row in rows], "n": [row[3] for row in rows]})
    pq.write_table(table, tmp_path / "rows" / "1.parquet")
    build = in_columns(tmp_path / "rows")
    expected = by_window(run(dm.LocalRunner(), build).collected("panes"))
    old = Run(build, tmp_path / "old", rows=17).steps(4)
    assert by_window(old.upgraded(build, 3).finish().collected("panes")) == expected


class Minutes(dm.WindowFn):
    """Windows of a minute; without a `repr` of its own."""

    def assign(self, event_time: dm.EventTime, element: Any) -> Sequence[Any]:
        return dm.FixedWindows("1 minute").assign(event_time, element)


class AsReached:
    """A watermark without a `repr` of its own."""

    def watermark(self, reached: dm.EventTime) -> dm.EventTime:
        return reached


@attrs.frozen
class WhenGreat(dm.Trigger):
    """Fires at elements that a function selects."""

    selects: Callable[[Any], bool]

    def on_element(self, context: dm.TriggerContext) -> None:
        if self.selects(context.element):
            context.trigger()

    def may_finish(self, *, allowed_lateness: dm.Duration) -> bool:
        del allowed_lateness
        return False


def test_an_object_at_another_address_does_not_count_as_a_change(rows: Path) -> None:
    def plan() -> Any:
        p = dm.Pipeline()
        read = p | dm.io.ReadParquet(rows, event_time="at", processing_time="seen", watermark=AsReached())
        windows = dm.Window.into(Minutes()).trigger(dm.Repeatedly(WhenGreat(lambda n: n > 1)))
        sums = read | dm.Map(lambda row: (row.key, row.n)) | windows | dm.Sum.per_key()
        _ = sums | "seen by" >> dm.Map(lambda pair, sums: (pair, sums), dm.AsIter(sums)) | dm.io.Collect()
        return cut_into_stages(p.plan(), changing_sides(p.plan()))

    kept = []  # so that no address is used twice
    lines = []
    for _ in range(3):
        kept.append(plan())
        lines.append((fingerprint(kept[-1].whole), definitions(kept[-1].whole), parts_of_state(kept[-1])))
    assert lines[0] == lines[1] == lines[2]
    assert "Minutes object" in lines[0][0]["Sum.PerKey"]


def test_only_the_changes_are_reported_and_in_terms_of_the_users_program() -> None:
    def plan(size: str, windowing: Any = None, sink: Any = None) -> Any:
        p = dm.Pipeline()
        windows = dm.Window.into(dm.FixedWindows(size, offset="1 minute"))
        elements = p | dm.Create([("a", 1)]) | "hours" >> (windows if windowing is None else windowing(windows))
        _ = elements | "sums" >> dm.Sum.per_key() | "out" >> (dm.io.Collect() if sink is None else sink)
        return fingerprint(p.plan())

    before = plan("1 hour")
    changes = dict(line.split(" was: ") for line in differences(before, plan("2 hours")))
    assert changes["'sums'"] == (
        "windows FixedWindows('1 hour', offset='1 minute'); it is: windows FixedWindows('2 hours', offset='1 minute')"
    )
    accumulating = plan("1 hour", lambda windows: windows.accumulating().allowed_lateness("1 hour"))
    assert differences(before, accumulating)[-1] == (
        "'sums' was: discarding, lateness 0 seconds; it is: accumulating, lateness 1 hour"
    )
    written = differences(before, plan("1 hour", sink=dm.io.WriteParquet("out")))
    assert written == ["'out' was: to Collect of sums; it is: to Parquet of sums"]


def test_the_rows_that_a_stream_keeps_of_a_dataframe_get_the_new_label(tmp_path: Path) -> None:
    table = pa.table({"n": [1, 2]})
    checksum = KeptRows(tmp_path / "old", "one").write(table)
    KeptRows(tmp_path / "old", "two").write(table)
    Renames.among(["one", "two"], {"one": "other"}).copy(tmp_path / "old", tmp_path / "new", "inputs")
    renamed = KeptRows(tmp_path / "new", "other")
    assert renamed.checksum() == checksum
    assert mapped_rows(str(renamed.path), checksum).equals(table)
    assert KeptRows(tmp_path / "new", "one").checksum() is None
    assert KeptRows(tmp_path / "new", "two").checksum() == checksum

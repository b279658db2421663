"""Durable records without Spark: private, whole or absent, and refused by name when they cannot be read."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import attrs
import pytest

import dataflow_model as dm
from dataflow_model.plan.logical.stages import cut_into_stages
from dataflow_model.runners.local.run_file import FILE, RunFile
from dataflow_model.runners.sharded.checkpoint import durable
from dataflow_model.runners.sharded.checkpoint.durable import FORMAT, make_folder, seal, unseal, write_file
from dataflow_model.runners.sharded.checkpoint.parts import read_document, write_document, write_part
from dataflow_model.runners.sharded.checkpoint.requests import drain_requests, pending_signals, request_signal
from dataflow_model.runners.sharded.checkpoint.running import RunningMark
from dataflow_model.runners.sharded.checkpoint.sequencers import take_sequencer
from dataflow_model.runners.sharded.commits.progress import read_progress, write_progress
from dataflow_model.runners.sharded.commits.publishing import read_collected
from dataflow_model.runners.sharded.directory import Checkpoint
from dataflow_model.runners.sharded.outputs.publication import Publication
from dataflow_model.runners.sharded.starting import stream_program
from dataflow_model.runners.sharded.upgrade.seed import Manifest
from dataflow_model.runners.spark.spark_logs import HOST, is_input_over, last_committed, offset_of
from tests.support.settings import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from dataflow_model.plan.logical.stages import StagedPlan


@pytest.fixture(params=[0o000, 0o022, 0o777])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    """Set the process's umask, from the most generous one to one that takes every permission away."""
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    """Return the permissions of everything in a folder."""
    return {
        str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode)
        for path in sorted(folder.rglob("*"))
        if not path.is_symlink()
    }


def staged() -> StagedPlan:
    p = dm.Pipeline()
    _ = p | dm.Create([("a", 1)]) | dm.Sum.per_key() | dm.io.Collect()
    return cut_into_stages(p.plan())


# Permissions.


@pytest.mark.parametrize(
    "look",
    [
        lambda checkpoint: drain_requests(checkpoint / "dataflow" / "requests"),
        lambda checkpoint: pending_signals(checkpoint / "dataflow" / "requests"),
        lambda checkpoint: last_committed(str(checkpoint / HOST)),
    ],
)
def test_a_checkpoint_that_may_not_be_read_is_named(
    look: Callable[[Path], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    for name in ("exists", "is_dir", "read_bytes"):
        monkeypatch.setattr(type(tmp_path), name, refuse)
    folder = re.escape(str(tmp_path))
    with pytest.raises(
        dm.SinkError, match=rf"^.*'{folder}.*' (in the checkpoint directory )?cannot be read: .*denied.*\nHint: "
    ):
        look(tmp_path)


def test_only_the_owner_can_read_the_checkpoint_of_a_run_whatever_the_umask(umask: int, tmp_path: Path) -> None:
    del umask
    checkpoint = Checkpoint.open(str(tmp_path / "parent" / "checkpoint"), staged(), 2, HOST, is_input_over)
    take_sequencer(checkpoint.common_part)
    mark = RunningMark(checkpoint.common_part)
    mark.start()
    write_progress(checkpoint.common_part, {"batch": 0})
    permissions = modes(tmp_path)
    assert {mode for name, mode in permissions.items() if (tmp_path / name).is_dir()} == {0o700}
    files = {name: mode for name, mode in permissions.items() if (tmp_path / name).is_file()}
    assert set(files.values()) == {0o600}
    assert len(files) == 5
    assert "parent/checkpoint/spark" in permissions
    mark.end()


def test_only_the_owner_can_read_the_requests_of_a_run_whatever_the_umask(umask: int, tmp_path: Path) -> None:
    del umask
    request_signal(tmp_path / "requests", "flush")
    assert sorted(modes(tmp_path).values()) == [0o600, 0o600, 0o700, 0o700]


def test_only_the_owner_can_read_the_file_of_a_run_in_process_whatever_the_umask(umask: int, tmp_path: Path) -> None:
    del umask
    make_folder(tmp_path / "local")
    file = RunFile.create(str(tmp_path / "local"))
    permissions = modes(tmp_path / "local")
    file.close()
    assert set(permissions.values()) == {0o600}
    assert FILE in permissions


def test_a_folder_that_exists_keeps_its_permissions(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir(mode=0o755)
    (tmp_path / "mine").chmod(0o755)
    make_folder(tmp_path / "mine" / "new")
    assert modes(tmp_path) == {"mine": 0o755, "mine/new": 0o700}


def test_a_file_that_cannot_be_written_completely_leaves_the_old_one_and_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_file(tmp_path / "record", b"old")
    monkeypatch.setattr("pathlib.Path.replace", _no_space)
    with pytest.raises(OSError, match="No space"):
        write_file(tmp_path / "record", b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("record", b"old")]


def _no_space(*_: Any) -> None:
    raise OSError(28, "No space left on device")


def test_incomplete_files_of_a_killed_process_are_removed_by_the_next_start(tmp_path: Path) -> None:
    checkpoint = Checkpoint.open(str(tmp_path), staged(), 2, HOST, is_input_over)
    stream_program(checkpoint, staged(), {}, (0, 1))
    before = set(modes(tmp_path))
    code = (
        "import os, pathlib, sys\n"
        "from dataflow_model.runners.sharded.checkpoint.durable import write_file\n"
        "os.fsync = lambda _: os._exit(3)\n"
        "write_file(pathlib.Path(sys.argv[1]), b'half', sync=True)\n"
    )
    for name in ("progress.json", "requests/long.name.arrow"):
        path = tmp_path / "dataflow" / name
        assert subprocess.run([sys.executable, "-c", code, path], check=False, cwd=REPOSITORY).returncode == 3
    assert len(modes(tmp_path).keys() - before) == 2
    stream_program(checkpoint, staged(), {}, (0, 1))
    assert {name for name in modes(tmp_path) if "sequencers/" not in name} == {
        name for name in before if "sequencers/" not in name
    }


# Formats and damage.


def test_a_record_of_any_other_format_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable, "FORMAT", FORMAT + 1)
    newer = seal(3)
    monkeypatch.undo()
    with pytest.raises(
        dm.CheckpointMismatch,
        match=rf"^'draws' was written in format {FORMAT + 1} by a newer version of dataflow_model; this version reads "
        rf"format {FORMAT}\nHint: run the pipeline with that version, or start over with another checkpoint$",
    ):
        unseal(newer, "'draws'")


def test_a_record_with_a_class_that_no_longer_exists_is_refused_by_name() -> None:
    record = seal(Gone(1)).replace(b"Gone", b"Lost")
    body = record[8:]
    problem = (
        r"^a stored value is of the class or function 'Lost' of the module 'tests\..*"
        r"\nHint: .*(?s:.*)while reading 'draws'"
    )
    with pytest.raises(dm.CheckpointMismatch, match=problem):
        unseal(record[:4] + durable._checksum(body) + body, "'draws'")


@attrs.frozen
class Gone:
    """A class that a later version does not have."""

    number: int


@pytest.mark.parametrize(
    ("format_", "was"),
    [
        (None, "without a format number"),
        (FORMAT - 1, f"in format {FORMAT - 1}"),
        (FORMAT + 1, f"in format {FORMAT + 1}"),
    ],
)
def test_a_checkpoint_of_another_format_is_refused_before_anything_is_written(
    format_: int | None, was: str, tmp_path: Path
) -> None:
    folder = tmp_path / "checkpoint"
    ours = Checkpoint.open(str(folder), staged(), 2, HOST, is_input_over).common_part
    if format_ is not None and format_ > FORMAT:
        write_document(ours, "run.json", {"format": format_, "field of a later version": 1})
    else:  # without a checksum
        (folder / "dataflow" / "run.json").write_text(json.dumps({} if format_ is None else {"format": format_}))
    before = (folder / "dataflow" / "run.json").read_bytes()
    with pytest.raises(dm.CheckpointMismatch, match=rf"run\.json' was written {was} by a.* version") as caught:
        Checkpoint.open(str(folder), staged(), 2, HOST, is_input_over)
    assert "Hint: run the pipeline with that version" in str(caught.value)
    with pytest.raises(dm.CheckpointMismatch, match=rf"run\.json' was written {was} by a.* version"):
        dm.upgrade(str(folder), str(tmp_path / "next"))
    assert (folder / "dataflow" / "run.json").read_bytes() == before
    assert not (tmp_path / "next").exists()


@pytest.mark.parametrize(
    "content", ["", "[]", "7", f'{{"format": {FORMAT}}}', '{"checksum": "00000000",\n"a": 1}', "{"]
)
def test_a_damaged_record_of_a_run_is_refused_by_name(content: str, tmp_path: Path) -> None:
    checkpoint = Checkpoint.open(str(tmp_path), staged(), 2, HOST, is_input_over)
    (tmp_path / "dataflow" / "run.json").write_text(content)
    with pytest.raises(dm.StateCorruption, match=r"run\.json' is damaged: it fails its checksum\nHint: restore the"):
        Checkpoint.open(str(checkpoint.path), staged(), 2, HOST, is_input_over)


@pytest.mark.parametrize("content", ["", "[]", "{"])
def test_damaged_progress_is_refused_by_name(content: str, tmp_path: Path) -> None:
    (tmp_path / "progress.json").write_text(content)
    with pytest.raises(dm.StateCorruption, match=r"progress\.json' is damaged: it fails its checksum\nHint: restore"):
        read_progress(str(tmp_path))


def test_progress_of_another_format_is_refused_by_name(tmp_path: Path) -> None:
    write_document(tmp_path, "progress.json", {"format": FORMAT + 1})
    with pytest.raises(
        dm.CheckpointMismatch, match=rf"progress\.json' was written in format {FORMAT + 1} by a newer version"
    ):
        read_progress(str(tmp_path))


def test_a_damaged_record_of_published_commits_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "publishing.json").write_text("")
    with pytest.raises(dm.StateCorruption, match=r"publishing\.json' is damaged: it fails its checksum"):
        Publication.read(str(tmp_path))


@pytest.mark.parametrize("batch", [None, 3])
def test_a_missing_or_outdated_record_of_published_commits_is_refused(batch: int | None, tmp_path: Path) -> None:
    if batch is not None:
        Publication(batch).write(str(tmp_path))
    problem = "it is missing" if batch is None else "it names micro-batch 3, but number 4 was published last"
    with pytest.raises(dm.StateCorruption, match=rf"publishing\.json' is damaged: {problem}"):
        Publication.expect(str(tmp_path), {"batch": 4}, is_new=False)


def test_a_document_is_readable_json_that_contains_its_own_name(tmp_path: Path) -> None:
    write_document(tmp_path, "run.json", {"shards": 2})
    fields = json.loads((tmp_path / "run.json").read_text())
    assert fields == {"checksum": fields["checksum"], "part": "run.json", "format": FORMAT, "shards": 2}
    assert read_document(tmp_path, "run.json") == {"shards": 2}


def test_a_file_in_place_of_another_is_refused_with_both_names(tmp_path: Path) -> None:
    write_document(tmp_path, "run.json", {})
    (tmp_path / "run.json").rename(tmp_path / "progress.json")
    with pytest.raises(
        dm.StateCorruption, match=r"progress\.json' is damaged: it contains another part .*, 'run\.json'"
    ):
        read_progress(str(tmp_path))


def test_damaged_collected_records_are_refused_by_name(tmp_path: Path) -> None:
    name = "collected/panes/run-00000000.pickle"
    write_part(tmp_path, name, (0, []))
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:-1])
    with pytest.raises(dm.StateCorruption, match=r"run-00000000\.pickle' is damaged: it fails its checksum"):
        read_collected(str(tmp_path), "panes")


def test_an_offset_of_another_format_is_refused_by_name(tmp_path: Path) -> None:
    checkpoint = Checkpoint.open(str(tmp_path), staged(), 2, HOST, is_input_over)
    offsets = tmp_path / "spark" / "offsets"
    offsets.mkdir()
    (offsets / "0").write_text("v2\n{}\n" + json.dumps({**checkpoint.begins.to_json(), "format": FORMAT + 1}))
    with pytest.raises(
        dm.CheckpointMismatch, match=f"offsets/0' was written in format {FORMAT + 1} by a newer version"
    ):
        offset_of(checkpoint.host_part, 0)


def test_a_seed_of_another_format_is_refused_by_name(tmp_path: Path) -> None:
    write_document(tmp_path, "manifest.json", {"format": FORMAT + 1, "field of a later version": 1})
    with pytest.raises(
        dm.CheckpointMismatch, match=rf"manifest\.json' was written in format {FORMAT + 1} by a newer version"
    ):
        Manifest.read(tmp_path)

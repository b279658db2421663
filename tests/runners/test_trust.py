"""A checkpoint that others may write to: its pickles are code, so it is refused or warned about before it is read."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from dataflow_model.cli import main
from dataflow_model.runners.sharded.checkpoint import trust
from dataflow_model.runners.sharded.checkpoint.trust import check_trust
from tests.support.hosts import on_hosts, runner_on
from tests.support.pipelines import run
from tests.support.runners.local_streams import ROWS, put_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from dataflow_model.plan.logical.runner import PipelineResult


def sums(folder: Path) -> Callable[[dm.Pipeline], Any]:
    def build(p: dm.Pipeline) -> None:
        rows = p | "rows" >> dm.io.ReadParquet(folder, event_time="at", follow=True, schema=ROWS)
        pairs = rows | dm.Map(lambda row: (row.key, row.n)) | dm.Window.into(dm.FixedWindows(10))
        _ = pairs | "sums" >> dm.Sum.per_key() | "panes" >> dm.io.Collect()

    return build


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """Return the checkpoint of a stream in process that was stopped."""
    put_rows(tmp_path / "rows", "1", [(1, "a", 1), (12, "b", 2), (25, "c", 4)])
    result = started(dm.LocalRunner(checkpoint=tmp_path / "checkpoint"), tmp_path)
    while not result.collected("panes"):
        result.wait_until_finish("10 milliseconds")
    result.stop()
    return tmp_path / "checkpoint"


@pytest.fixture
def umask() -> Iterator[None]:
    """Let everybody write to whatever is created with the default mode."""
    before = os.umask(0)
    yield
    os.umask(before)


def started(runner: Any, folder: Path) -> PipelineResult:
    p = dm.Pipeline(runner=runner)
    sums(folder / "rows")(p)
    return p.run()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "others may write" in record.getMessage()]


@pytest.mark.parametrize(
    "name", ["", "dataflow", "local", "dataflow/run.json", "local/run.sqlite", "dataflow/collected/panes"]
)
def test_a_checkpoint_that_everybody_may_write_to_is_refused_before_it_is_read(
    stopped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    target = stopped / name
    target.chmod(0o777 if target.is_dir() else 0o666)
    problem = rf"everybody may write to '{re.escape(str(target))}' in the checkpoint .*\(mode 0(777|666)\)"
    with monkeypatch.context() as patched:
        patched.setattr("dataflow_model.values.pickles.load", None)
        with pytest.raises(dm.UntrustedCheckpoint, match=problem) as caught:
            started(dm.LocalRunner(checkpoint=stopped), tmp_path)
        assert (
            f"\nHint: make sure that its content is yours, and take the permission away: chmod -R o-w {stopped}; or "
            in (str(caught.value))
        )
        with pytest.raises(dm.UntrustedCheckpoint, match=problem):
            dm.upgrade(stopped, tmp_path / "next")
        assert main(["upgrade", str(stopped), str(tmp_path / "next")]) == 1
        assert re.search(problem, capsys.readouterr().err)
    assert not (tmp_path / "next").exists()
    started(dm.LocalRunner(checkpoint=stopped, trust_checkpoint=True), tmp_path).stop()
    assert main(["upgrade", str(stopped), str(tmp_path / "next"), "--trust-checkpoint"]) == 0
    dm.upgrade(stopped, tmp_path / "another", trust_checkpoint=True)


@on_hosts("process", slow=("streaming",))
def test_a_new_checkpoint_in_a_folder_that_everybody_may_write_to_is_refused_and_nothing_written(
    host: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    put_rows(tmp_path / "rows", "1", [(1, "a", 1)])
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    checkpoint.chmod(0o1777)
    with pytest.raises(dm.UntrustedCheckpoint, match=r"mode 1777"):
        started(runner_on(host, request, checkpoint), tmp_path)
    assert not list(checkpoint.iterdir())
    result = run(runner_on(host, request, checkpoint, trust_checkpoint=True), sums(tmp_path / "rows"))
    assert [record.value for record in result.collected("panes")] == [("a", 1)]


@pytest.mark.usefixtures("umask")
def test_a_run_that_creates_its_checkpoint_may_use_it_again_whatever_the_umask(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put_rows(tmp_path / "rows", "1", [(1, "a", 1), (12, "b", 2)])
    for _ in range(2):
        started(dm.LocalRunner(checkpoint=tmp_path / "new" / "checkpoint"), tmp_path).stop()
    assert not warnings(caplog)


def test_files_writable_by_all_are_accepted_in_a_folder_that_only_the_owner_can_enter(tmp_path: Path) -> None:
    offsets = tmp_path / "spark" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "0").touch()
    for path, mode in ((offsets / "0", 0o666), (offsets, 0o777), (tmp_path / "spark", 0o700)):
        path.chmod(mode)
    check_trust(str(tmp_path), is_trusted=False)
    (tmp_path / "spark").chmod(0o711)
    with pytest.raises(dm.UntrustedCheckpoint, match=r"spark/offsets'"):
        check_trust(str(tmp_path), is_trusted=False)


def test_a_checkpoint_that_the_group_may_write_to_is_warned_about_once(
    stopped: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (stopped / "dataflow" / "run.json").chmod(0o660)
    (stopped / "local").chmod(0o770)
    started(dm.LocalRunner(checkpoint=stopped, trust_checkpoint=True), tmp_path).stop()
    assert not warnings(caplog)
    for _ in range(2):
        started(dm.LocalRunner(checkpoint=stopped), tmp_path).stop()
    [warning] = warnings(caplog)
    assert f"the checkpoint {str(stopped)!r}, and its pickles run code when they are read: the group" in warning
    assert ", and 1 more. Change the mode or the owner, or pass trust_checkpoint=True" in warning


@pytest.mark.skipif(bool(os.geteuid()), reason="only root gives files to another user")
def test_a_checkpoint_of_another_user_is_warned_about_once(
    stopped: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    os.chown(stopped / "local" / "run.sqlite", 4_711, 4_711)
    for _ in range(2):
        started(dm.LocalRunner(checkpoint=stopped), tmp_path).stop()
    [warning] = warnings(caplog)
    assert "run.sqlite' belongs to another user (uid 4711). Change the mode" in warning


def test_a_checkpoint_that_belongs_to_root_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid():
        pytest.skip("the files of this test belong to root only if it runs as root")
    monkeypatch.setattr(os, "geteuid", lambda: 4_711)
    check_trust(str(tmp_path), is_trusted=False)
    assert str(tmp_path) not in trust._warned


def test_links_in_a_checkpoint_are_followed_without_endless_loops(tmp_path: Path) -> None:
    checkpoint, elsewhere = tmp_path / "checkpoint", tmp_path / "elsewhere"
    for folder in (checkpoint, elsewhere):
        folder.mkdir(mode=0o700)
    (checkpoint / "local").symlink_to(elsewhere)
    (elsewhere / "circle").symlink_to(checkpoint)
    (elsewhere / "nothing").symlink_to(tmp_path / "nothing")
    check_trust(str(checkpoint), is_trusted=False)
    (elsewhere / "run.sqlite").touch()
    (elsewhere / "run.sqlite").chmod(0o666)
    with pytest.raises(dm.UntrustedCheckpoint, match=r"local/run\.sqlite'"):
        check_trust(str(checkpoint), is_trusted=False)


@pytest.mark.parametrize("kind", ["nfs4", "vfat", "fuse.gcsfuse"])
def test_permissions_are_not_checked_on_file_systems_that_do_not_have_them(tmp_path: Path, kind: str) -> None:
    mounts = tmp_path / "mounts"
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    checkpoint.chmod(0o777)
    mounts.write_text(f"disk / ext4 rw 0 0\nshare {checkpoint} {kind} rw 0 0\n")
    check_trust(str(checkpoint), is_trusted=False, mounts=mounts)
    mounts.write_text("disk / ext4 rw 0 0\n")
    with pytest.raises(dm.UntrustedCheckpoint):
        check_trust(str(checkpoint), is_trusted=False, mounts=mounts)
    with pytest.raises(dm.UntrustedCheckpoint):
        check_trust(str(checkpoint), is_trusted=False, mounts=tmp_path / "none")


def test_trust_checkpoint_must_be_a_bool_and_belongs_to_streams() -> None:
    for make in (
        lambda option: dm.LocalRunner(checkpoint="checkpoint", trust_checkpoint=option),
        lambda option: dm.SparkRunner(None, mode="streaming", checkpoint="checkpoint", trust_checkpoint=option),
        lambda option: dm.upgrade("checkpoint", "next", trust_checkpoint=option),
    ):
        with pytest.raises(dm.InvalidType, match="`trust_checkpoint` must be True or False, got 'checkpoint'"):
            make("checkpoint")
    for runner in (dm.LocalRunner, lambda **options: dm.SparkRunner(None, **options)):
        with pytest.raises(dm.InvalidArgument, match="`trust_checkpoint` applies only to streams, got True with"):
            runner(trust_checkpoint=True)

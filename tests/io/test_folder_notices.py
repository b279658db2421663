"""What the kernel reports about a followed directory: new files among many are found without a listing."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING

import pytest

from dataflow_model.io.listing import folder_notices
from dataflow_model.io.listing.folder_notices import FolderNotices
from dataflow_model.io.listing.listed_folder import SETTLED
from dataflow_model.io.listing.matching import FEW, MOST_NOTICED, Watch
from tests.support.folders import tick
from tests.support.os_calls import record_calls

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has inotify")

MANY = FEW + 10


def notices_of(folder: Path) -> FolderNotices:
    notices = FolderNotices.open(str(folder))
    assert notices is not None
    return notices


def test_notices_name_what_was_added_removed_renamed_and_replaced_since_they_were_last_taken(tmp_path: Path) -> None:
    for name in ("removed", "renamed", "replaced"):
        (tmp_path / name).touch()
    notices = notices_of(tmp_path)
    assert notices.take() == set()
    (tmp_path / "added").touch()
    (tmp_path / "removed").unlink()
    (tmp_path / "renamed").rename(tmp_path / "new name")
    (tmp_path.parent / "outside").touch()
    (tmp_path.parent / "outside").rename(tmp_path / "replaced")
    assert notices.take() == {"added", "removed", "renamed", "new name", "replaced"}
    assert notices.take() == set()


def test_notices_of_a_directory_that_is_moved_away_end(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    notices = notices_of(folder)
    folder.rename(tmp_path / "elsewhere")
    assert notices.take() is None
    assert notices.take() is None


def test_a_file_cannot_be_watched_for_notices(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert FolderNotices.open(str(tmp_path / "file")) is None
    assert FolderNotices.open(str(tmp_path / "missing")) is None


def test_a_forked_process_does_not_consume_the_notices_of_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notices = notices_of(tmp_path)
    (tmp_path / "a").touch()
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: -1)
        assert notices.take() is None
    assert notices.take() == {"a"}


class Watched:
    """A folder of many files under a watch that has asked for notices, and the directories that it lists since then."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.now = 100.0
        for number in range(MANY):
            (folder / f"{number:03}").write_text("rows")
        self.watch = Watch(lambda: self.now)
        for _ in range(3):  # until the directory has settled
            self.look()
        self.listed = record_calls(monkeypatch, folder, "scandir", "listdir")

    def look(self) -> tuple[set[str], set[str]]:
        """Return the names, and the suspects whose turn it is not."""
        self.now += SETTLED
        self.watch._listing, self.watch._each = 1e9, 1e9  # as if looking at everything took an age
        look = self.watch.look((str(self.folder),))
        self.watch.looked()
        return set(look.names), set(look.suspects)

    def arrive(self, name: str) -> None:
        """Let a file appear whole, in a later tick of the file system's clock."""
        (self.folder / "_part").write_text("rows")
        (self.folder / "_part").rename(self.folder / name)
        tick(self.folder)


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(tmp_path, monkeypatch)


def test_a_file_that_appears_among_many_is_found_without_listing_them(watched: Watched) -> None:
    for number in range(3):
        watched.arrive(f"new-{number}")
        names, _ = watched.look()
        assert len(names) == MANY + number + 1
        assert f"new-{number}" in names
        assert watched.look()[0] == names
    assert watched.listed == []


def test_files_that_are_removed_and_replaced_among_many_are_found_without_listing_them(watched: Watched) -> None:
    before, _ = watched.look()
    (watched.folder / "007").unlink()
    watched.arrive("008")
    names, suspects = watched.look()
    assert before - names == {"007"}
    assert "008" in suspects
    assert watched.listed == []


def test_a_directory_that_changes_without_a_notice_is_listed(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FolderNotices, "take", lambda _: set())  # another machine has written to the file system
    watched.arrive("new")
    assert "new" in watched.look()[0]
    assert watched.listed == [str(watched.folder)]


def test_a_directory_is_listed_when_notices_were_lost(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FolderNotices, "take", lambda _: None)
    watched.arrive("new")
    assert "new" in watched.look()[0]
    assert watched.listed == [str(watched.folder)]


def test_a_directory_replaced_by_another_of_the_same_name_is_listed(watched: Watched) -> None:
    watched.folder.rename(watched.folder.with_name("elsewhere"))
    watched.folder.mkdir()
    (watched.folder / "other").touch()
    assert watched.look()[0] == {"other"}


def test_removing_a_directory_does_not_disturb_the_notices_of_others(tmp_path: Path) -> None:
    watch, pattern = Watch(), str(tmp_path / "*" / "*")
    for day in range(MOST_NOTICED + 1):
        folder = tmp_path / str(day)
        folder.mkdir()
        for number in range(MANY):
            (folder / str(number)).touch()
        watch.look((pattern,), full=True)
        assert len(watch.look((pattern,), full=True).names) == MANY
        assert set(watch.folders()) == {str(tmp_path), str(folder)}
        assert watch._folders[str(folder)].notices is not None, "the newest directory is noticed"
        shutil.rmtree(folder)
    assert watch.look((pattern,)).names == {}
    assert watch.folders() == [str(tmp_path)]


def test_directories_with_many_files_are_listed_if_notices_are_not_available(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_notices, "_libc", lambda: None)
    watched = Watched(tmp_path, monkeypatch)
    watched.arrive("new")
    assert "new" in watched.look()[0]
    assert watched.listed == [str(tmp_path)]

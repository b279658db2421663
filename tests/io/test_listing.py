"""Looks at followed paths: prompt about names, cheap where nothing has changed, and never blind to a file."""

from __future__ import annotations

import os
import pickle
import shutil
from typing import TYPE_CHECKING

import attrs
import pytest

from dataflow_model.errors import SourceError
from dataflow_model.io.listing import folder_notices
from dataflow_model.io.listing import matching as listing
from dataflow_model.io.listing.listed_folder import SETTLED, TICK
from dataflow_model.io.listing.matching import FEW, SHARE, Watch, list_files
from dataflow_model.io.parquet.parquet_source import ParquetSource
from dataflow_model.runners.sharded.feed.origins import SourceOffset
from tests.support.folders import SCHEMA, Folder, tick
from tests.support.os_calls import record_calls

if TYPE_CHECKING:
    from pathlib import Path

    from dataflow_model.io.files.file_source import FileSource


@attrs.define
class Clock:
    """Stands still but for what a look takes: a microsecond each time it is read."""

    now: float = 100.0

    def __call__(self) -> float:
        self.now += 1e-6
        return self.now


@pytest.fixture(autouse=True)
def no_notices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do without notices of the kernel, as on other systems and other machines' file systems."""
    monkeypatch.setattr(folder_notices, "_libc", lambda: None)


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the directories that are listed."""
    return record_calls(monkeypatch, tmp_path, "scandir", "listdir")


@pytest.fixture
def always_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat every folder as one with many files."""
    monkeypatch.setattr(listing, "FEW", -1)


def suspects(watch: Watch, path: Path) -> set[str]:
    return set(watch.look((str(path),)).suspects)


def keep_from_looking_at_everything(watch: Watch) -> None:
    """Have the watch take it that listing everything, or looking at a file, takes an age."""
    watch.looked()
    watch._listing = watch._each = 1e9


def replace(folder: Path, name: str) -> None:
    """Let another file take the place of one, in a later tick of the file system's clock."""
    (folder.parent / "new").write_text("other")
    (folder.parent / "new").rename(folder / name)
    tick(folder)


def long_ago(path: Path) -> None:
    os.utime(path, ns=(10**9, 10**9))


@pytest.mark.usefixtures("always_many")
def test_only_a_replaced_file_has_to_be_checked_again(tmp_path: Path) -> None:
    watch = Watch(Clock())
    for name in "abc":
        (tmp_path / name).write_text(name)
    assert suspects(watch, tmp_path) == {"a", "b", "c"}
    keep_from_looking_at_everything(watch)
    replace(tmp_path, "b")
    assert suspects(watch, tmp_path) == {"b"}
    assert suspects(watch, tmp_path) == set()


@pytest.mark.usefixtures("always_many")
def test_a_file_replaced_while_other_files_appear_and_disappear_is_eventually_found(tmp_path: Path) -> None:
    watch = Watch(Clock())
    for name in "abc":
        (tmp_path / name).write_text(name)
    assert suspects(watch, tmp_path) == {"a", "b", "c"}
    keep_from_looking_at_everything(watch)
    (tmp_path / "_new").write_text("other")
    (tmp_path / "_new").rename(tmp_path / "b")
    (tmp_path / "d").write_text("d")
    (tmp_path / "c").unlink()
    tick(tmp_path)
    look = watch.look((str(tmp_path),))
    assert (set(look.names), set(look.suspects)) == ({"a", "b", "d"}, set())
    watch._listing = 0.0
    assert suspects(watch, tmp_path) == {"b"}


@pytest.mark.usefixtures("always_many")
def test_a_file_that_becomes_a_directory_under_its_own_inode_is_listed_as_one(tmp_path: Path) -> None:
    watch = Watch(Clock())
    for _ in range(20):  # a file system may give the inode of what was removed to what comes next
        (tmp_path / "a").write_text("a")
        assert set(watch.look((str(tmp_path),), full=True).names) == {"a"}
        (tmp_path / "a").unlink()
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / "b").write_text("b")
        assert set(watch.look((str(tmp_path),), full=True).names) == {"a/b"}
        shutil.rmtree(tmp_path / "a")


@pytest.mark.usefixtures("always_many")
def test_files_are_checked_for_changes_in_turns(tmp_path: Path) -> None:
    clock = Clock()
    watch = Watch(clock)
    for name in "abcdefghij":
        (tmp_path / name).write_text(name)
    assert suspects(watch, tmp_path) == set("abcdefghij")
    clock.now += 10.0  # a second for each file
    watch.looked()
    turns = []
    for _ in range(4):
        clock.now += 3.01 * SHARE
        turns.append(suspects(watch, tmp_path))
        clock.now += len(turns[-1])
        watch.looked()
    assert [len(turn) for turn in turns] == [3, 3, 3, 3]
    assert set().union(*turns) == set("abcdefghij")


@pytest.mark.usefixtures("always_many")
def test_a_file_replaced_after_its_turn_is_found_when_all_files_are_checked_again(tmp_path: Path) -> None:
    clock = Clock()
    watch = Watch(clock)
    for name in "abcdefghij":
        (tmp_path / name).write_text(name)
    suspects(watch, tmp_path)
    clock.now += 10.0  # a second for each file
    watch.looked()
    clock.now += 3.01 * SHARE
    for name in suspects(watch, tmp_path):
        replace(tmp_path, name)
    suspects(watch, tmp_path)
    watch.looked()
    watch._each = 1.0
    clock.now += 11.0 * SHARE
    assert suspects(watch, tmp_path) == set("abcdefghij")


@pytest.mark.usefixtures("always_many")
def test_all_files_are_checked_again_when_that_takes_a_small_share_of_the_time(tmp_path: Path) -> None:
    clock = Clock()
    watch = Watch(clock)
    (tmp_path / "a").write_text("a")
    assert suspects(watch, tmp_path) == {"a"}
    clock.now += 2.0  # which is what it takes to look at the files
    watch.looked()
    clock.now += 2.0 * SHARE - 1.0
    assert suspects(watch, tmp_path) == set()
    clock.now += 1.1
    assert suspects(watch, tmp_path) == {"a"}
    assert suspects(pickle.loads(pickle.dumps(watch)), tmp_path) == {"a"}


def test_a_small_number_of_files_is_checked_at_each_poll(tmp_path: Path) -> None:
    watch = Watch(Clock())
    (tmp_path / "a").write_text("a")
    for _ in range(3):
        assert suspects(watch, tmp_path) == {"a"}


@pytest.mark.usefixtures("always_many")
def test_a_directory_that_has_not_changed_recently_is_not_listed_until_it_changes(
    tmp_path: Path, listed: list[str]
) -> None:
    clock = Clock()
    watch = Watch(clock)
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "a").write_text("a")
    suspects(watch, tmp_path)
    keep_from_looking_at_everything(watch)
    listed.clear()
    suspects(watch, tmp_path)
    assert listed == []
    clock.now += TICK  # what happened in the tick in which it was listed is in the next list
    suspects(watch, tmp_path)
    assert listed == [str(tmp_path), str(tmp_path / "below")]
    suspects(watch, tmp_path)
    (tmp_path / "below" / "b").write_text("b")
    tick(tmp_path / "below")
    assert set(watch.look((str(tmp_path),)).names) == {"below/a", "below/b"}
    assert listed[2:] == [str(tmp_path / "below")]


@pytest.mark.usefixtures("always_many")
def test_a_directory_with_a_coarse_clock_is_listed_at_each_poll_until_it_stops_changing(
    tmp_path: Path, listed: list[str]
) -> None:
    clock = Clock()
    watch = Watch(clock)
    long_ago(tmp_path)
    suspects(watch, tmp_path)
    keep_from_looking_at_everything(watch)
    for _ in range(3):  # its time of modification may be that of something that happens next
        suspects(watch, tmp_path)
    assert len(listed) == 4
    clock.now += SETTLED
    suspects(watch, tmp_path)
    suspects(watch, tmp_path)
    assert len(listed) == 5


@pytest.mark.usefixtures("always_many")
def test_a_file_that_appears_within_one_tick_of_a_coarse_clock_is_found(tmp_path: Path) -> None:
    clock = Clock()
    watch = Watch(clock)
    (tmp_path / "a").write_text("a")
    long_ago(tmp_path)
    suspects(watch, tmp_path)
    keep_from_looking_at_everything(watch)
    (tmp_path / "b").write_text("b")
    long_ago(tmp_path)
    assert set(watch.look((str(tmp_path),)).names) == {"a", "b"}


@pytest.mark.usefixtures("always_many")
def test_a_full_listing_finds_new_files_if_directories_have_no_modification_times(tmp_path: Path) -> None:
    clock = Clock()
    watch = Watch(clock)
    for number in range(4):
        (tmp_path / str(number)).write_text("")
        long_ago(tmp_path)
        clock.now += 10 * SETTLED
        assert str(number) in watch.look((str(tmp_path),)).names


def everything(path: Path) -> None:
    for name in ("a.csv", "b.csv", "b.json", "_c.csv", ".d.csv", "in/a.csv", "in/x/e.csv", "_in/f.csv", "dir.csv/g"):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(name)
    (path / "elsewhere" / "deep").mkdir(parents=True)
    (path / "elsewhere" / "deep" / "h.csv").write_text("h")
    (path / "in" / "link.csv").symlink_to(path / "a.csv")
    (path / "linked.csv").symlink_to(path / "elsewhere")


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("", "a.csv b.csv b.json dir.csv/g elsewhere/deep/h.csv in/a.csv in/link.csv in/x/e.csv"),
        ("*.csv", "a.csv b.csv dir.csv/g linked.csv/deep/h.csv"),
        ("b.*", "b.csv b.json"),
        ("in/*.csv", "a.csv link.csv"),
        ("i?/*", "in/a.csv in/link.csv in/x/e.csv"),
        (
            "**/*.csv",
            "a.csv b.csv dir.csv/g elsewhere/deep/h.csv in/a.csv in/link.csv in/x/e.csv linked.csv/deep/h.csv",
        ),
        ("in/**", "a.csv link.csv x/e.csv"),
        ("_*.csv", ""),
        ("_in/*.csv", "f.csv"),
        ("a.csv", "a.csv"),
        ("none/*.csv", ""),
    ],
)
def test_a_path_means_the_same_files_at_each_poll(tmp_path: Path, pattern: str, expected: str) -> None:
    everything(tmp_path)
    paths = (str(tmp_path / pattern),)
    watch = Watch(Clock())
    for _ in range(3):
        assert sorted(watch.look(paths).names) == expected.split()
    assert list_files(paths) == expected.split()


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("**/*.csv", "2013/a.csv 2013/b/c.csv"),
        ("**", "2013/a.csv 2013/b/c.csv"),
        ("2013/**/*.csv", "a.csv b/c.csv"),
        ("**/**/*.csv", "2013/a.csv 2013/b/c.csv"),
        ("**/b/*.csv", "2013/b/c.csv"),
        ("l*/*.csv", "latest/a.csv"),
        ("latest/**/*.csv", "a.csv b/c.csv"),
        ("latest", "a.csv b/c.csv"),
    ],
)
def test_a_link_to_a_directory_is_followed_if_it_is_named_but_not_by_two_stars(
    tmp_path: Path, pattern: str, expected: str
) -> None:
    (tmp_path / "2013" / "b").mkdir(parents=True)
    for name in ("a.csv", "b/c.csv"):
        (tmp_path / "2013" / name).write_text(name)
    (tmp_path / "latest").symlink_to("2013")
    (tmp_path / "2013" / "b" / "all").symlink_to(tmp_path)
    watch = Watch(Clock())
    for _ in range(3):
        assert sorted(watch.look((str(tmp_path / pattern),)).names) == expected.split()


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("", "link.csv pipe.csv"),
        ("*", "link.csv pipe.csv"),
        ("**/*.csv", "link.csv pipe.csv"),
        ("pipe.csv", "pipe.csv"),
        ("link.csv", "link.csv"),
    ],
)
def test_named_pipes_and_links_to_them_are_not_listed(tmp_path: Path, pattern: str, expected: str) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    os.mkfifo(folder / "pipe.csv")
    (folder / "link.csv").symlink_to("pipe.csv")
    paths = (str(folder / pattern),)
    watch = Watch(Clock())
    assert not watch.look(paths).names
    (folder / "pipe.csv").unlink()
    (folder / "pipe.csv").write_text("rows")
    assert sorted(watch.look(paths).names) == expected.split()


def test_a_directory_whose_name_looks_like_a_pattern_is_taken_literally(tmp_path: Path) -> None:
    for name in ("run[1]/a.csv", "run1/b.csv"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(name)
    assert list_files((str(tmp_path / "run[1]" / "*.csv"),)) == ["a.csv"]


def test_files_of_several_paths_are_named_relative_to_their_common_directory(tmp_path: Path) -> None:
    everything(tmp_path)
    paths = tuple(str(tmp_path / name) for name in ("in/*.csv", "_in", "a.csv", "a.csv"))
    assert list_files(paths) == ["_in/f.csv", "a.csv", "in/a.csv", "in/link.csv"]


# What a source does with it.


class Poller:
    """Polls one source as a long-lived process does, with what the poll before has found."""

    def __init__(self, source: FileSource) -> None:
        self.source = source
        self.known = SourceOffset()

    def poll(self) -> dict[str, int]:
        """Return the changes; everything that was there counts as read."""
        known = self.known.advanced({name: origin.left for name, origin in self.known.open.items()}).finished()
        self.known = known.listed(self.source, self.source.poll(known, 0), "files")
        return {**{name: origin.left for name, origin in self.known.open.items()}, **self.known.changes}


@pytest.fixture
def poller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Folder, Poller]:
    """Return a folder with more files than are looked at in each poll, all of them read, and who polls it."""
    folder = Folder(tmp_path / "in")
    folder.put("0", [1])
    for number in range(1, FEW + 1):
        folder.file(str(number)).hardlink_to(folder.file("0"))
    poller = Poller(ParquetSource(paths=folder.path, event_time="at", follow=True, given=SCHEMA))
    assert len(poller.poll()) == FEW + 1
    assert poller.poll() == {}
    return folder, poller


def test_a_poll_checks_only_new_files_however_many_are_known(
    poller: tuple[Folder, Poller], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, polls = poller
    keep_from_looking_at_everything(polls.source._watch)
    folder.put("new", [1, 2])
    with monkeypatch.context() as patch:
        looked_at = record_calls(patch, folder.path, "stat")
        assert polls.poll() == {"new.parquet": 2}
    assert {path for path in looked_at if path.endswith(".parquet")} == {str(folder.file("new"))}
    folder.remove("7")
    assert polls.poll() == {}
    assert polls.known.get("7.parquet") is None
    folder.put("8", [1, 2, 3])
    assert polls.poll() == {"8.parquet": 3, "files_replaced": 1}


def test_a_file_overwritten_in_place_among_many_is_found_when_its_turn_comes(
    poller: tuple[Folder, Poller], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, polls = poller
    clock = Clock(polls.source._watch._clock())
    monkeypatch.setattr(polls.source._watch, "_clock", clock)
    other = Folder(folder.path.parent / "other")
    other.put("export", [1, 2, 3, 4])
    folder.put("9", [1])
    assert polls.poll() == {"9.parquet": 1, "files_replaced": 1}
    shutil.copyfile(other.file("export"), folder.file("9"))
    clock.now += 3_600
    assert polls.poll() == {"9.parquet": 4, "files_replaced": 1}


@pytest.mark.parametrize("pattern", ["", "*.parquet", "*/*.parquet"])
def test_a_folder_that_cannot_be_reached_is_an_error_and_not_an_empty_folder(tmp_path: Path, pattern: str) -> None:
    Folder(tmp_path / "disk" / "rows").put("a", [1])
    mounted = tmp_path / "mounted"
    mounted.symlink_to(tmp_path / "disk")
    path = str(mounted / "rows" / pattern)
    watch = Watch()
    watch.look((path,))
    mounted.unlink()
    assert not watch.look((path,)).names  # it may appear later
    mounted.symlink_to(mounted)  # looking at anything below fails, but not because it is missing
    with pytest.raises(SourceError, match=r"rows.* cannot be read: Too many levels of symbolic links"):
        watch.look((path,))

"""List the files that a source's paths match now, and those that have to be examined again.

A poll of a followed folder must notice files that appear and disappear, and files that are replaced or written to. To
look at each file every time would make a poll slow in a folder with many files, so three means share the work:

* A directory is listed by names, without looking at its files. That shows files that appear and disappear. If none
  does, but the directory has changed, its files are compared by the numbers of their inodes, which shows files that are
  replaced by renaming another into their place.
* A directory whose time of modification has not changed is not even listed. Since something may happen in the tick of
  the file system's clock in which the directory was listed, it is listed once more when that tick must be over: after
  `TICK` seconds, or after `SETTLED` where the time is in whole seconds (2 seconds on FAT).
* In a directory with more than `FEW` names, the kernel is asked which names change (see `folder_notices`). If it
  reports any, only these are looked at, and nothing is listed. It reports everything that this machine does; if the
  directory's time of modification changes without a notice, as when another machine writes to a network file system,
  the directory is listed.
* Writing to a file in place changes neither its directory nor its inode. So the files take turns to be looked at, all
  of them at each poll while there are at most `FEW`, else as many as take one part in `SHARE` of the time. In a folder
  with 10,000 files, each one's turn comes within some seconds.

Now and then every directory is listed with its inodes, whether it seems to have changed or not: at each poll while
there are at most `FEW` files, else whenever `SHARE` times as long has passed as that took, or `SHARE_NOTICED` times
where there are notices. This finds what happens on network file systems that keep no time of modification for
directories, and a file that is replaced just when another appears.
"""

from __future__ import annotations

import contextlib
import fnmatch
import itertools
import operator
import os
import re
import time
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from dataflow_model.io.listing.file_identity import is_missing
from dataflow_model.io.listing.listed_folder import ListedFolder, Names
from dataflow_model.io.listing.paths import root_of
from dataflow_model.plan.columns.natural_order import natural

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

FEW: Final = 50
SHARE: Final = 20
SHARE_NOTICED: Final = 100
MOST_NOTICED: Final = 8
"""The maximum number of directories to request notices of: by default, Linux allows a user 128 in total."""

_WILD: Final = re.compile(r"[*?\[]")
_SEP: Final = os.sep


class Listing(NamedTuple):
    """The result of examining the paths.

    Attributes:
        names: the files that exist.
        suspects: the files to examine: all of them after a full look, otherwise those whose inode has changed and those
            whose turn it is.
    """

    names: Names
    suspects: Collection[str]


class Watch:
    """Lists the same paths again and again, and remembers what it has found. A pickled copy remembers nothing.

    Files found in a directory or by a glob are left out when they, or a directory between, begin with `_` or `.`.
    Links to directories are followed only where a path or a part of a glob names them, which `**` does not: it means
    directories alone. Pipes, sockets and devices are left out.

    Args:
        clock: returns seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._folders: dict[str, ListedFolder] = {}
        self._devices: dict[str, int] = {}
        self._seen: set[str] = set()
        self._matching: dict[tuple[str, str], tuple[Names | None, Names]] = {}
        self._parts: list[Names] = []
        self._names: Names = {}
        self._replaced: list[str] = []
        self._listed = -float("inf")
        self._listing = 0.0
        self._noticed = 0
        self._turn: Iterator[str] = iter(())
        self._offered = 0
        self._looking = self._looked = -float("inf")
        self._each = 0.0
        self._skips: Callable[[str], bool] | None = None

    def __reduce__(self) -> tuple[type[Self], tuple[()]]:
        return type(self), ()

    def look(
        self, paths: tuple[str, ...], *, full: bool = False, skips: Callable[[str], bool] | None = None
    ) -> Listing:
        """Return the files that the paths match now.

        Args:
            paths: absolute paths and globs; the same ones each time.
            full: whether all files are to be examined, even if it is not their turn.
            skips: whether a folder is left out, with whatever is in it, because of its name; the same one each time.

        Raises:
            SourceError: when a directory cannot be listed.
        """
        start = self._clock()
        if not self._devices:
            self.absent_roots(paths)
        self._skips = skips
        full = full or len(self._names) <= FEW
        share = SHARE_NOTICED if self._is_noticed() else SHARE
        lists_all = full or start - self._listed >= share * self._listing
        self._replaced.clear()
        self._names = self._list(paths, full=lists_all)
        if lists_all:
            self._listed = self._clock()
            self._listing = self._listed - start
        suspects: Collection[str] = self._names
        if not full:
            suspects = self._in_turn() + [name for name in self._replaced if name in self._names]
        self._offered, self._looking = len(suspects), self._clock()
        return Listing(self._names, suspects)

    def folders(self) -> list[str]:
        """Return the directories that have been looked at."""
        return list(self._folders)

    def absent_roots(self, paths: tuple[str, ...]) -> list[str]:
        """Return the folders in which the paths begin that are not there, or not the file system that was seen first.

        Args:
            paths: those of `look`.
        """
        absent = []
        for path in paths:
            root = path
            while _WILD.search(root):
                root = os.path.dirname(root)  # noqa: PTH120
            try:
                device = os.stat(root).st_dev  # noqa: PTH116
            except OSError:
                absent.append(root)
                continue
            if self._devices.setdefault(root, device) != device:
                absent.append(root)
        return absent

    def looked(self) -> None:
        """Record that the suspects of the last look have been examined, to measure how long that takes."""
        self._looked = self._clock()
        if self._offered:
            self._each = (self._looked - self._looking) / self._offered

    def _in_turn(self) -> list[str]:
        """Return the files whose turn it is: as many as can be examined in their share of the time."""
        share = (self._clock() - self._looked) / SHARE
        if share >= self._each * len(self._names):
            return list(self._names)  # not the rest of a round and a part of the next: their order may have changed
        count = int(share / self._each)
        turn = list(itertools.islice(self._turn, count))
        if len(turn) < count:
            self._turn = iter(list(self._names))
            turn += itertools.islice(self._turn, count - len(turn))
        return [name for name in turn if name in self._names]

    def _is_noticed(self) -> bool:
        """Return whether the kernel reports the changes of all names but a few."""
        return sum(folder.size for folder in self._folders.values() if folder.notices is None) <= FEW

    def _list(self, paths: tuple[str, ...], *, full: bool) -> Names:
        """Return the files that exist now; the same object as before if nothing has changed."""
        cut = len(root_of(paths).rstrip(_SEP)) + 1
        before, self._parts = self._parts, []
        self._seen.clear()
        for path in paths:
            if self._skips is not None and any(map(self._skips, _folders_of(path, cut))):
                continue
            if os.path.isfile(path):  # noqa: PTH113 - text is enough, here and below
                self._add_file(path, cut)
            elif os.path.isdir(path):  # noqa: PTH112
                self._add_tree(path, cut, full=full)
            else:
                self._add_matches(path, cut, full=full)
        if len(self._folders) > len(self._seen):
            self._forget_removed()
        if len(before) == len(self._parts) and all(map(operator.is_, before, self._parts)):
            return self._names
        if len(self._parts) == 1:
            return self._parts[0]
        return {name: inode for part in self._parts for name, inode in part.items()}

    def _add_file(self, path: str, cut: int) -> None:
        inode = 0
        with contextlib.suppress(OSError):  # whoever looks at the file finds out
            inode = os.stat(path).st_ino  # noqa: PTH116
        if self._names.get(path[cut:], inode) != inode:
            self._replaced.append(path[cut:])
        self._parts.append({path[cut:]: inode})

    def _add_tree(self, path: str, cut: int, *, full: bool) -> None:
        """Add the files below a directory."""
        folder = self._look_at(path, cut, full=full)
        self._parts.append(folder.files)
        for name in self._not_skipped(folder.folders):
            self._add_tree(os.path.join(path, name), cut, full=full)  # noqa: PTH118

    def _not_skipped(self, folders: Iterable[str]) -> Iterable[str]:
        return folders if self._skips is None else itertools.filterfalse(self._skips, folders)

    def _add_matches(self, pattern: str, cut: int, *, full: bool) -> None:
        """Add the files that a glob matches, and those below the directories that it matches."""
        is_missing(pattern)  # raises where a directory cannot be entered, which looks empty below
        base, parts = pattern, list[str]()
        while not parts or (_WILD.search(base) and not os.path.isdir(base)):  # noqa: PTH112
            base, _, part = base.rpartition(_SEP)
            parts.insert(0, part)
        if os.path.isdir(base or _SEP):  # noqa: PTH112
            self._add_matches_below(base or _SEP, parts, cut, full=full)

    def _add_matches_below(self, path: str, parts: list[str], cut: int, *, full: bool) -> None:
        """Add what the last parts of a glob match below a directory."""
        first, *rest = parts
        if first == "**":
            if not rest:
                self._add_tree(path, cut, full=full)
                return
            self._add_matches_below(path, rest, cut, full=full)
        folder = self._look_at(path, cut, full=full)
        if first == "**":
            for name in self._not_skipped(folder.folders):
                self._add_matches_below(os.path.join(path, name), parts, cut, full=full)  # noqa: PTH118
            return
        matches = re.compile(fnmatch.translate(first)).match
        if not rest:
            self._parts.append(self._matching_files(folder, first))
        for name in self._not_skipped((*folder.folders, *folder.links)):
            if matches(name):
                below = os.path.join(path, name)  # noqa: PTH118
                if rest:
                    self._add_matches_below(below, rest, cut, full=full)
                else:
                    self._add_tree(below, cut, full=full)

    def _matching_files(self, folder: ListedFolder, pattern: str) -> Names:
        """Return the files in a directory whose names match; the same object as before if nothing has changed."""
        key = folder.path, pattern
        files, matching = self._matching.get(key, (None, {}))
        if files is not folder.files:
            matches, start = re.compile(fnmatch.translate(pattern)).match, len(folder.prefix)
            matching = {name: inode for name, inode in folder.files.items() if matches(name, start)}
            self._matching[key] = folder.files, matching
        return matching

    def _look_at(self, path: str, cut: int, *, full: bool) -> ListedFolder:
        """Return the content of a directory, which is examined once per look even if several paths lead to it."""
        folder = self._folders.get(path)
        if folder is None:
            folder = self._folders[path] = ListedFolder(path, f"{path}{_SEP}"[cut:].lstrip(_SEP))
        if path not in self._seen:
            self._seen.add(path)
            noticed = folder.notices is not None
            folder.look(self._clock, full=full, asks=folder.size > FEW and self._noticed < MOST_NOTICED)
            self._noticed += (folder.notices is not None) - noticed
            self._replaced += folder.replaced
        return folder

    def _forget_removed(self) -> None:
        """Forget the directories that this look has not reached, and their notices."""
        for path in self._folders.keys() - self._seen:
            self._noticed -= self._folders.pop(path).notices is not None
        self._matching = {key: files for key, files in self._matching.items() if key[0] in self._folders}


def list_files(paths: tuple[str, ...], skips: Callable[[str], bool] | None = None) -> list[str]:
    """Return the files that the paths match now, in natural order, each relative to `root_of(paths)`.

    `skips` is as in `look`.

    Raises:
        SourceError: when a directory cannot be listed.
    """
    return sorted(Watch().look(paths, skips=skips).names, key=natural)


def _folders_of(path: str, cut: int) -> list[str]:
    """Return the names of the folders in a path below the common one that are no part of a glob."""
    folders = path[cut:].split(_SEP)
    return [name for name in (folders if os.path.isdir(path) else folders[:-1]) if not _WILD.search(name)]  # noqa: PTH112

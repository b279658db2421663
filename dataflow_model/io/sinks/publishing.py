"""Publishing pending files under their final names, once per commit, whatever crashes in between.

Below the output directory, readers see `part-…` files only; `_pending/<commit>/` holds what tasks write,
`_dead_letters/` the rows that did not fit, and `_commits/` one file per commit:

* `<commit>+pending` lists the final names and is written before the first rename;
* `<commit>` is the same file, renamed after the last one: the commit is published, and repeating it changes nothing.

A stream repeats at most its last commit, so each commit removes the files of earlier ones of the same run. For each of
the last starts of the run, the file of its last commit is kept: all commits of a start up to its last are published,
also those that the run repeats because its checkpoint was restored from a copy.

A commit that was interrupted can be repeated in two ways. Repeated with the same pending files, it is rolled forward: a
file that is no longer pending and has its final name was renamed earlier and is left alone. Repeated with files that
were written anew, it first removes what the earlier attempt had renamed, which `<commit>+pending` lists.

This holds when a process dies. For it to hold when the machine does, pass `sync=True`: `sync_pending` then puts the
pending files and their names on disk, and `publish` returns once the final names are there. Otherwise it holds as far
as the file system keeps the order of renames.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote

from dataflow_model.errors import SinkError
from dataflow_model.plan.endpoints.sinks import KnownCommits
from dataflow_model.runners.sharded.outputs.commit_ids import CommitId

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PENDING: Final = "_pending"
BEGUN: Final = "+pending"
"""How the name of a commit's list of files ends until the commit is published."""
PART: Final = ".part"
"""How the name of a file ends until it is whole."""
JOURNAL: Final = "+run"
"""How the name of the journal of a bounded run ends; see `earlier_output`."""
_STARTS: Final = 8
"""The number of starts of a run whose last commit is remembered."""
COMMITS: Final = "_commits"
DEAD_LETTERS: Final = "_dead_letters"


def safe_name(text: str) -> str:
    """Return an id as a part of a file's name.

    Example:
        >>> safe_name("run/7"), safe_name("..")
        ('run%2F7', '%2E%2E')
    """
    name = quote(text, safe="")
    return name if name.strip(".") else "%2E" * len(name) or "%"


def pending_directory(path: str, commit_id: str) -> Path:
    """Return where the tasks of a commit write."""
    return Path(path, PENDING, safe_name(commit_id))


def sync_pending(path: str, commit_id: str, names: Sequence[str]) -> None:
    """Sync pending files and their names to disk.

    Raises:
        OSError: when one is not there or cannot be synced.
    """
    pending = pending_directory(path, commit_id)
    for name in names:
        _sync(pending / name)
    for directory in (pending, pending.parent, Path(path)):
        _sync(directory)


def publish(path: str, commit_id: str, files: Sequence[tuple[str, str]], *, sync: bool = False) -> None:
    """Rename files of a commit into place, apart from those that an interrupted attempt has renamed already.

    Args:
        path: the output directory.
        commit_id: the commit.
        files: `(name in the directory of pending files, final name below path)` pairs.
        sync: whether to return only once the final names are on disk.

    Raises:
        SinkError: when a file is neither pending nor published, or a name cannot be written.
    """
    pending = pending_directory(path, commit_id)
    published = Path(path, COMMITS, safe_name(commit_id))
    manifest = published.with_name(published.name + BEGUN)
    known = _published(published.parent)
    if commit_id in known or _is_earlier(commit_id, known):
        _discard(pending)
        return
    try:
        renamed = {name for source, name in files if not (pending / source).exists() and Path(path, name).exists()}
        if manifest.exists():
            for name in _listed(manifest, path, commit_id) - renamed:
                Path(path, name).unlink(missing_ok=True)
        if files:
            published.parent.mkdir(parents=True, exist_ok=True)
            _write_whole(manifest, json.dumps([name for _, name in files]), sync=sync)
            _rename(path, pending, [file for file in files if file[1] not in renamed])
            if sync:
                _sync_names(path, files)
            manifest.replace(published)
            for commit in _needless({*known, commit_id}, commit_id):
                forget(path, commit)
        else:
            manifest.unlink(missing_ok=True)
    except OSError as error:
        raise SinkError(
            f"commit {commit_id} cannot be published in {path}: {error}",
            hint="make sure that workers and driver see the same directory and can write to it",
        ) from error
    _discard(pending)


def publish_part(path: str, commit_id: str, files: Sequence[tuple[str, str]], *, sync: bool) -> None:
    """Publish one part of a commit immediately, and replace what an earlier attempt has published of it.

    The arguments are those of `publish`.

    Raises:
        SinkError: when a name cannot be written.
    """
    try:
        _rename(path, pending_directory(path, commit_id), files)
        if sync:
            _sync_names(path, files)
    except OSError as error:
        raise SinkError(
            f"a part of commit {commit_id} cannot be published in {path}: {error}",
            hint="make sure that all workers see the same directory and can write to it",
        ) from error


def forget(path: str, commit_id: str) -> None:
    """Remove the record that a commit is published; it is removed later, or stays, if that is not possible now."""
    with contextlib.suppress(OSError):
        Path(path, COMMITS, safe_name(commit_id)).unlink()


def discard(path: str, commit_id: str) -> None:
    """Remove the pending files of a commit, and the directory of pending files when nothing else is in it."""
    _discard(pending_directory(path, commit_id))


def known_commits(path: str, run_id: str) -> KnownCommits:
    """Return the commits whose ids begin with the id of a run."""
    published = {name.removesuffix(BEGUN) for name in names_in(Path(path, COMMITS))}  # at least in part
    return KnownCommits(_of_run(run_id, published), _of_run(run_id, set(names_in(Path(path, PENDING)))))


def _published(commits: Path) -> set[str]:
    """Return the ids of the commits whose files are known to be published."""
    return {unquote(name) for name in names_in(commits) if not name.endswith((BEGUN, JOURNAL, PART))}


def _is_earlier(commit_id: str, known: Iterable[str]) -> bool:
    """Return whether a later commit of the same start of the run is published, and so this one was before."""
    own = CommitId.of(commit_id)
    others = filter(None, map(CommitId.of, known))
    return own is not None and any(other[:2] == own[:2] and other.number > own.number for other in others)


def _needless(known: Iterable[str], commit_id: str) -> set[str]:
    """Return which published commits of a run need not be remembered: all but the last ones of its last starts.

    Args:
        known: the published commits.
        commit_id: any of the run.
    """
    own = CommitId.of(commit_id)
    last: dict[int, tuple[int, str]] = {}
    of_run = {name: commit for name in known if own and (commit := CommitId.of(name)) and commit.run == own.run}
    for name, commit in of_run.items():
        last[commit.start] = max(last.get(commit.start, (-1, "")), (commit.number, name))
    return of_run.keys() - {last[start][1] for start in sorted(last)[-_STARTS:]}


def names_in(directory: Path) -> list[str]:
    """Return the names in a directory; none if there is no such directory."""
    try:
        return os.listdir(directory)  # noqa: PTH208 - only names
    except FileNotFoundError:
        return []


def _of_run(run_id: str, names: Iterable[str]) -> list[str]:
    return sorted(commit for commit in map(unquote, names) if commit.startswith(run_id))


def _discard(pending: Path) -> None:
    shutil.rmtree(pending, ignore_errors=True)
    try:
        pending.parent.rmdir()
    except OSError:  # another commit's files are in it, or it is gone
        return


def _rename(path: str, pending: Path, files: Sequence[tuple[str, str]]) -> None:
    for source, name in files:
        final = Path(path, name)
        final.parent.mkdir(parents=True, exist_ok=True)
        (pending / source).replace(final)


def _sync_names(path: str, files: Sequence[tuple[str, str]]) -> None:
    """Sync the final names to disk."""
    parents = {parent for _, name in files for parent in Path(name).parents}
    for directory in sorted({Path(path), *(Path(path, parent) for parent in parents)}, reverse=True):
        _sync(directory)


def _sync(path: Path) -> None:
    """Sync the content of a file, or the names in a directory, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _listed(manifest: Path, path: str, commit_id: str) -> set[str]:
    """Return the final names of an attempt that was interrupted."""
    try:
        return set(json.loads(manifest.read_text()))
    except ValueError as error:
        raise SinkError(
            f"commit {commit_id} cannot be published in {path}: {manifest} is damaged, as a power failure may leave it",
            hint=f"remove it and the files that begin with 'part-{safe_name(commit_id)}-' in {path} and in "
            f"{DEAD_LETTERS}/ there, and start the run again: it writes them anew",
        ) from error


def _write_whole(path: Path, text: str, *, sync: bool) -> None:
    """Write a file that is either complete or absent after a crash; with `sync`, also after a power failure."""
    part = path.with_name(f"{path.name}.{os.getpid()}{PART}")
    part.write_text(text)
    if sync:
        _sync(part)
    part.replace(path)

"""The output of earlier runs in a folder: a run is rejected because of it, adds to it, or replaces it in one step.

A bounded run commits once, and no later start of it finishes a commit that was interrupted. So the run writes a
journal, `_commits/<commit>+run`, before the first file gets its final name: it lists the files of the run and those
that it replaces. The run is *decided* once `_commits/<commit>` is there, since all its files are then published; until
then the files of earlier runs stay. The process locks the journal as long as it publishes. Whoever uses the folder
next, and finds a journal whose process has died, settles it: of a run that was decided it removes what the run
replaces, of any other run what was published of it. The folder then has the old output or the new, whole.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from urllib.parse import unquote

from dataflow_model.errors import SinkError
from dataflow_model.io.sinks.publishing import (
    BEGUN,
    COMMITS,
    DEAD_LETTERS,
    JOURNAL,
    PART,
    discard,
    names_in,
    publish,
    safe_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

IfExists: TypeAlias = Literal["error", "add", "replace"]
"""What a run does in a folder that has output already."""
IF_EXISTS: Final = ("error", "add", "replace")
_OURS: Final = re.compile(r"part-[0-9a-f]{12}(-[0-9a-f]{8})?(-[0-9a-f]{12,})?(-\d{8,})?-[^/]+\Z")
"""The names of files: the run, its edition, its start, the number of the commit, and the task."""


def check_earlier_output(path: str, label: str, run_id: str, if_exists: IfExists) -> None:
    """Raise `SinkError` if a run that has not committed yet would write to a folder with files that are not its own.

    What a run that has died has published only in part is removed first.

    Args:
        path: the folder; it need not exist.
        label: the label of the sink.
        run_id: the id of the run if it is a stream, whose own files may be there; otherwise empty.
        if_exists: what the run does then; only `"error"` rejects it.
    """
    _settle(path, waits=False)
    if if_exists != "error":
        return
    ours, other = _content(path, run_id)
    if ours:
        raise _occupied(path, label, ours, is_stream=bool(run_id))
    if other is not None:
        replacing = "" if run_id else "; if_exists='replace' also leaves them, and replaces the output of earlier runs"
        raise SinkError(
            f"{label!r} would write among files that are not of dataflow_model: {path} contains {other!r}",
            hint="choose a directory that is new or empty, or pass if_exists='add' to write beside these files"
            + replacing,
        )


def publish_run(path: str, label: str, commit_id: str, files: Sequence[tuple[str, str]], if_exists: IfExists) -> None:
    """Publish the files of a bounded run as one step; see the module.

    Args:
        path: the folder.
        label: the label of the sink.
        commit_id: the only commit of the run.
        files: `(name in the directory of pending files, final name below path)` pairs.
        if_exists: what to do with the output of earlier runs.

    Raises:
        SinkError: if the files cannot be published, or another run has published its output in the meantime.
    """
    replaced: list[str] = []
    if if_exists != "add":
        _settle(path, waits=True, but=commit_id)
        replaced, _ = _content(path, commit_id)
        if replaced and if_exists == "error":
            raise _occupied(path, label, replaced, is_stream=False)
    if not files and not replaced:
        publish(path, commit_id, files)
        return
    journal = _journal(path, commit_id)
    try:
        journal.parent.mkdir(parents=True, exist_ok=True)
        with _written(journal, {"files": [name for _, name in files], "replaces": replaced}) as content:
            publish(path, commit_id, files)
            _finish(path, journal, content)
    except OSError as error:
        raise SinkError(
            f"{label!r} cannot publish its output in {path}: {error}", hint="check free space and permissions"
        ) from error


def undo_run(path: str, commit_id: str) -> None:
    """Remove what was published of a run whose publication has failed, unless it was decided."""
    journal = _journal(path, commit_id)
    with _taken(journal, waits=False) as content:
        if content is not None:
            _finish(path, journal, content)


def _settle(path: str, *, waits: bool, but: str = "") -> None:
    """Finish or undo the publication of the runs that have died.

    Args:
        path: the folder.
        waits: whether to wait for runs that are publishing.
        but: a commit to leave alone.
    """
    for name in names_in(Path(path, COMMITS)):
        journal = Path(path, COMMITS, name)
        if name.endswith(JOURNAL) and journal != _journal(path, but):
            with _taken(journal, waits=waits) as content:
                if content is not None:
                    _finish(path, journal, content)


def _finish(path: str, journal: Path, content: dict[str, list[str]]) -> None:
    """Remove what a run replaces if it is decided, and otherwise what it has published; then remove the journal."""
    published = journal.with_name(journal.name.removesuffix(JOURNAL))
    is_decided = not content["files"] or published.exists()
    for name in content["replaces" if is_decided else "files"]:
        Path(path, name).unlink(missing_ok=True)
        for folder in Path(name).parents[:-1]:
            if folder.name != DEAD_LETTERS:  # it is of a partition, and stays if other files are in it
                with contextlib.suppress(OSError):
                    Path(path, folder).rmdir()
    if not is_decided:
        published.with_name(published.name + BEGUN).unlink(missing_ok=True)
        discard(path, unquote(published.name))
    journal.unlink(missing_ok=True)


def _content(path: str, own: str) -> tuple[list[str], str | None]:
    """Return the files of other runs in a folder, in partitions too, and the name of a file that is not of any run.

    Args:
        path: the folder.
        own: the id of a run or a commit, whose files are left out; may be empty.
    """
    ours, other = [], None
    folders = ["", DEAD_LETTERS]
    for folder in folders:
        for name in sorted(names_in(Path(path, folder))):
            relative = os.path.join(folder, name)  # noqa: PTH118 - a name, as the journal has it
            if _OURS.match(name):
                if not own or not name.startswith(f"part-{safe_name(own)}-"):
                    ours.append(relative)
            elif folder != DEAD_LETTERS and not name.startswith(("_", ".")):
                if Path(path, relative).is_file():
                    other = other or relative
                elif "=" in name:  # a partition; other folders are the business of those who made them
                    folders.append(relative)
    return ours, other


def _occupied(path: str, label: str, ours: Sequence[str], *, is_stream: bool) -> SinkError:
    """Return the error for a folder with output of another run."""
    files = (
        f"{len(ours)} files of other runs, such as {ours[0]}" if len(ours) > 1 else f"a file of another run, {ours[0]}"
    )
    ways = (
        "to continue that run, start with its checkpoint; otherwise choose another directory, or pass if_exists='add'"
        if is_stream
        else "pass if_exists='replace' to replace it or if_exists='add' to keep it, or choose another directory"
    )
    return SinkError(f"{label!r} would add its rows to those of another run: {path} contains {files}", hint=ways)


def _journal(path: str, commit_id: str) -> Path:
    return Path(path, COMMITS, safe_name(commit_id) + JOURNAL)


@contextlib.contextmanager
def _written(journal: Path, content: dict[str, list[str]]) -> Iterator[dict[str, list[str]]]:
    """Write a journal, and lock it in the `with` block: others see it only once it is whole and locked."""
    part = journal.with_name(f"{journal.name}.{os.getpid()}{PART}")
    with part.open("w") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        part.replace(journal)
        yield content


@contextlib.contextmanager
def _taken(journal: Path, *, waits: bool) -> Iterator[dict[str, list[str]] | None]:
    """Lock a journal in the `with` block, and return its content; `None` if it is gone or its run is publishing."""
    with contextlib.ExitStack() as resources:
        try:
            file = resources.enter_context(journal.open("r+"))
            fcntl.flock(file, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
            content: Any = json.load(file) if os.fstat(file.fileno()).st_nlink else None
        except OSError:  # it is gone, its run holds the lock, or there are no locks: then its run may be alive
            content = None
        yield content

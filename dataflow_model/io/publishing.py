"""Publishing staged files under their final names, once per commit, whatever crashes in between.

Below the output directory, readers see `part-…` files only; `_staging/<commit>/` holds what tasks write,
`_dead_letters/` the rows that did not fit, and `_commits/` one file per commit:

* `<commit>+pending` lists the final names and is written before the first rename, so that whatever a crash left behind
  is found and removed when the commit comes again;
* `<commit>` is the same file, renamed after the last one: the commit is published, and coming again it changes nothing.

This holds when a process dies; when a machine does, it holds as far as its file system keeps the order of renames.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from dataflow_model.errors import SinkError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "COMMITS",
    "DEAD_LETTERS",
    "STAGING",
    "discard",
    "publish",
    "publish_part",
    "safe_name",
    "staging_directory",
]

STAGING: Final = "_staging"
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


def staging_directory(path: str, commit_id: str) -> Path:
    """Return where the tasks of a commit write."""
    return Path(path, STAGING, safe_name(commit_id))


def publish(path: str, commit_id: str, files: Sequence[tuple[str, str]]) -> None:
    """Rename files of a commit into place: `(name in the staging directory, final name below path)` pairs.

    Raises:
        SinkError: when a staged file is gone, or a name cannot be written.
    """
    staged = staging_directory(path, commit_id)
    published = Path(path, COMMITS, safe_name(commit_id))
    pending = published.with_name(published.name + "+pending")
    if published.exists():
        discard(path, commit_id)
        return
    try:
        if pending.exists():
            for name in json.loads(pending.read_text()):
                Path(path, name).unlink(missing_ok=True)
        if files:
            published.parent.mkdir(parents=True, exist_ok=True)
            _write_whole(pending, json.dumps([name for _, name in files]))
            for source, name in files:
                final = Path(path, name)
                final.parent.mkdir(parents=True, exist_ok=True)
                (staged / source).replace(final)
            pending.replace(published)
        else:
            pending.unlink(missing_ok=True)
    except OSError as error:
        raise SinkError(
            f"commit {commit_id} cannot be published in {path}: {error}",
            hint="make sure that workers and driver see the same directory and can write to it",
        ) from error
    discard(path, commit_id)


def publish_part(path: str, commit_id: str, files: Sequence[tuple[str, str]]) -> None:
    """Rename a part of a commit into place at once, over what an earlier attempt at it has left there.

    Raises:
        SinkError: when a name cannot be written.
    """
    staged = staging_directory(path, commit_id)
    try:
        for source, name in files:
            final = Path(path, name)
            final.parent.mkdir(parents=True, exist_ok=True)
            (staged / source).replace(final)
    except OSError as error:
        raise SinkError(
            f"a part of commit {commit_id} cannot be published in {path}: {error}",
            hint="make sure that all workers see the same directory and can write to it",
        ) from error


def discard(path: str, commit_id: str) -> None:
    """Remove what is staged for a commit, and the staging directory itself when nothing else is in it."""
    staged = staging_directory(path, commit_id)
    shutil.rmtree(staged, ignore_errors=True)
    try:
        staged.parent.rmdir()
    except OSError:  # another commit's files are in it, or it is gone
        return


def _write_whole(path: Path, text: str) -> None:
    """Write a file so that it is there whole or not at all."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_text(text)
    part.replace(path)

"""The notifier of a followed folder: the kernel ends the wait for the next poll when a file appears."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Final, Self

from dataflow_model.io.listing.folder_notices import add_folder, open_queue, take_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_MOST: Final = 64
"""The maximum number of directories in which a change ends a wait; the next poll finds changes in the others."""


class FolderNotifier:
    """A `ChangeNotifier` that becomes readable when a name appears in one of some directories, or disappears.

    Make one with `open`.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     notifier = FolderNotifier.open(lambda: [folder])
        ...     if notifier is not None:  # there is none on macOS
        ...         _ = notifier.watch()
        ...         pathlib.Path(folder, "new").touch()
        ...         notifier.clear()
        ...         notifier.close()
    """

    def __init__(self, descriptor: int, folders: Callable[[], Iterable[str]]) -> None:
        self._descriptor = descriptor
        self._folders = folders
        self._watched: set[str] = set()

    @classmethod
    def open(cls, folders: Callable[[], Iterable[str]]) -> Self | None:
        """Return an notifier; `None` if the system does not support any or has no more.

        Args:
            folders: returns the directories; a later call may return others too.
        """
        descriptor = open_queue()
        return None if descriptor is None else cls(descriptor, folders)

    def watch(self) -> bool:
        """Watch new directories too; return whether there are any, since files may have appeared in them already."""
        folders = itertools.islice(self._folders(), _MOST)
        added = {folder for folder in folders if folder not in self._watched and add_folder(self._descriptor, folder)}
        self._watched |= added
        return bool(added)

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._descriptor

    def clear(self) -> None:
        """Make the descriptor unreadable until something happens again."""
        _, has_ended = take_names(self._descriptor)
        if has_ended:  # a directory was moved or removed, and another may take its place
            self._watched.clear()

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._descriptor)

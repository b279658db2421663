"""Calls of the operating system that concern a test's own folder, whatever other threads of the process do."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

__all__ = ["record_calls"]


def record_calls(monkeypatch: pytest.MonkeyPatch, folder: Path, *names: str) -> list[str]:
    """Return a list to which each later call of some functions of `os` adds its path, if that is in the folder.

    A stream of an earlier test may still run in a thread of this process and list folders of its own.

    Args:
        monkeypatch: undoes the recording.
        folder: the folder.
        names: the functions; each takes a path first.
    """
    recorded: list[str] = []

    def record(name: str) -> None:
        call = getattr(os, name)

        def recording(path: Any = ".", *arguments: Any, **options: Any) -> Any:
            if str(path) == str(folder) or str(path).startswith(f"{folder}{os.sep}"):
                recorded.append(str(path))
            return call(path, *arguments, **options)

        monkeypatch.setattr(os, name, recording)

    for name in names:
        record(name)
    return recorded

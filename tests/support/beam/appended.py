"""A list in a file, to which functions in any process append."""

# Beam may not be installed.
# pyright: reportMissingImports=false

from __future__ import annotations

import contextlib
import pickle
from typing import TYPE_CHECKING, Any

import apache_beam as beam

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterator


class Append(beam.DoFn):  # type: ignore[misc] # Beam ships no types that mypy takes
    """Appends each element to a file."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path

    def process(self, element: Any) -> None:
        with self._path.open("ab") as file:
            file.write(pickle.dumps(element))


class Appended(list[Any]):
    """What has been appended to a file, whenever it is read."""

    def __init__(self, path: pathlib.Path) -> None:
        super().__init__()
        self._path = path

    def __iter__(self) -> Iterator[Any]:
        with contextlib.suppress(EOFError, FileNotFoundError), self._path.open("rb") as file:
            while True:
                yield pickle.load(file)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __eq__(self, other: object) -> bool:
        return list(iter(self)) == other

    __hash__ = None

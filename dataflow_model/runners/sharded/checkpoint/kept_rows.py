"""The rows of a bounded DataFrame, which a stream keeps: an Arrow file, and a document with its checksum.

Tasks map the file into their memory, so it contains nothing but the rows.
"""

from __future__ import annotations

import pathlib
import zlib
from typing import Final

import attrs
import pyarrow as pa

from dataflow_model.runners.sharded.checkpoint.durable import corrupt, file_name, make_folder, write_file, writing
from dataflow_model.runners.sharded.checkpoint.parts import read_document, write_document

_FOLDER: Final = "inputs"


@attrs.frozen
class KeptRows:
    """The two files with the rows of a source.

    Attributes:
        directory: the part of the checkpoint that is the same for all hosts.
        label: the label of the source.
    """

    directory: str | pathlib.Path
    label: str

    @property
    def path(self) -> pathlib.Path:
        """The Arrow file."""
        return pathlib.Path(self.directory, _FOLDER, file_name(self.label, ".arrow"))

    @property
    def _document(self) -> str:
        return f"{_FOLDER}/{file_name(self.label, '.json')}"

    def checksum(self) -> int | None:
        """Return the checksum of the rows; `None` if none are kept.

        Raises:
            StateCorruption: if a file is missing or damaged.
        """
        document = read_document(self.directory, self._document)
        if document is None:
            return None
        checksum: int = document["checksum of the rows"]
        mapped_rows(str(self.path), checksum)
        return checksum

    def write(self, table: pa.Table) -> int:
        """Keep rows, and return their checksum."""
        content = pa.BufferOutputStream()
        with pa.ipc.new_file(content, table.schema) as writer:
            writer.write_table(table)
        rows = content.getvalue()
        with writing(self.path):
            make_folder(self.path.parent)
            write_file(self.path, rows)
        checksum = zlib.crc32(rows)
        write_document(self.directory, self._document, {"checksum of the rows": checksum})
        return checksum

    def remove(self) -> None:
        """Remove both files, if they are there."""
        self.path.unlink(missing_ok=True)
        pathlib.Path(self.directory, self._document).unlink(missing_ok=True)


def mapped_rows(path: str, checksum: int | None) -> pa.Table:
    """Return kept rows, mapped into memory.

    Args:
        path: the Arrow file.
        checksum: the checksum to compare with; `None` if that was done before.

    Raises:
        StateCorruption: if the file is missing or damaged.
    """
    try:
        with pa.memory_map(path) as file:
            if checksum is not None and zlib.crc32(file.read_buffer()) != checksum:
                raise corrupt(repr(path), "it fails its checksum")
            file.seek(0)
            return pa.ipc.open_file(file).read_all()
    except OSError as error:
        raise corrupt(repr(path), f"it cannot be read: {error}") from error

"""Beam's `ReadFromText` as `ReadText` of this package, where both read the same lines."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false

from __future__ import annotations

import codecs
from pathlib import Path
from typing import Any, Final

import apache_beam as beam
from apache_beam import coders
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from dataflow_model.beam.native import Native
from dataflow_model.io.read import ReadText

_COMPRESSED: Final = {CompressionTypes.GZIP: ".gz", CompressionTypes.BZIP2: ".bz2", CompressionTypes.ZSTD: ".zst"}
"""The compressions that both know, with the ends of names by which this package recognises them."""
_WILD: Final = frozenset("*?[")


def read_from_text(transform: Any, label: str) -> beam.PTransform | None:
    """Return what runs in place of a `ReadFromText`; `None` where `ReadText` would read something else."""
    del label
    source = transform._source  # noqa: SLF001 - it is kept nowhere else
    is_usual = (
        type(source._coder) is coders.StrUtf8Coder  # noqa: SLF001
        and source._strip_trailing_newlines  # noqa: SLF001
        and source._delimiter is None  # noqa: SLF001
        and source._escapechar is None  # noqa: SLF001
    )
    files = _files_of(source)
    if not is_usual or files is None or any(map(_begins_with_mark, files)):
        return None
    read = ReadText(files, skip_header_lines=source._skip_header_lines)  # noqa: SLF001
    return _Reading(read)


class _Reading(beam.PTransform):  # type: ignore[misc] # Beam ships no types that mypy takes
    def __init__(self, read: ReadText) -> None:
        super().__init__()
        self._read = read

    def expand(self, input_or_inputs: Any) -> Any:
        """Return the lines."""
        lines = input_or_inputs | "read" >> Native(self._read)
        lines.element_type = str
        return lines


def _files_of(source: Any) -> list[str] | None:
    """Return the files that a source of Beam's reads; `None` unless all are local and both unpack them in one way."""
    pattern = source._pattern  # noqa: SLF001 - it is kept nowhere else
    if not pattern.is_accessible() or FileSystems.get_scheme(pattern.get()) is not None:
        return None
    [matched] = FileSystems.match([pattern.get()])
    files = [file.path for file in matched.metadata_list]
    given = source._compression_type  # noqa: SLF001
    is_same = all(not _WILD & set(file) and Path(file).is_file() and _is_unpacked_alike(file, given) for file in files)
    return files if files and is_same else None


def _is_unpacked_alike(file: str, given: str) -> bool:
    by_name = CompressionTypes.detect_compression_type(file)
    end = next((end for end in _COMPRESSED.values() if file.endswith(end)), None)
    is_known = by_name in {CompressionTypes.UNCOMPRESSED, *_COMPRESSED}
    return is_known and given in {CompressionTypes.AUTO, by_name} and _COMPRESSED.get(by_name) == end


def _begins_with_mark(file: str) -> bool:
    """Return whether a file begins with a byte order mark, which only Beam takes for text."""
    with FileSystems.open(file) as opened:
        return bool(opened.read(len(codecs.BOM_UTF8)) == codecs.BOM_UTF8)

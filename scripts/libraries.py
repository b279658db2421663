"""Libraries on Beam whose own tests `scripts/beam.py` runs, with what Beam does not bring: installed once, with pip.

The versions are in tests/support/beam/libraries, in a file of requirements for each library. They are kept apart from
this project's environment, in build/libraries.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["LIBRARIES", "installed"]

_ROOT: Final = Path(__file__).resolve().parents[1]
_FOLDER: Final = _ROOT / "build" / "libraries"
LIBRARIES: Final[Mapping[str, Path]] = {
    path.stem: path for path in sorted((_ROOT / "tests" / "support" / "beam" / "libraries").glob("*.txt"))
}
"""The files of requirements, by library."""


def installed(library: str, folder_of_all: Path = _FOLDER) -> Path:
    """Return the folder with the packages of a library, which is made first unless it is there with these versions.

    Args:
        library: the name of the library in `LIBRARIES`.
        folder_of_all: the folder of all libraries.
    """
    requirements = LIBRARIES[library].read_text(encoding="utf-8")
    folder = folder_of_all / library
    stamp = folder / LIBRARIES[library].name
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != requirements:
        shutil.rmtree(folder, ignore_errors=True)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*pip, "--target", str(folder), "--requirement", str(LIBRARIES[library])], check=True)
        stamp.write_text(requirements, encoding="utf-8")
    return folder

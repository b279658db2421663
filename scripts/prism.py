"""Build Prism, Beam's runner in Go, once: `python -m scripts.prism`. It needs Go, and takes minutes.

Beam itself fetches Prism as a binary from GitHub's releases. Here it is built from its Go module, of the version of
Beam that is installed, and kept in build/prism.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

__all__ = ["built", "main"]

_FOLDER: Final = Path(__file__).resolve().parents[1] / "build" / "prism"
_MODULE: Final = "github.com/apache/beam/sdks/v2/go/cmd/prism"


def built(folder: Path = _FOLDER) -> Path | None:
    """Return the program, or `None` if it has not been built for the version of Beam that is installed."""
    program = folder / importlib.metadata.version("apache-beam") / "prism"
    return program if program.exists() else None


def main() -> int:
    """Build it; return 1 without Go."""
    if built() is not None:
        return 0
    if shutil.which("go") is None:
        print("Prism cannot be built: there is no Go on the PATH")
        return 1
    version = importlib.metadata.version("apache-beam")
    environment = os.environ | {"GOBIN": str(_FOLDER / version), "GOFLAGS": "-mod=mod"}
    return subprocess.run(["go", "install", f"{_MODULE}@v{version}"], env=environment, check=False).returncode  # noqa: S607


if __name__ == "__main__":
    sys.exit(main())

"""Python packages that a program names in its options, for the processes that run its functions."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false

from __future__ import annotations

import functools
import io
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any, Final

from apache_beam.options.pipeline_options import SetupOptions

from dataflow_model.errors import InvalidArgument
from dataflow_model.runners.runs.run_folder import RunFolder

_MOST: Final = 64 << 20
"""The maximum size of the packages in bytes, since they travel with the functions."""
_SHOWN: Final = 2_000
"""How many characters of what pip says an error shows."""


class Packages:
    """Packages that are added to the path of the process in which this object is restored, behind all others.

    Args:
        archive: a zip of what is to be imported; `b""` for nothing.
    """

    def __init__(self, archive: bytes = b"") -> None:
        self.archive = archive

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.archive,)


NO_PACKAGES: Final = Packages()


def packages_of(options: Any) -> Packages:
    """Install what `--requirements_file`, `--extra_package` and `--setup_file` name, and return it.

    Args:
        options: Beam's options.

    Raises:
        InvalidArgument: if pip cannot install them, or they are larger than 64 MB.
    """
    setup = options.view_as(SetupOptions)
    wanted = [*_requirements(setup), *(setup.extra_packages or [])]
    if setup.setup_file is not None:
        wanted.append(str(Path(setup.setup_file).absolute().parent))
    if not wanted:
        return NO_PACKAGES
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        done = subprocess.run(  # noqa: S603 - this Python's own pip, on what the program names
            [*command, "--target", folder, *wanted], capture_output=True, text=True, errors="replace", check=False
        )
        if done.returncode:
            raise InvalidArgument(
                f"pip cannot install {' '.join(wanted)}, which the options of the pipeline name: "
                f"{done.stderr.strip()[-_SHOWN:]}",
                hint="correct --requirements_file, --extra_package or --setup_file, or leave them out and install the "
                "packages where the functions run",
            )
        archive = _zipped(Path(folder))
    if len(archive) > _MOST:
        raise InvalidArgument(
            f"the packages that the options of the pipeline name must not be larger than {_MOST >> 20} MB together, "
            f"got {len(archive) >> 20} MB: {' '.join(wanted)}",
            hint="install them where the functions run, and leave out the options",
        )
    return Packages(archive)


def _requirements(setup: Any) -> list[str]:
    return [] if setup.requirements_file is None else ["--requirement", setup.requirements_file]


def _zipped(folder: Path) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                packed.write(path, path.relative_to(folder))
    return content.getvalue()


def _restored(archive: bytes) -> Packages:
    """Add packages to the path of this process, unless it has them already."""
    if archive:
        path = str(_unpacked(archive).path)
        if path not in sys.path:
            sys.path.append(path)
    return Packages(archive)


@functools.cache
def _unpacked(archive: bytes) -> RunFolder:
    """Return the folder with the packages, which exists until this process ends."""
    folder = RunFolder("packages")
    with zipfile.ZipFile(io.BytesIO(archive)) as packed:
        packed.extractall(folder.path)
    return folder

"""Compile the core, if Cython and a compiler are there; without them the same files run as Python.

Everything else about the package is in pyproject.toml.
"""

from __future__ import annotations

import os
import pathlib
import runpy
import sys
from typing import TYPE_CHECKING, Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

if TYPE_CHECKING:
    from collections.abc import Callable

try:
    from Cython.Build import cythonize
except ImportError:  # pip installs it to build with, unless told not to
    cythonize = None

INFO = 2  # what `announce` prints by default
PACKAGE = "dataflow_model.runners.engine.core"
CORE = pathlib.Path(*PACKAGE.split("."))
DIRECTIVES = {
    "language_level": 3,
    "annotation_typing": False,  # C types are in the .pxd files alone
    "boundscheck": False,
    "wraparound": False,
    "initializedcheck": False,
    "cdivision": True,
}
FLAGS = [
    *("-O2", "-g0"),  # which take half the time of Python's own flags
    "-fwrapv",  # hashes wrap around
    "-Wno-tautological-compare",  # whether a number is NaN is also asked of integers, where the code is for both
]
ABOUT: dict[str, Any] = runpy.run_path(str(CORE / "build.py"), run_name="build")
RECORD: str = ABOUT["RECORD"]
compiled_modules: Callable[[pathlib.Path], list[str]] = ABOUT["compiled_modules"]
has_extensions: Callable[[pathlib.Path], bool] = ABOUT["has_extensions"]
source_digest: Callable[[pathlib.Path], str] = ABOUT["source_digest"]
SWITCH: str = ABOUT["SWITCH"]
WHY_NOT = None
if os.environ.get(SWITCH) == "no":
    WHY_NOT = f"{SWITCH}=no"
elif cythonize is None:
    WHY_NOT = "Cython is not installed"


class BuildCore(build_ext):
    """Builds all extensions of the core or none, always anew, and records the source that they were made from.

    A failure is not an error: what it prints says that the core runs as Python then.
    """

    def finalize_options(self) -> None:
        """Compile as many extensions at a time as there are processors."""
        super().finalize_options()
        self.parallel = self.parallel or True

    def run(self) -> None:
        """Build them."""
        folders = [pathlib.Path(self.build_lib, CORE), *[CORE] * bool(self.inplace)]
        for folder in folders:
            remove_extensions(folder)
        digest = source_digest(CORE)
        self.force = True  # an older object file in build/ may be of another source
        if WHY_NOT is not None:
            self.extensions = []
        else:
            translated = cythonize(
                self.extensions, build_dir="build/cython", compiler_directives=DIRECTIVES, quiet=True
            )
            for extension, in_c in zip(self.extensions, translated, strict=True):
                extension.sources = in_c.sources
        super().run()
        for folder in folders:
            if has_extensions(folder):
                (folder / RECORD).write_text(digest + "\n", encoding="utf-8")
                self.announce("The core of dataflow_model is compiled.", level=INFO)
            else:
                remove_extensions(folder)
                reason = WHY_NOT or "there is no working C compiler"
                self.warn(f"The core of dataflow_model is not compiled, and runs about 30 times slower: {reason}.")


def remove_extensions(folder: pathlib.Path) -> None:
    """Remove what was compiled before, whatever it was made from."""
    for pattern in ("*.so", "*.pyd", RECORD):
        for path in folder.glob(pattern):
            path.unlink()


setup(
    cmdclass={"build_ext": BuildCore},
    ext_modules=[
        Extension(
            f"{PACKAGE}.{name}",
            [str(CORE / f"{name}.py")],
            optional=True,
            extra_compile_args=[] if sys.platform == "win32" else FLAGS,
        )
        for name in compiled_modules(CORE)
    ],
)

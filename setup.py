"""Compile the core, if Cython and a compiler are there; without them the same files run as Python.

Two things are kept in `build/`, so that another installation from this folder compiles only what has changed: the C
code of the present source, and the extensions with a digest of the C code and the commands that they were made with.
Everything else about the package is in pyproject.toml.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import runpy
import shutil
import sys
from typing import TYPE_CHECKING, Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

try:
    import Cython
    from Cython.Build import cythonize
except ImportError:  # pip installs it to build with, unless told not to
    cythonize = None

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGE = "dataflow_model.runners.engine.core"
CORE = pathlib.Path(*PACKAGE.split("."))
IN_C = pathlib.Path("build", "cython")
KEPT = pathlib.Path("build", "compiled")
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
SHARED: str = ABOUT["SHARED"]
compiled_modules: Callable[[pathlib.Path], list[str]] = ABOUT["compiled_modules"]
source_digest: Callable[[pathlib.Path], str] = ABOUT["source_digest"]
SWITCH: str = ABOUT["SWITCH"]
WHY_NOT = None
if os.environ.get(SWITCH) == "no":
    WHY_NOT = f"{SWITCH}=no"
elif cythonize is None:
    WHY_NOT = "Cython is not installed"


class BuildCore(build_ext):
    """Builds all extensions of the core or none, and records the source that they were made from.

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
        self.done = 0
        if WHY_NOT is not None:
            self.extensions = []
        else:
            translate(self.extensions, digest)
        super().run()
        built = [pathlib.Path(self.get_ext_fullpath(extension.name)).is_file() for extension in self.extensions]
        for folder in folders:
            if built and all(built):
                (folder / RECORD).write_text(digest + "\n", encoding="utf-8")
            else:
                remove_extensions(folder)
                reason = WHY_NOT or "the C compiler is missing or fails (it also needs the headers of Python)"
                self.warn(f"The core of dataflow_model is not compiled, and runs about 30 times slower: {reason}.")

    def build_extension(self, ext: Extension) -> None:
        """Compile an extension, unless the same C code was compiled with the same commands before."""
        target = pathlib.Path(self.get_ext_fullpath(ext.name))
        kept = KEPT / f"{self.digest_of(ext)}-{target.name}"
        was_kept = kept.is_file()
        if was_kept:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(kept, target)
        else:
            super().build_extension(ext)
            keep(target, kept)
        self.done += 1
        how = "has not changed" if was_kept else "compiled"
        say(f"[{self.done:2}/{len(self.extensions)}] {ext.name.rpartition('.')[2]}: {how}")

    def digest_of(self, ext: Extension) -> str:
        """Return a digest of all that an extension is made from."""
        commands = [getattr(self.compiler, name, None) for name in ("compiler_so", "linker_so")]
        made_with = (sys.version, commands, ext.extra_compile_args)
        content = repr(made_with).encode() + pathlib.Path(ext.sources[0]).read_bytes()
        return hashlib.sha256(content).hexdigest()[:16]


def translate(extensions: list[Extension], digest: str) -> None:
    """Translate the source of extensions to C, unless what is in `build/` is the translation of the same source."""
    made_by = hashlib.sha256(pathlib.Path("setup.py").read_bytes()).hexdigest()
    wanted = f"{digest} {made_by} Cython {Cython.__version__}\n"
    stamp = IN_C / "translated.txt"
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != wanted:
        say(f"Translating {len(extensions)} modules of the core to C, then compiling them: about a minute in all")
        stamp.unlink(missing_ok=True)
        cythonize(
            extensions, build_dir=str(IN_C), compiler_directives=DIRECTIVES, quiet=True, force=True,
            shared_utility_qualified_name=f"{PACKAGE}.{SHARED}",
        )  # fmt: skip
        stamp.write_text(wanted, encoding="utf-8")
    for extension in extensions:
        extension.sources = [str(IN_C / CORE / f"{extension.name.rpartition('.')[2]}.c")]


def keep(target: pathlib.Path, kept: pathlib.Path) -> None:
    """Keep a copy of an extension instead of earlier ones of the same module."""
    KEPT.mkdir(parents=True, exist_ok=True)
    for earlier in KEPT.glob(f"*-{target.name}"):
        earlier.unlink()
    written = kept.with_suffix(".part")
    shutil.copy(target, written)
    written.replace(kept)


def say(text: str) -> None:
    """Say how far the build is; pip shows it with `-v`."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def remove_extensions(folder: pathlib.Path) -> None:
    """Remove what was compiled before, whatever it was made from."""
    for pattern in ("*.so", "*.pyd", RECORD):
        for path in folder.glob(pattern):
            path.unlink()


setup(
    cmdclass={"build_ext": BuildCore},
    ext_modules=[
        *(
            Extension(
                f"{PACKAGE}.{name}",
                [str(CORE / f"{name}.py")],
                optional=True,
                extra_compile_args=[] if sys.platform == "win32" else FLAGS,
            )
            for name in compiled_modules(CORE)
        ),
        # What Cython would otherwise add to each of them, which would take as long to compile again.
        Extension(
            f"{PACKAGE}.{SHARED}", [], optional=True, extra_compile_args=[] if sys.platform == "win32" else FLAGS
        ),
    ],
)

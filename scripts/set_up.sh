#!/usr/bin/env bash
# Make .venv and install the package into it, editable, with what developers need. Does nothing if that was done
# before with the same pyproject.toml, but compiles the core again when its source has changed. $PYTHON names the
# interpreter to use; else one is found on the PATH.
set -eu
cd "${0%/*}/.."

venv=.venv
stamp=$venv/.installed
compiled=$venv/.compiled

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

find_python() {
    local name
    for name in ${PYTHON:-python3 python3.11 python3.12 python3.13 python3.14 python}; do
        # A name may stand for a wrapper that finds nothing behind it, so ask it.
        if command -v "$name" >/dev/null && is_new_enough "$name"; then
            command -v "$name"
            return
        fi
    done
    {
        echo "No Python 3.11 or newer found${PYTHON:+ as PYTHON=$PYTHON}; python3 is $(python3 --version 2>&1 || echo missing)."
        echo "Hint: install one (Debian/Ubuntu: apt-get install python3 python3-venv; macOS: brew install python)"
        echo "      or name one: make PYTHON=/path/to/python3.11 demo"
    } >&2
    return 1
}

# What the environment was made from.
state() {
    "$venv/bin/python" -c 'import hashlib, pathlib, sys
print(hashlib.sha256(pathlib.Path("pyproject.toml").read_bytes()).hexdigest(), sys.version_info[:2], pathlib.Path.cwd())'
}

# What the core is compiled from.
source_of_core() {
    "$venv/bin/python" -c 'import runpy; print(runpy.run_path("dataflow_model/runners/engine/core/build.py")["source_digest"]())'
}

if ! is_new_enough "$venv/bin/python"; then
    python=$(find_python)
    echo "Making $venv with $("$python" --version) ($python)" >&2
    if ! "$python" -m venv --clear "$venv"; then
        echo "Hint: on Debian and Ubuntu, venv is a package of its own: apt-get install python3-venv" >&2
        exit 1
    fi
fi

if [ "$(cat "$stamp" 2>/dev/null)" != "$(state)" ]; then
    echo "Installing into $venv, once: PySpark alone is 450 MB to download, so a few minutes" >&2
    rm -f "$stamp"
    quiet=--quiet
    if [ -t 2 ]; then quiet=--progress-bar=on; fi
    "$venv/bin/python" -m pip install --disable-pip-version-check "$quiet" --editable '.[dev]' >&2
    state >"$stamp"
    source_of_core >"$compiled"
fi

# The installation compiles the core. Once its source has changed, that has to be done again.
if [ "$(cat "$compiled" 2>/dev/null)" != "$(source_of_core)" ]; then
    echo "Compiling the core, whose source has changed: about a minute" >&2
    "$venv/bin/python" setup.py --quiet build_ext --inplace >&2
    source_of_core >"$compiled"
fi

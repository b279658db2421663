#!/usr/bin/env bash
# Make .venv and install the package into it, editable, with what developers need. Does nothing if that was done
# before with the same pyproject.toml, but compiles the core again when its source has changed. $PYTHON names the
# interpreter to use; else one is found on the PATH.
#
# `set_up.sh docs` makes build/docs-environment instead, with only what building the site needs. Nothing is compiled:
# Sphinx imports the package from this folder.
set -eu -o pipefail
cd "${0%/*}/.."

what=${1:-package}
if [ "$what" = docs ]; then venv=build/docs-environment; else venv=.venv; fi
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

# Install the package and what developers need. A terminal shows pip's own bars; elsewhere, of what pip prints, this
# shows the large downloads and what takes long, as it happens. The core is compiled in step 2, which shows its progress.
install_package() {
    local pip=("$venv/bin/python" -m pip install --disable-pip-version-check --editable '.[dev]')
    export DATAFLOW_MODEL_COMPILED=no
    if [ -t 2 ]; then
        "${pip[@]}" >&2
    else
        "${pip[@]}" | { grep --line-buffered -oE '^ *(Downloading .*[0-9]{2}(\.[0-9])? MB\)|Building wheels? for .*|Installing collected packages)' || true; } >&2
    fi
}

install_docs() {
    "$venv/bin/python" -c 'import pathlib, tomllib
project = tomllib.loads(pathlib.Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
print(*project["dependencies"], *project["optional-dependencies"]["docs"], sep="\n")' >"$venv/requirements.txt"
    "$venv/bin/python" -m pip install --disable-pip-version-check --quiet --requirement "$venv/requirements.txt" >&2
}

if [ "$what" = docs ]; then
    if [ "$(cat "$stamp" 2>/dev/null)" != "$(state)" ]; then
        echo "Installing what the documents need into $venv, once: 100 MB to download" >&2
        install_docs
        state >"$stamp"
    fi
    exit
fi

if [ "$(cat "$stamp" 2>/dev/null)" != "$(state)" ]; then
    echo "Step 1 of 2: installing into $venv, once. PySpark alone is 450 MB to download: a few minutes" >&2
    rm -f "$stamp" "$compiled"
    (install_package)
    state >"$stamp"
fi

# Compile the core after the installation, and once its source has changed.
if [ "$(cat "$compiled" 2>/dev/null)" != "$(source_of_core)" ]; then
    echo "Step 2 of 2: compiling what has changed of the core" >&2
    "$venv/bin/python" setup.py --quiet build_ext --inplace >&2
    source_of_core >"$compiled"
fi

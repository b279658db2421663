#!/usr/bin/env bash
# Install a wheel in a new environment and run the demo there, with neither the repository nor a compiler at hand:
#
#   try_wheel.sh WHEEL PYTHON
#
# pip may install nothing that has to be compiled. The demo compares the answers of all ways to run in process.
set -eu

wheel=$(realpath "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

"$2" -m venv "$folder/environment"
bin=$folder/environment/bin
"$bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: "$wheel"
cd "$folder"
# The PATH has no compiler, and no variable of the caller's leads to the repository.
alone() { env -i PATH="$bin" HOME="$folder" "$@"; }
core=$(alone "$bin/dataflow-model" --version)
if [ "${core%, core compiled}" = "$core" ]; then
    echo "The core in $wheel does not run compiled: $core" >&2
    exit 1
fi
alone "$bin/dataflow-model" demo --rows 4000 --runner local >log.txt 2>&1 || { cat log.txt >&2 && exit 1; }
if [ "$(grep -c 'All results agree.' log.txt)" != 1 ]; then
    cat log.txt >&2
    exit 1
fi
echo "Installed and run: $(basename "$wheel"), by $("$bin/python" --version)"

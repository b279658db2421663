#!/usr/bin/env bash
# Run the quick Spark tests on the newest patch of each older PySpark that the package supports: `make test-versions`.
# Tests that need a stream are skipped on 4.0 and 4.1, which cannot stream; see tests/support/older_spark.py.
# VERSIONS="4.0 4.2" selects some versions, PYTHON the interpreter. The environments are kept in build/versions.
set -eu
cd "${0%/*}/.."

failed=()
for version in ${VERSIONS:-4.0 4.1 4.2}; do
    environment=build/versions/pyspark-$version
    if [ ! -x "$environment/bin/pytest" ]; then
        "${PYTHON:-.venv/bin/python}" -m venv --clear "$environment"
        "$environment/bin/python" -m pip install --quiet --disable-pip-version-check '.[dev]' "pyspark==$version.*"
    fi
    echo "PySpark $version"
    # Before 4.2, PySpark leaves sockets for the garbage collector to close.
    scripts/java.sh run "$environment/bin/python" -m pytest -p no:cacheprovider -n 0 -m "spark and not slow" \
        -W "ignore:unclosed <socket.socket:ResourceWarning" "$@" || failed+=("$version")
done
if [ ${#failed[@]} -gt 0 ]; then
    echo "Failed on PySpark ${failed[*]}" >&2
    exit 1
fi

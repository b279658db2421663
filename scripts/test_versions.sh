#!/usr/bin/env bash
# Run quick tests on the newest patch of each older version of PySpark and of Beam that is supported: `make test-versions`.
# With an older PySpark, the tests with Spark; those that need a stream are skipped on 4.0 and 4.1, which cannot stream:
# see tests/support/older_spark.py. With an older Beam, its tests without Spark, and one with it.
# VERSIONS="pyspark-4.2 apache-beam-2.76" selects some versions, PYTHON the interpreter. The environments are kept in
# build/versions.
set -eu
cd "${0%/*}/.."

failed=()
# Run tests in the environment, under Java.
run() {
    scripts/java.sh run "$environment/bin/python" -m pytest -p no:cacheprovider -n 0 "$@" || failed+=("$version")
}

for version in ${VERSIONS:-pyspark-4.0 pyspark-4.1 pyspark-4.2 apache-beam-2.76}; do
    if [[ $version != pyspark-* && $version != apache-beam-* ]]; then
        echo "VERSIONS names $version, which is neither pyspark-VERSION nor apache-beam-VERSION" >&2
        exit 1
    fi
    environment=build/versions/$version
    if [ ! -x "$environment/bin/pytest" ]; then
        "${PYTHON:-.venv/bin/python}" -m venv --clear "$environment"
        "$environment/bin/python" -m pip install --quiet --disable-pip-version-check '.[dev]' "${version%-*}==${version##*-}.*"
    fi
    echo "$version"
    case $version in
        pyspark-*)
            # Before 4.2, PySpark leaves sockets for the garbage collector to close.
            run -m "spark and not slow" -W "ignore:unclosed <socket.socket:ResourceWarning" "$@"
            ;;
        apache-beam-*)
            run -m "not slow and not spark" tests/beam "$@"
            run -m "spark and not slow" tests/beam/test_registered.py "$@"
            ;;
    esac
done
if [ ${#failed[@]} -gt 0 ]; then
    echo "Failed on ${failed[*]}" >&2
    exit 1
fi

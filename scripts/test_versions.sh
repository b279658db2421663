#!/usr/bin/env bash
# Run a few Spark tests on the newest patch of each older PySpark that the package supports: `make test-versions`.
# VERSIONS="4.0 4.2" selects some of them, PYTHON the interpreter. The environments are kept in build/versions.
set -eu
cd "${0%/*}/.."

batch=(
    tests/runners/test_spark_pipelines.py::test_every_shape_runs_as_a_bounded_job
    tests/state/test_spark_state.py::test_an_unsorted_function_sees_event_time_order_and_expiries_in_a_bounded_job
)
streaming=(
    tests/runners/test_spark_lifecycle.py::test_a_run_that_is_stopped_goes_on_from_its_checkpoint
    tests/state/test_spark_state.py::test_a_stream_that_is_stopped_goes_on_with_its_state_and_timers
    tests/upgrade/test_on_spark.py::test_a_source_is_added_on_a_plain_restart
)

failed=()
for version in ${VERSIONS:-4.0 4.1 4.2}; do
    environment=build/versions/pyspark-$version
    if [ ! -x "$environment/bin/pytest" ]; then
        "${PYTHON:-.venv/bin/python}" -m venv --clear "$environment"
        "$environment/bin/python" -m pip install --quiet --disable-pip-version-check '.[dev]' "pyspark==$version.*"
    fi
    tests=("${batch[@]}")
    case $version in 4.0 | 4.1) ;; *) tests+=("${streaming[@]}") ;; esac
    echo "PySpark $version"
    # Before 4.2, PySpark leaves sockets for the garbage collector to close.
    scripts/java.sh run "$environment/bin/python" -m pytest -p no:cacheprovider \
        -W ignore::pytest.PytestUnraisableExceptionWarning "$@" "${tests[@]}" || failed+=("$version")
done
if [ ${#failed[@]} -gt 0 ]; then
    echo "Failed on PySpark ${failed[*]}" >&2
    exit 1
fi

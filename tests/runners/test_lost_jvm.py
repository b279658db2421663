"""What a run on Spark says when the JVM or an executor ended: which one, probably why, and what to set."""

from __future__ import annotations

from typing import Any

import pytest

from dataflow_model.errors import SessionStopped, WorkerLost
from dataflow_model.runners.spark.deployment import failures
from dataflow_model.runners.spark.deployment.failures import find_our_error, lost_worker, session_stopped

WAY_ON = "create a new session and run the pipeline again"
SHUT_DOWN = "Job 0 cancelled because SparkContext was shut down\n\tat org.apache.spark.SparkContext.stop\n"
BY_ITSELF = SHUT_DOWN + "\tat org.apache.spark.util.SparkShutdownHook.run(ShutdownHookManager.scala:231)\n"


class Process:
    """The process of a JVM."""

    def __init__(self, status: int | None) -> None:
        self.status = status

    def wait(self, timeout: float) -> int:
        if self.status is None:
            raise TimeoutError(timeout)
        return self.status


def session(status: int | None) -> Any:
    class Session:
        class sparkContext:  # noqa: N801 - as PySpark calls it
            class _gateway:  # noqa: N801
                proc = Process(status)

    return Session()


class Py4JNetworkError(Exception):
    """Has the name of Py4J's."""


@pytest.fixture(autouse=True)
def no_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "_keep", lambda error: None)


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (RuntimeError(BY_ITSELF), 52, "ended, because it ran out of memory"),
        (RuntimeError("java.lang.OutOfMemoryError: Java heap space"), None, "ended, because it ran out of memory"),
        (
            Py4JNetworkError("Answer from Java side is empty"),
            -9,
            "ended by signal SIGKILL, as the system ends processes",
        ),
        (ConnectionResetError("reset by peer"), 1, "ended with status 1, perhaps because it ran out of memory"),
        (
            RuntimeError(BY_ITSELF),
            None,
            "ended or could not be reached any more, probably because it ran out of memory",
        ),
        (None, -9, "ended by signal SIGKILL"),
    ],
)
def test_the_end_of_the_jvm_is_reported_with_the_settings_that_may_prevent_it(
    error: Any, status: int | None, said: str
) -> None:
    stopped = session_stopped(session(status), WAY_ON, error)
    assert isinstance(stopped, SessionStopped)
    assert str(stopped).startswith(f"the JVM of the Spark session {said}")
    for setting in ("spark.driver.memory", "spark.executor.memory", "spark.sql.shuffle.partitions", WAY_ON[1:]):
        assert setting in str(stopped)


@pytest.mark.parametrize("error", [RuntimeError(SHUT_DOWN), None])
def test_a_session_stopped_by_the_program_is_not_reported_as_the_end_of_the_jvm(error: Any) -> None:
    stopped = session_stopped(session(None), WAY_ON, error)
    assert str(stopped) == f"the Spark session was stopped before the run ended\nHint: {WAY_ON}"
    assert stopped.__cause__ is error


def test_an_executor_that_ended_is_named_with_its_reason() -> None:
    said = (
        "Job aborted due to stage failure: Lost task 0.3 in stage 1.0 (TID 4) (host executor 2): ExecutorLostFailure "
        "(executor 2 exited caused by one of the running tasks) Reason: Command exited with code 137\nDriver stack"
    )
    lost = lost_worker(RuntimeError(said))
    assert isinstance(lost, WorkerLost)
    assert str(lost).startswith("executor 2 of Spark ended unexpectedly: Command exited with code 137\nHint: ")
    assert "spark.executor.memory" in str(lost)


def test_an_error_whose_text_was_lost_with_the_jvm_is_still_reported() -> None:
    class Unreadable(Exception):
        def __str__(self) -> str:
            raise ConnectionRefusedError(111, "Connection refused")

    error = Unreadable()
    assert find_our_error(error) is error
    assert lost_worker(error) is error
    assert "out of memory" in str(session_stopped(session(52), WAY_ON, error))

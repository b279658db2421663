"""Skip what the runner says that the installed PySpark cannot do: a plugin of pytest.

PySpark before 4.2 cannot stream, and `SparkRunner` rejects a stream there. A test that meets this rejection is skipped
with the runner's own words, so that no list of tests has to be kept. Where PySpark can stream, nothing is skipped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dataflow_model.errors import UnsupportedOnRunner
from dataflow_model.runners.spark.deployment.installation import check_pyspark

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["why_no_stream"]


def why_no_stream(error: BaseException) -> str | None:
    """Return why the installed PySpark cannot stream, if that is what the error says; otherwise `None`."""
    if not isinstance(error, UnsupportedOnRunner):
        return None
    try:
        check_pyspark("streaming")
    except UnsupportedOnRunner as rejection:
        return str(rejection).splitlines()[0] if str(rejection) == str(error) else None
    return None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Report a test or fixture that was stopped by the rejection of a stream as skipped."""
    report = yield
    reason = None if call.excinfo is None else why_no_stream(call.excinfo.value)
    if reason is not None:
        path, line, _ = item.reportinfo()
        report.outcome = "skipped"
        report.longrepr = (str(path), (line or 0) + 1, f"Skipped: {reason}")
    return report

"""Transforms run over a script."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dataflow_model as dm

if TYPE_CHECKING:
    from dataflow_model.testing import TestStream

EVENT, CLOCK = dm.TimeDomain.EVENT_TIME, dm.TimeDomain.PROCESSING_TIME


def result_of(*transforms: Any, script: TestStream) -> Any:
    """Run transforms over a script; what comes out is in the sink `out`."""
    pipeline = dm.Pipeline(runner=dm.LocalRunner())
    collection = pipeline | "script" >> script
    for transform in transforms:
        collection = collection | transform
    _ = collection | "out" >> dm.io.Collect()
    result = pipeline.run()
    result.wait_until_finish()
    return result


def values(result: Any) -> list[Any]:
    return [record.value for record in result.collected("out")]

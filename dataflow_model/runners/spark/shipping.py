"""The package ships itself: executors that do not have it are sent it as a zip."""

from __future__ import annotations

import pathlib
import tempfile
import zipfile
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ship_package"]

_shipped: set[int] = set()
_PACKAGE: Final = pathlib.Path(__file__).resolve().parents[2]


def ship_package(spark: SparkSession) -> None:
    """Send the package to a session's executors, once a session; in local mode they have it already."""
    if id(spark) in _shipped:
        return
    _shipped.add(id(spark))
    if _is_local(spark):
        return
    folder = pathlib.Path(tempfile.mkdtemp(prefix="dataflow_model-"))
    archive = folder / "dataflow_model.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(_PACKAGE.rglob("*.py")):
            packed.write(path, path.relative_to(_PACKAGE.parent))
        packed.write(_PACKAGE / "py.typed", "dataflow_model/py.typed")
    spark.addArtifacts(str(archive), pyfile=True)


def _is_local(spark: SparkSession) -> bool:
    master: Any = spark.conf.get("spark.master", "")
    return str(master).startswith("local[") or str(master) == "local"

"""The program from which Spark forks Python workers, with everything imported that a task of ours needs.

    daemon.py pyspark.worker [MODULE …]

Spark's own program imports nothing, so each worker imports pandas, Arrow and this package anew, which takes more than a
second of processor time and 100 MB. `worker_python` starts this file instead, by its path, so that it works even where
the package cannot be imported.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import sys
from pathlib import Path
from typing import Final

_NEEDED: Final = (
    "pandas",
    "pyarrow.pandas_compat",
    "pyarrow.parquet",
    "pyspark.worker",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.streaming.proto.StateMessage_pb2",
    "pyspark.sql.worker.plan_data_source_read",
    "dataflow_model.io",
    "dataflow_model.runners.spark.job",
    "dataflow_model.runners.spark.sink",
    "dataflow_model.runners.spark.stages",
)


def main() -> None:
    """Import what tasks need, and the modules of the command line, and fork workers until Spark stops them."""
    from pyspark.daemon import manager

    for name in (*_NEEDED, *sys.argv[2:]):
        with contextlib.suppress(ImportError):  # a task that needs it reports that
            importlib.import_module(name)
    gc.freeze()  # so that collections in workers neither look through these objects nor copy their pages
    manager()


if __name__ == "__main__":
    sys.path[0] = str(Path.cwd())  # as with `python -m pyspark.daemon`, instead of the folder of this file
    main()

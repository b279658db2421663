"""`dataflow-model prepare-spark`: an archive of the classes that Spark loads."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from dataflow_model.cli.answer import Answer, add_command
from dataflow_model.errors import UnsupportedOnRunner

if TYPE_CHECKING:
    import argparse

    from dataflow_model.cli.answer import Commands


def add(commands: Commands) -> None:
    """Add the command."""
    add_command(
        commands,
        "prepare-spark",
        _prepare_spark,
        does="let Spark sessions on this machine start faster",
        example="dataflow-model prepare-spark",
        description="Archive the classes that Spark loads (180 MB in this Python environment, half a minute), so that "
        "sessions of local_session and their first jobs start in about half the time. Does nothing if that was done "
        "before; after an upgrade of Java or PySpark, run it again.",
    )


def _prepare_spark(_: argparse.Namespace) -> Answer:
    from dataflow_model.runners.spark.deployment.class_archive import archive_path, create_archive
    from dataflow_model.runners.spark.deployment.installation import missing_for_spark

    if (missing := missing_for_spark()) is not None:
        raise UnsupportedOnRunner(f"prepare-spark runs Spark: {missing.problem}", hint=missing.hint)
    if archive_path().exists():
        archive = archive_path()
        return Answer({"archive": str(archive), "created": False}, [f"Spark's classes are in {archive} already"])
    print("Archiving the classes that Spark loads, once: half a minute", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="dataflow-model-") as folder:
        picture = str(Path(folder, "demo.png"))
        created = create_archive([sys.executable, "-m", "dataflow_model", "demo", "--rows", "2000", "--out", picture])
    return Answer({"archive": str(created), "created": True}, [f"Spark's classes are in {created} now"])

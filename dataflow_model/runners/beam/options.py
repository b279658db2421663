"""The options of the runners, for programs that name a runner on the command line: such a runner has no arguments."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false

from __future__ import annotations

from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions


class DataflowModelOptions(PipelineOptions):  # type: ignore[misc] # Beam ships no types that mypy takes
    """Options of the runners in `dataflow_model.beam`, on the command line and in `PipelineOptions(…)`.

    Example:
        >>> options = PipelineOptions(["--dm_workers=2"]).view_as(DataflowModelOptions)
        >>> options.dm_workers, options.dm_checkpoint
        (2, None)
    """

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        parser.add_argument(
            "--dm_checkpoint",
            default=None,
            help="a directory in which the state of a stream is kept between starts, which a SparkRunner needs for a "
            "stream; without it, a run ends with its input",
        )
        parser.add_argument(
            "--dm_workers", type=int, default=1, help="the number of processes of a LocalRunner without a checkpoint"
        )
        parser.add_argument(
            "--dm_without_override",
            action="append",
            default=[],
            help="the name of an override, such as WindowInto: Beam's own transform runs in its place; may be repeated",
        )
        parser.add_argument(
            "--dm_watermark_percentile",
            action="append",
            default=[],
            metavar="LABEL=PERCENTILE",
            help="emit an early pane of the groupings with this label at this percentile of the watermark; repeatable",
        )
        parser.add_argument(
            "--dm_retracting",
            action="append",
            default=[],
            metavar="LABEL",
            help="retract each pane of the groupings with this label before the next one of its window; repeatable",
        )
        parser.add_argument(
            "--dm_retractable",
            action="append",
            default=[],
            metavar="LABEL",
            help="let the functions with this label run on retractions, though they end the pipeline; repeatable",
        )
        parser.add_argument(
            "--dm_spark_master",
            default=None,
            help="the master of a SparkRunner, such as spark://host:7077, or sc://host with Spark Connect; by default "
            "the session of spark-submit, or one in this process",
        )

"""The runners, with the replacements of Beam's transforms."""

from __future__ import annotations

from dataflow_model.beam import files, kafka
from dataflow_model.runners.beam.overrides import REPLACEMENTS, Override, Replacement
from dataflow_model.runners.beam.runner import LocalRunner, SparkRunner

__all__ = ["LocalRunner", "SparkRunner"]

REPLACEMENTS.update(
    {
        "apache_beam.io.kafka.ReadFromKafka": Replacement(Override.READ_FROM_KAFKA, kafka.read_from_kafka),
        "apache_beam.io.kafka.WriteToKafka": Replacement(Override.WRITE_TO_KAFKA, kafka.write_to_kafka),
        "apache_beam.io.textio.ReadFromText": Replacement(Override.READ_FROM_TEXT, files.read_from_text),
        "apache_beam.transforms.managed.Read": Replacement(Override.MANAGED_KAFKA, kafka.managed_read),
        "apache_beam.transforms.managed.Write": Replacement(Override.MANAGED_KAFKA, kafka.managed_write),
    }
)

"""`dataflow-model doctor`: what is installed, and what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from dataflow_model.cli.answer import Answer, add_command, aligned

if TYPE_CHECKING:
    import argparse

    from dataflow_model.cli.answer import Commands


def add(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "doctor",
        _doctor,
        does="check Python, the core, connectors, Java and Spark",
        example="dataflow-model doctor\ndataflow-model doctor --spark spark://host:7077",
        description="Print the versions of what is installed, whether the core is compiled, and what is missing, with "
        "the way out. With --spark, start a session there and check its executors with a small task on each core, as a "
        "run does. The exit status is 1 if something is wrong, but not if something optional is absent.",
    )
    parser.add_argument("--spark", metavar="MASTER", help="a master, such as spark://host:7077, local[2] or sc://host")


def _doctor(options: argparse.Namespace) -> Answer:
    from dataflow_model.cli.checkup import findings, findings_on_spark

    all_findings = list(findings(options.spark))
    if options.spark is not None and not any(finding.status == "error" for finding in all_findings):
        all_findings += findings_on_spark(options.spark)
    wrong = [finding.name for finding in all_findings if finding.status == "error"]
    lines = aligned([(finding.status, finding.name, finding.value) for finding in all_findings], indent="")
    lines += [f"Hint: {finding.name}: {finding.hint}" for finding in all_findings if finding.hint]
    facts = {"healthy": not wrong, "findings": [attrs.asdict(finding) for finding in all_findings]}
    return Answer(facts, lines, 1 if wrong else 0)

"""Write what each runner supports into docs/runners.md, from the tables that the runners themselves look up.

Run it after a change to `plan.endpoints.features` or to a runner's `support`:

    python -m scripts.capabilities
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from dataflow_model.plan.checks.support import Answer, Support, Unsupported
from dataflow_model.plan.endpoints.features import Feature
from dataflow_model.runners.local.bounded import support as local
from dataflow_model.runners.spark import support as spark
from scripts.generated_parts import markdown_table, with_part

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "runners.md"
TABLES: Final[tuple[Support, ...]] = (*local.TABLES, *spark.TABLES)


def page_with_tables(page: str) -> str:
    """Return the page with the tables as they are now."""
    return with_part(page, "capabilities", tables())


def tables() -> str:
    """Return the matrix of features and runners, then the reason for each gap.

    Example:
        >>> tables().splitlines()[2]
        '| `Create` | yes | yes | yes | yes | yes |'
    """
    head = ["", *(f"`{table.runner}`" for table in TABLES)]
    matrix = [[feature.value, *(_cell(table.answers[feature]) for table in TABLES)] for feature in Feature]
    gaps = [["no", "because", "instead"]]
    for table in TABLES:
        refused: dict[Unsupported, list[str]] = {}
        for feature, answer in table.answers.items():
            if isinstance(answer, Unsupported):
                refused.setdefault(answer, []).append(feature.value)
        gaps += [
            [f"`{table.runner}`: {'; '.join(features)}", answer.reason, answer.instead]
            for answer, features in refused.items()
        ]
    return f"{markdown_table([head, *matrix])}\n{markdown_table(gaps)}"


def _cell(answer: Answer) -> str:
    if isinstance(answer, Unsupported):
        return "no"
    return f"yes; {answer.how}" if answer.how else "yes"


if __name__ == "__main__":
    PAGE.write_text(page_with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")

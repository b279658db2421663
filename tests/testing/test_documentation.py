"""The property test that the documentation gives readers to paste stands on its own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "testing.md"
SECTION = "## Test your own pipeline's triggers"


def test_the_first_example_of_the_page_on_testing_needs_only_the_import_of_the_package() -> None:
    text = PAGE.read_text(encoding="utf-8").partition(SECTION)[2]
    block = re.search(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert block is not None
    names: dict[str, Any] = {}
    assert block[1].count("prove(warmest, READINGS)") == 1
    few = block[1].replace("prove(warmest, READINGS)", "prove(warmest, READINGS, examples=3)")  # all when pages run
    exec("import dataflow_model as dm\n" + few, names)

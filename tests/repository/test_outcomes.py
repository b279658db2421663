"""The page on accumulation modes says what the rules say by which plans are checked."""

from __future__ import annotations

from scripts.outcomes import PAGE, page_with_tables


def test_the_table_of_outcomes_is_up_to_date() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == page_with_tables(page), "run: python -m scripts.outcomes"

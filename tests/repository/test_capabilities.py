"""The page on runners says what the runners' own tables say."""

from __future__ import annotations

from scripts.capabilities import PAGE, page_with_tables


def test_the_matrix_of_capabilities_is_up_to_date() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == page_with_tables(page), "run: python -m scripts.capabilities"

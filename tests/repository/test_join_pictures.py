"""The pictures of the page on joins show what its examples compute."""

from __future__ import annotations

from scripts.join_pictures import pictures


def test_the_pictures_of_joins_are_up_to_date() -> None:
    drawn = pictures()
    assert {path: path.read_text(encoding="utf-8") for path in drawn} == drawn, "run: python -m scripts.join_pictures"

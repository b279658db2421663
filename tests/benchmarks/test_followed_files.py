"""The benchmark of followed folders runs, and what was swept costs nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.followed_files import present, swept

if TYPE_CHECKING:
    from pathlib import Path


def test_offsets_and_state_do_not_grow_with_the_files_that_were_swept(tmp_path: Path) -> None:
    few, many = swept((50, 500), tmp_path)
    assert many.offset <= few.offset + 50
    assert many.state <= few.state + 50


def test_offsets_grow_with_the_files_that_are_there_and_the_state_does_not(tmp_path: Path) -> None:
    few, many = present((20, 200), tmp_path)
    assert few.offset < many.offset < few.offset + 180 * 110
    assert many.state <= few.state + 50

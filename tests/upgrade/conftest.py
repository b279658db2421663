"""The rows that the tests of upgrades read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.inputs import write_history
from tests.support.upgrade.pipelines import history

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    for name in (1, 2):
        write_history(tmp_path / "rows" / f"{name}.parquet", history(name))
    return tmp_path / "rows"

"""What tests of Beam's programs share."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def level_of_the_log() -> Iterator[None]:
    """Keep the level of the root logger, which programs of Beam's set."""
    level = logging.getLogger().level
    yield
    logging.getLogger().setLevel(level)

"""Servers that are fetched once, for tests that are skipped, with the command, where they cannot be had."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scripts import servers

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["jars_of"]


def jars_of(server: str, what: str) -> Path:
    """Return the folder with the jars of a server.

    Args:
        server: its name in servers.toml.
        what: what is not tested without it.
    """
    try:
        return servers.get(server)
    except servers.ServerMissing as missing:
        pytest.skip(f"{what} was not tested: {missing}")

"""Strategies that draw what acting functions do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
from hypothesis import strategies as st

import dataflow_model as dm
from tests.support.state import actor

if TYPE_CHECKING:
    from dataflow_model.plan.logical.strategy import WindowingStrategy

KINDS = st.sampled_from([actor.Actor, actor.Mourner, actor.Sorter])


def fitting(kind: type, strategy: WindowingStrategy) -> WindowingStrategy:
    """Give a sorter windows that none of the timers outlives: behind it a window is gone at its end."""
    return attrs.evolve(strategy, window_fn=dm.GlobalWindows()) if kind is actor.Sorter else strategy

"""The way out for hot keys that the hint of `with_hot_key_fanout` names: combine by key and part, then by key."""

from __future__ import annotations

import pytest

import dataflow_model as dm

TRIGGERS = (
    dm.DefaultTrigger(),
    dm.AfterWatermark(early=dm.Repeatedly(dm.AfterCount(4)), late=dm.AfterCount(2)),
    dm.Repeatedly(dm.AfterCount(5)),
)


def totals(trigger: dm.Trigger, *, parts: int = 0) -> list[int]:
    """Return the sums that the panes of one hot key carry, in a run with late data.

    Args:
        trigger: the trigger of the discarding windows.
        parts: into how many parts the key is split; 0 combines it directly.
    """
    stream = dm.testing.TestStream().bundle([(("hot", n), n % 10) for n in range(23)]).watermark(10)
    stream = stream.bundle([(("hot", 100 + n), 3) for n in range(5)]).watermark_to_infinity()
    windows = dm.Window.into(dm.FixedWindows(10)).trigger(trigger).allowed_lateness(20).discarding()
    with dm.Pipeline() as p:
        pairs = p | stream | windows
        if parts:
            by_part = pairs | "Split" >> dm.MapTuple(lambda key, value: ((key, value % parts), value))
            partial = by_part | "Parts" >> dm.CombinePerKey(sum)
            pairs = partial | "Join" >> dm.MapTuple(lambda key_part, value: (key_part[0], value))
        _ = pairs | dm.CombinePerKey(sum) | "totals" >> dm.io.Collect()
    return [record.value[1] for record in p.result.collected("totals")]


@pytest.mark.parametrize("trigger", TRIGGERS, ids=repr)
@pytest.mark.parametrize("parts", [1, 3, 50])
def test_sums_by_part_and_then_by_key_add_up_to_the_same_total(trigger: dm.Trigger, parts: int) -> None:
    assert sum(totals(trigger, parts=parts)) == sum(totals(trigger)) == sum(range(23)) + sum(range(100, 105))


def test_sums_by_part_have_the_same_panes_under_the_default_trigger() -> None:
    assert totals(dm.DefaultTrigger(), parts=3) == totals(dm.DefaultTrigger())

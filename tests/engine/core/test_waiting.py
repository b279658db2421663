"""The deadlines of stored keys, against a plain dictionary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from dataflow_model.runners.engine.grouping.stored.waiting import WaitingKeys
from dataflow_model.runners.engine.state.key_store import StoredKey

if TYPE_CHECKING:
    from dataflow_model.runners.engine.state.queues import Dues

DOMAINS = 2
KEYS = [b"a", b"b", b"c"]
DUES = st.tuples(*[st.none() | st.integers(0, 3)] * DOMAINS)
STEPS = st.lists(
    st.tuples(st.just("wait"), st.dictionaries(st.sampled_from(KEYS), DUES))
    | st.tuples(st.just("load"), st.sets(st.sampled_from(KEYS)))
    | st.tuples(st.just("take"), st.tuples(st.integers(0, DOMAINS - 1), st.integers(0, 3)))
)


def head(dues: Dues) -> bytes:
    return StoredKey(b"", dues[:-1], dues[-1]).packed()


@given(STEPS)
def test_keys_outside_of_the_columns_wait_for_the_deadlines_that_they_had_when_they_left(
    steps: list[tuple[str, object]],
) -> None:
    current: dict[bytes, Dues] = {}
    waiting = WaitingKeys(DOMAINS, lambda encoded: head(current[encoded]) if encoded in current else b"")
    for step in steps:
        match step:
            case "wait", dict() as keys:
                current |= keys
                waiting.add((encoded, head(dues)) for encoded, dues in keys.items())
            case "load", set() as loaded:
                for encoded in loaded:
                    current.pop(encoded, None)
            case "take", (int() as domain, int() as until):
                taken = waiting.take(domain, until)
                due_keys = [(due, encoded) for encoded, dues in current.items() if (due := dues[domain]) is not None]
                assert taken == [encoded for due, encoded in sorted(due_keys) if due <= until]
                for encoded in taken:
                    del current[encoded]
        for domain in range(DOMAINS):
            known_dues = [due for dues in current.values() if (due := dues[domain]) is not None]
            assert waiting.first(domain) == min(known_dues, default=None)


def test_keys_that_leave_the_columns_repeatedly_take_no_further_memory() -> None:
    waiting = WaitingKeys(1, lambda _: head((7,)))
    for _ in range(10):
        waiting.add((encoded, head((7,))) for encoded in KEYS)
    assert waiting.size() == len(KEYS)

"""Keys in packed bytes: what the form is, and that it stays readable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.plan.functions.combine import GroupFn
from dataflow_model.plan.logical.nodes import GroupByKeyAndWindow, Ref
from dataflow_model.plan.logical.strategy import LateData
from dataflow_model.runners.engine.grouping.stored.durable import DurableMachine
from dataflow_model.runners.engine.grouping.stored.packed_form import PACKED as FORM
from dataflow_model.runners.engine.grouping.stored.packed_form import Layout
from dataflow_model.runners.engine.state.key_store import StoredKey
from dataflow_model.values.pickles import dump
from tests.support import scripting
from tests.support.core_driving import chunk_of, instants_of
from tests.support.reference.states import key_state

if TYPE_CHECKING:
    from tests.support.reference.key_states import KeyState

SCRIPT = "e 1@1, e 2@2, e 4@12, w 8, p 3, e 8@13, e 16@3, w 11, e 32@4, e 64@22"
TREE = dm.AfterWatermark(
    early=dm.AfterAny(dm.AfterCount(2), dm.AfterProcessingTime("5 seconds")), late=dm.AfterCount(1)
)
RETRACTING = scripting.fixed(TREE, lateness=60).accumulating_and_retracting()
PACKED = [
    pytest.param(
        dm.Sum(),
        "01010300000002000000714a555a11068a55000000008096980002000403020000000000000000014200000000000033"
        "80969800809698000000020100000000000000000001004000000000000c002d310180969800110101000080841e0080"
        "841e000000600100127a004000000000809698007f9698001202023380969800809698007f9698001400000c80049505"
        "000000000000008c016b942e",
        id="sum",
    ),
    pytest.param(
        dm.Mean(),
        "01010300000002000000714a555a11168ad5000000008096980002000403020000000000000000014200000000000004"
        "338096980080969800000002010000000000000000000100400000000000020c002d310180969800110101000080841e"
        "0080841e000000600100127a00014000000000809698007f969800120202000000000080294080969800809698007f96"
        "9800140000000000000000184080049505000000000000008c016b942e",
        id="mean",
    ),
    pytest.param(
        GroupFn(),
        "010203000000020000004a555a11028a1500000000809698000200040302000000000000000001420000000000008096"
        "980080969800000002010000000000000000000100400000000000002d310180969800110101000080841e0080841e00"
        "0000600100127a0000000000809698007f96980012020280969800809698007f9698001400008004954f000000000000"
        "00288c016b947d94284b005d94284b014b024b104b20654b015d94284b044b08654b025d944b4061757d94284b005d94"
        "284b014b024b104b20654b015d94284b044b0865757d947d947d947d9474942e",
        id="lists",
    ),
]
"""What `stored` has returned for a combiner, in hexadecimal digits."""


def grouping(windowing: dm.WindowInto, combine: Any) -> GroupByKeyAndWindow:
    return GroupByKeyAndWindow(label="sums", input=Ref("script"), strategy=windowing.strategy, combine=combine)


def stored(windowing: dm.WindowInto, combine: Any) -> StoredKey:
    """Return the only key that is stored after the script."""
    node = grouping(windowing, combine)
    machine = DurableMachine(node, LateData.DROP)
    *instants, _ = instants_of(scripting.script(SCRIPT), windowing.strategy, ())  # the last one is the end of the input
    machine.run(chunk_of(instants))
    (entry,) = machine.settle().values()
    assert isinstance(entry, bytes)
    key = StoredKey.unpacked(entry)
    assert key.state[0] == FORM
    return key


def unpacked(state: bytes, windowing: dm.WindowInto, combine: Any) -> KeyState:
    return key_state(grouping(windowing, combine), state, takes_back=False)


def test_integers_take_few_bytes_and_only_the_key_is_pickled() -> None:
    state = stored(RETRACTING, dm.Sum()).state
    assert state.endswith(dump("k"))
    assert len(state) < 200


@given(
    st.integers(1, 5).flatmap(
        lambda columns: st.lists(
            st.lists(st.tuples(*[st.integers(-(2**63), 2**63 - 1) | st.integers(-200, 200) | st.just(0)] * columns)),
            min_size=1,
        )
    ),
    st.binary(max_size=3),
)
def test_packed_rows_of_integers_are_read_back_as_columns(
    rows_by_key: list[list[tuple[int, ...]]], between: bytes
) -> None:
    rows = [row for rows in rows_by_key for row in rows]
    assume(rows)
    columns = list(np.array(rows, np.int64).T)
    layout = Layout.of(columns)
    assert Layout.read(layout.written(), len(columns)) == layout
    packed = layout.rows(columns, len(rows))
    size = layout.row.itemsize
    counts = np.array(list(map(len, rows_by_key)))
    ends = np.cumsum(counts)
    parts = [packed[begin * size : end * size] for begin, end in zip(ends - counts, ends, strict=True)]
    begins = (ends - counts) * size + np.arange(1, len(counts) + 1) * len(between)
    read = layout.columns(between + between.join(parts), begins, counts)
    assert read.tolist() == np.concatenate(columns).tolist()


@pytest.mark.parametrize(("combine", "packed"), PACKED)
def test_state_packed_in_this_format_earlier_can_still_be_read(combine: Any, packed: str) -> None:
    expected = unpacked(stored(RETRACTING, combine).state, RETRACTING, combine)
    assert len(expected.cells) == 3
    assert unpacked(bytes.fromhex(packed), RETRACTING, combine) == expected

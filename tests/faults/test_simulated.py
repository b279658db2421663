"""Law 3 by hundreds of faults: what a simulation of Spark's retries commits is what an uninterrupted run commits."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from dataflow_model.errors import StateCorruption
from dataflow_model.testing import CrashPoint
from tests.support.conformance.killed import IN_PROCESS_ONLY
from tests.support.faults.simulated import Simulation
from tests.support.faults.summing import SINK, Sums

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.faults.tally import Tally

SEEDS = range(3)


@pytest.mark.parametrize("seeds", [SEEDS, pytest.param(range(3, 80), marks=pytest.mark.slow)])
def test_failures_and_retries_on_any_worker_change_no_result(
    tmp_path: Path, tally: Tally, monkeypatch: pytest.MonkeyPatch, seeds: range
) -> None:
    uninterrupted = Sums(tmp_path / "calm").uninterrupted()
    struck, speculated = Counter[str](), 0
    expected, actual = dict[str, list[Any]](), dict[str, list[Any]]()
    for seed in seeds:
        sums = Sums(tmp_path / str(seed))
        simulation = Simulation(sums.build, tmp_path / str(seed), seed)
        simulation.run(monkeypatch)
        struck.update(simulation.struck)
        speculated += simulation.speculated
        for sink, records in sums.outcome(simulation.streamed.collected(SINK)).items():
            expected[f"{sink}, seed {seed}"], actual[f"{sink}, seed {seed}"] = uninterrupted[sink], records
    tally.judge("any point, simulated", struck.total(), expected, actual)
    tally.judge("speculative attempt, simulated", speculated, expected, actual)
    assert struck.keys() == set(CrashPoint.POINTS) - set(IN_PROCESS_ONLY)


@pytest.mark.parametrize("seeds", [SEEDS, pytest.param(range(3, 200), marks=pytest.mark.slow)])
def test_a_flipped_bit_anywhere_in_the_state_is_reported_with_its_shard(
    tmp_path: Path, tally: Tally, monkeypatch: pytest.MonkeyPatch, seeds: range
) -> None:
    sums = Sums(tmp_path)
    for seed in seeds:
        simulation = Simulation(sums.build, tmp_path / str(seed), seed, share=0)
        rng, stores = simulation.rng, simulation.streamed.stores
        for _ in range(rng.randint(1, 5)):
            simulation.step(monkeypatch)
        (depth, shard), store = rng.choice(sorted(stores.items()))
        assert store.head is not None
        addresses = [None, *store.parts]
        address = rng.choice(addresses)
        if address is None:
            store.head = flipped(store.head, rng.randrange(8 * len(store.head)))
        else:
            store.parts[address] = flipped(store.parts[address], rng.randrange(8 * len(store.parts[address])))
        for worker in simulation.workers:
            worker.forget_shards()
        with pytest.raises(StateCorruption, match=f"the state of shard {shard} of stage {depth} is damaged"):
            simulation.step(monkeypatch)
    tally.judge("state flipped, simulated", len(seeds), {}, {})


def flipped(payload: bytes, bit: int) -> bytes:
    """Return bytes with one bit the other way round."""
    byte = bit // 8
    return payload[:byte] + bytes([payload[byte] ^ 1 << bit % 8]) + payload[byte + 1 :]

"""Errors for elements and state that cannot be pickled."""

from __future__ import annotations

from dataflow_model.runners.sharded.tasks.unpicklable import unpicklable_element, unpicklable_state


def test_the_hint_for_a_lack_of_memory_is_about_memory() -> None:
    for error in (unpicklable_element("out", [], MemoryError()), unpicklable_state("out", MemoryError())):
        assert "out of memory" in str(error)
        assert "lock" not in str(error)
    assert "a lock, an open file" in str(unpicklable_element("out", [], TypeError("cannot pickle")))

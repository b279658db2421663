"""Merging trigger trees: the state of several cells becomes that of the cell of the merged window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dataflow_model.runners.engine.core import operations, program
from dataflow_model.runners.engine.core.columns import column, lengthened

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Sequence

    from dataflow_model.runners.engine.core.evaluation import TreeEvaluator
    from dataflow_model.runners.engine.core.program import TriggerProgram

_COUNT: Final = program.COUNT
_WEIGH: Final = program.WEIGH
_ASK: Final = program.ASK
_WATERMARK: Final = program.WATERMARK
_DELAY: Final = program.DELAY
_PERIOD: Final = program.PERIOD
_USER: Final = program.USER
_REPEATEDLY: Final = program.REPEATEDLY
_REPEAT_COUNT: Final = program.REPEAT_COUNT
_EACH: Final = program.EACH
_ALL: Final = program.ALL
_DONE: Final = operations.DONE
_SET: Final = operations.SET
_MET: Final = operations.MET
_SCRATCH: Final = 4


class TreeMerger:
    """Merges the trees of cells, place by place, children before their parents.

    Args:
        trees: the evaluator of the trees.
        program: the tree.

    Attributes:
        sources: the cells that have a part in the places on the way from the root to the current one, one group after
            the other.
        source_count: how many these are.
    """

    def __init__(self, trees: TreeEvaluator, program: TriggerProgram) -> None:
        self.trees = trees
        self.cells = trees.cells
        self.merges: Sequence[Callable[..., Any] | None] = program.merges
        self.sources: array[int] = column(_SCRATCH)
        self.source_count = 0

    def merge(self, target: int, slots: array[int], count: int) -> None:
        """Merge the trees of several cells into that of a new cell; `slots` are in reverse order of their windows."""
        self.source_count = 0
        self.trees.begin_merge()
        for place in range(count - 1, -1, -1):
            self.add_source(slots[place])
        self.merge_place(0, target, 0, self.source_count)

    def add_source(self, slot: int) -> None:
        """Add a cell to the sources of a merge."""
        if self.source_count == len(self.sources):
            self.sources = lengthened(self.sources, 2 * self.source_count)
        self.sources[self.source_count] = slot
        self.source_count += 1

    def merge_place(self, place: int, target: int, begin: int, end: int) -> None:
        """Merge the state of one place from those sources that have a part in it."""
        trees = self.trees
        first, count = trees.first_child[place], trees.children[place]
        for number in range(count):
            child, base = trees.child[first + number], self.source_count
            for at in range(begin, end):
                slot = self.sources[at]
                if not trees.has(slot, _DONE, place) or trees.has(slot, _DONE, child):
                    self.add_source(slot)
            self.merge_place(child, target, base, self.source_count)
            self.source_count = base
        if self.finishes_merged(place, target, begin, end):
            trees.put(target, _DONE, place)
        if count:
            self.merge_composite(place, target, begin, end)
        else:
            self.merge_leaf(place, target, begin, end)
        if trees.has(target, _DONE, place):
            trees.clear(place, target)

    def finishes_merged(self, place: int, target: int, begin: int, end: int) -> bool:
        """Return whether a merged place is finished: a leaf if all sources are, a composite by its children."""
        trees = self.trees
        operation, first, count = trees.operation[place], trees.first_child[place], trees.children[place]
        if not count:
            for at in range(begin, end):
                if not trees.has(self.sources[at], _DONE, place):
                    return False
            return end > begin
        if operation == _REPEATEDLY:
            return False
        finished = 0
        for number in range(count):
            if trees.has(target, _DONE, trees.child[first + number]):
                finished += 1
        if operation in (_EACH, _ALL, _REPEAT_COUNT):
            return finished == count
        return finished > 0

    def merge_leaf(self, place: int, target: int, begin: int, end: int) -> None:
        """Merge a leaf: add up counts, keep the earliest deadline, or wait for the end of the new window."""
        trees = self.trees
        operation = trees.operation[place]
        if operation == _WATERMARK:
            if trees.now[trees.domain[place]] < self.cells.end[target]:
                trees.take(target, _DONE, place)
            if not trees.has(target, _DONE, place):
                trees.put(target, _SET, place)
        elif operation == _ASK:
            self.merge_memory(place, target, begin, end)
        elif operation == _USER:
            self.merge_users(place, target, begin, end)
        elif trees.has(target, _DONE, place):
            return
        elif operation in (_COUNT, _WEIGH):
            self.add_counters(place, target, begin, end)
        elif operation in (_DELAY, _PERIOD):
            column, width = trees.deadline[place], self.cells.width
            for at in range(begin, end):
                slot = self.sources[at]
                if trees.has(slot, _SET, place):
                    time = self.cells.deadlines[slot * width + column]
                    if not trees.has(target, _SET, place) or time < self.cells.deadlines[target * width + column]:
                        self.cells.deadlines[target * width + column] = time
                        trees.put(target, _SET, place)

    def merge_composite(self, place: int, target: int, begin: int, end: int) -> None:
        """Restore the turns of the children of a merged composite, and unite the conditions that they have met."""
        trees = self.trees
        operation, first, count = trees.operation[place], trees.first_child[place], trees.children[place]
        if operation == _REPEATEDLY:
            if trees.has(target, _DONE, trees.child[first]):
                trees.reset(trees.child[first], target)
        elif operation == _REPEAT_COUNT:
            self.merge_completions(place, target, begin, end)
        elif operation == _EACH:
            begun = True
            for number in range(count):
                child = trees.child[first + number]
                if not begun:
                    trees.reset(child, target)
                elif not trees.has(target, _DONE, child):
                    begun = False
        elif operation == _ALL:
            for number in range(count):
                child = trees.child[first + number]
                for at in range(begin, end):
                    if trees.has(self.sources[at], _MET, child):
                        trees.put(target, _MET, child)
            if trees.users is not None:
                trees.users.merge_met(place, target, [self.sources[at] for at in range(begin, end)])

    def merge_completions(self, place: int, target: int, begin: int, end: int) -> None:
        """Add up the completions of the unfinished sources; if there are none, the child's state is sufficient."""
        trees = self.trees
        is_open = False
        for at in range(begin, end):
            if not trees.has(self.sources[at], _DONE, place):
                is_open = True
        if not is_open:
            return
        child = trees.child[trees.first_child[place]]
        counter = target * self.cells.width + trees.counter[place]
        self.add_counters(place, target, begin, end)
        trees.take(target, _DONE, place)
        if trees.has(target, _DONE, child):
            self.cells.counters[counter] += 1
        if self.cells.counters[counter] >= trees.argument[place]:
            trees.put(target, _DONE, place)
            trees.clear(child, target)
            for number in range(child, trees.last[child] + 1):  # so that a later merge sees every place as finished
                trees.put(target, _DONE, number)
        elif trees.has(target, _DONE, child):
            trees.reset(child, target)

    def add_counters(self, place: int, target: int, begin: int, end: int) -> None:
        """Add up the counts of the sources."""
        trees = self.trees
        total = 0
        for at in range(begin, end):
            total += self.cells.counters[self.sources[at] * self.cells.width + trees.counter[place]]
        self.cells.counters[target * self.cells.width + trees.counter[place]] = total

    def merge_memory(self, place: int, target: int, begin: int, end: int) -> None:
        """Merge the states of a user's `DataTrigger`."""
        trees = self.trees
        slots = [self.sources[at] for at in range(begin, end)]
        states = [trees.memory[slot, place] for slot in slots if (slot, place) in trees.memory]
        merge = self.merges[place]
        if states:
            assert merge is not None  # noqa: S101
            trees.memory[target, place] = states[0] if len(states) == 1 else merge(states)

    def merge_users(self, place: int, target: int, begin: int, end: int) -> None:
        """Have a user's trigger merge its states, and record whether it has finished."""
        trees = self.trees
        trees.pass_clocks()
        assert trees.users is not None  # noqa: S101 - the tree has a user's trigger
        if trees.users.merge(place, target, [self.sources[at] for at in range(begin, end)]):
            trees.put(target, _DONE, place)
        else:
            trees.take(target, _DONE, place)

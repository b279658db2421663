cimport cython
from libc.stdint cimport int64_t

from dataflow_model.runners.engine.core.cells cimport CellTable
from dataflow_model.runners.engine.core.evaluation cimport TreeEvaluator

cdef int64_t _COUNT, _WEIGH, _ASK, _WATERMARK, _DELAY, _PERIOD, _USER, _REPEATEDLY, _REPEAT_COUNT, _EACH, _ALL
cdef int64_t _DONE, _SET, _MET, _SCRATCH

@cython.final
cdef class TreeMerger:
    cdef public TreeEvaluator trees
    cdef public CellTable cells
    cdef public tuple merges
    cdef public int64_t[::1] sources
    cdef public int64_t source_count

    @cython.locals(place=int64_t)
    cpdef int merge(self, int64_t target, int64_t[::1] slots, int64_t count) except -1
    cpdef int add_source(self, int64_t slot) except -1
    @cython.locals(trees=TreeEvaluator, first=int64_t, count=int64_t, number=int64_t, child=int64_t, base=int64_t, at=int64_t, slot=int64_t)
    cpdef int merge_place(self, int64_t place, int64_t target, int64_t begin, int64_t end) except -1
    @cython.locals(trees=TreeEvaluator, operation=int64_t, first=int64_t, count=int64_t, at=int64_t, finished=int64_t, number=int64_t)
    cpdef bint finishes_merged(self, int64_t place, int64_t target, int64_t begin, int64_t end) noexcept
    @cython.locals(trees=TreeEvaluator, operation=int64_t, column=int64_t, width=int64_t, at=int64_t, slot=int64_t, time=int64_t)
    cpdef void merge_leaf(self, int64_t place, int64_t target, int64_t begin, int64_t end) except *
    @cython.locals(trees=TreeEvaluator, operation=int64_t, first=int64_t, count=int64_t, begun=cython.bint, number=int64_t, child=int64_t, at=int64_t)
    cpdef int merge_composite(self, int64_t place, int64_t target, int64_t begin, int64_t end) except -1
    @cython.locals(trees=TreeEvaluator, is_open=cython.bint, at=int64_t, child=int64_t, counter=int64_t, number=int64_t)
    cpdef void merge_completions(self, int64_t place, int64_t target, int64_t begin, int64_t end) except *
    @cython.locals(trees=TreeEvaluator, total=int64_t, at=int64_t)
    cpdef void add_counters(self, int64_t place, int64_t target, int64_t begin, int64_t end) noexcept
    @cython.locals(trees=TreeEvaluator)
    cpdef int merge_users(self, int64_t place, int64_t target, int64_t begin, int64_t end) except -1
    @cython.locals(trees=TreeEvaluator)
    cpdef int merge_memory(self, int64_t place, int64_t target, int64_t begin, int64_t end) except -1

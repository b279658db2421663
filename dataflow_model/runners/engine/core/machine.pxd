cimport cython
from libc.stdint cimport int64_t, uint64_t

from dataflow_model.runners.engine.core.cells cimport CellTable
from dataflow_model.runners.engine.core.evaluation cimport TreeEvaluator
from dataflow_model.runners.engine.core.emission cimport Emission
from dataflow_model.runners.engine.core.log cimport OperationLog, StandingTable
from dataflow_model.runners.engine.core.schedule cimport Schedule
from dataflow_model.runners.engine.core.tree_merging cimport TreeMerger

cdef int64_t _ADD, _MERGE, _EXPIRE, _TAKE_BACK, _EXCHANGE, _FIRED, _MODE, _LOW_DOMAIN, _CLOCK_DOMAIN, _LATE, _CLOSED, _RETRACTION
cdef int64_t _BEFORE, _ELEMENT, _WATERMARK, _AT
cdef int64_t _PENDING_ON_TIME, _HAD_ON_TIME, _HAS_CLOSED, _REOPENED, _TIMED, _COLLECTED, _NONE, _SCRATCH, _AT_ONCE

@cython.final
cdef class GroupingMachine:
    cdef public CellTable cells
    cdef public TreeEvaluator trees
    cdef public TreeMerger merger
    cdef public StandingTable standing
    cdef public Schedule schedule
    cdef public Emission emission
    cdef public OperationLog log
    cdef public int64_t minus_infinity, infinity, domains, watermark, clock, closed
    cdef public bint passes_always, closes_always, reopens, merges, spans, rebounded
    cdef public int64_t[::1] sources, replaced
    cdef public int64_t replaced_at
    cdef public int64_t[::1] dropped
    cdef public list drops
    cdef public int64_t possible_splits
    cdef public object merging

    @cython.locals(emission=Emission, keys=int64_t[::1], starts=int64_t[::1], ends=int64_t[::1], kinds=int64_t[::1], times=int64_t[::1], rows=int64_t[::1], replaces=int64_t[::1], clocks=int64_t[::1], watermarks=int64_t[::1], closes=int64_t[::1], until=int64_t[::1], signalled_until=int64_t[::1], index=int64_t, read=int64_t, signal=int64_t, instant=int64_t, last_row=int64_t, row=int64_t, moved=cython.bint)
    cpdef run(self, object elements, int64_t[::1] replaced, object instants, int64_t[::1] signals, object values, int64_t[::1] hold)
    @cython.locals(emission=Emission, keys=int64_t[::1], starts=int64_t[::1], bounds=int64_t[::1], kinds=int64_t[::1], times=int64_t[::1], numbers=int64_t[::1], replaces=int64_t[::1], at=int64_t[::1], begins=int64_t[::1], until=int64_t[::1], index=int64_t, row=int64_t)
    cpdef run_by_key(self, object elements, int64_t[::1] replaced, object rows, object values, bint ends)
    @cython.locals(domain=int64_t)
    cpdef int follow(self, int64_t watermark) except -1
    @cython.locals(domain=int64_t)
    cpdef void set_clocks(self, int64_t watermark, int64_t clock) noexcept
    cpdef recycle(self)
    cpdef dict counts(self)

    @cython.locals(table=CellTable, first=int64_t, slot=int64_t, on_time=cython.bint, index=int64_t)
    cpdef void element(self, int64_t row, int64_t key, int64_t start, int64_t end, int64_t kind, int64_t time, int64_t replaces) except *
    @cython.locals(table=CellTable, slot=int64_t, is_finished=cython.bint)
    cpdef void retraction(self, int64_t row, int64_t key, int64_t start, int64_t end, int64_t kind, int64_t time) except *
    cpdef int drop(self, int64_t row, int64_t reason, int64_t start, int64_t end, int64_t kind) except -1
    @cython.locals(index=int64_t)
    cpdef int drop_replaced(self, int64_t first, int64_t start, int64_t end, int64_t kind) except -1
    cpdef void react(self, int64_t slot, int64_t result) except *
    cpdef void catch_up_changed(self, int64_t slot) except *
    cpdef void catch_up(self, int64_t slot) except *
    @cython.locals(forced=cython.bint, expiring=cython.bint)
    cpdef int act(self, int64_t slot, int64_t result, int64_t produced) except -1
    cpdef void take_out(self, int64_t slot, bint on_time) noexcept
    @cython.locals(table=CellTable, flags=int64_t)
    cpdef void incorporate(self, int64_t slot, int64_t time, bint on_time) noexcept
    @cython.locals(slot=int64_t)
    cpdef int64_t opened(self, int64_t key, int64_t start, int64_t end, int64_t kind) except -1
    @cython.locals(slot=int64_t)
    cpdef void expired(self, int64_t row, int64_t key, int64_t start, int64_t end, int64_t kind, int64_t time, bint reopens) except *

    @cython.locals(table=CellTable, slot=int64_t, first=int64_t, last=int64_t, count=int64_t)
    cpdef int64_t merged(self, int64_t key, int64_t start, int64_t end, int64_t kind) except -2
    @cython.locals(table=CellTable, target=int64_t, last=int64_t, pending=int64_t, elements=int64_t, flags=int64_t, standing=int64_t, index=int64_t, slot=int64_t, entry=int64_t, following=int64_t)
    cpdef int64_t merge_cells(self, int64_t count, int64_t key, int64_t start, int64_t end, int64_t kind) except -1

    cpdef int advance_clock(self, int64_t time) except -1
    @cython.locals(schedule=Schedule, index=int64_t, slot=int64_t, at=int64_t, result=int64_t)
    cpdef int run_clock(self, int64_t until, int64_t phase) except -1
    @cython.locals(number=int64_t, percentile=int64_t, domain=int64_t, reached=int64_t, moved=cython.bint)
    cpdef bint reach(self, object percentiles, int64_t watermark) except -1
    @cython.locals(schedule=Schedule, previous=int64_t, domain=int64_t, index=int64_t, slot=int64_t, result=int64_t)
    cpdef int advance_watermark(self, int64_t watermark) except -1
    @cython.locals(schedule=Schedule, index=int64_t)
    cpdef int run_reopened(self) except -1
    @cython.locals(table=CellTable, end=int64_t, fired=cython.bint, owes=cython.bint, passing=cython.bint, expiring=cython.bint, forced=cython.bint)
    cpdef bint watermark_reaches(self, int64_t slot, int64_t previous, int64_t result) except -1
    @cython.locals(entry=int64_t, following=int64_t)
    cpdef int expire(self, int64_t slot) except -1
    @cython.locals(slot=int64_t, result=int64_t)
    cpdef int signal(self, int64_t name) except -1

    cpdef int restored(self, int64_t slot) except -1
    @cython.locals(index=int64_t)
    cpdef int restore_all(self, int64_t[::1] slots) except -1

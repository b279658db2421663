cimport cython
from libc.stdint cimport int64_t

from dataflow_model.runners.engine.core.cells cimport CellTable
from dataflow_model.runners.engine.core.deadlines cimport DeadlineQueue
from dataflow_model.runners.engine.core.evaluation cimport TreeEvaluator
from dataflow_model.runners.engine.core.log cimport PaneLog, StandingTable

cdef int64_t _LOW_DOMAIN, _EARLIEST, _LATEST, _REOPENED, _TIMED, _COLLECTED, _HOLDS, _NONE, _SCRATCH, _FEW, _AT_ONCE

@cython.final
cdef class Schedule:
    cdef public CellTable cells
    cdef public TreeEvaluator trees
    cdef public StandingTable standing
    cdef public list queues
    cdef public DeadlineQueue holds
    cdef public int64_t domains, infinity, lateness, timestamp_combiner, collected_count, reopened_count
    cdef public bint merges, closes_always, holds_back
    cdef public int64_t[::1] collected, reopened

    cpdef int64_t expiry(self, int64_t end) noexcept
    @cython.locals(due=int64_t)
    cpdef int64_t due_on(self, int64_t slot, int64_t domain) noexcept
    @cython.locals(table=CellTable, end=int64_t)
    cpdef int64_t output_time(self, int64_t slot) noexcept
    cpdef bint is_awaited(self, int64_t slot) noexcept
    @cython.locals(table=CellTable, panes=PaneLog, entry=int64_t, same_start=cython.bint, same_end=cython.bint)
    cpdef bint owes(self, int64_t slot) noexcept
    @cython.locals(hold=int64_t, entry=int64_t)
    cpdef int64_t hold_of(self, int64_t slot) noexcept

    @cython.locals(table=CellTable, domain=int64_t, due=int64_t, at=int64_t, hold=int64_t)
    cpdef int update(self, int64_t slot) except -1
    cpdef int reopen(self, int64_t slot) except -1
    cpdef int enqueue(self, DeadlineQueue queue, int64_t time, int64_t slot, int64_t domain) except -1
    @cython.locals(count=int64_t, slots=int64_t[::1], times=int64_t[::1], index=int64_t)
    cpdef int prune(self, DeadlineQueue queue, int64_t domain) except -1
    @cython.locals(table=CellTable)
    cpdef int64_t queued_at(self, int64_t slot, int64_t domain) noexcept
    cpdef void queue_at(self, int64_t slot, int64_t domain, int64_t time) noexcept
    @cython.locals(width=int64_t, row=int64_t, key=int64_t, index=int64_t, at=int64_t, slot=int64_t, domain=int64_t)
    cpdef int write_dues(self, int64_t[::1] slots, int64_t[::1] begins, int64_t minus_infinity, int64_t[::1] dues, int64_t[::1] are_set) except -1

    @cython.locals(queue=DeadlineQueue, time=int64_t, slot=int64_t, due=int64_t)
    cpdef int64_t first_due(self, int64_t domain) except? -1
    @cython.locals(table=CellTable, queue=DeadlineQueue, count=int64_t, index=int64_t, slot=int64_t, queued=int64_t, due=int64_t)
    cpdef int collect(self, int64_t domain, int64_t until) except -1
    cpdef int collect_cell(self, int64_t slot) except -1
    @cython.locals(table=CellTable, queue=DeadlineQueue, time=int64_t, slot=int64_t, is_current=cython.bint, hold=int64_t)
    cpdef int64_t held(self) except? -1

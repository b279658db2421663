cimport cython
from libc.stdint cimport int64_t

from dataflow_model.runners.engine.core.cells cimport CellTable
from dataflow_model.runners.engine.core.evaluation cimport TreeEvaluator
from dataflow_model.runners.engine.core.log cimport CauseLog, OperationLog, PaneLog, StandingTable
from dataflow_model.runners.engine.core.schedule cimport Schedule

cdef int64_t _CLEAR, _FIRE, _REPLACE, _RETRACT, _EXPIRE, _ON_TIME, _LATE, _FIRST, _LAST, _BY_TRIGGER, _RETRACTION
cdef int64_t _ACCUMULATES, _CLEARS, _LOW_DOMAIN, _ELEMENT, _PENDING_ON_TIME, _HAD_ON_TIME, _HAS_CLOSED, _TIMED, _NONE

@cython.final
cdef class Emission:
    cdef public CellTable cells
    cdef public TreeEvaluator trees
    cdef public Schedule schedule
    cdef public StandingTable standing
    cdef public OperationLog log
    cdef public PaneLog panes
    cdef public CauseLog causes
    cdef public int64_t events, phase, at, cause, number, instant, cleared_by_trigger
    cdef public bint clears, obeys, retracts
    cdef public object keeps, merging

    cpdef void clear(self) noexcept
    cpdef void next_event(self, int64_t phase) noexcept
    cpdef void begin(self, int64_t phase, int64_t at) noexcept
    @cython.locals(table=CellTable)
    cpdef int fire(self, int64_t slot, int64_t mode, int64_t produced, bint by_trigger, bint passing, bint forced, bint last) except -1
    cpdef bint clears_after(self, int64_t mode) noexcept
    cpdef int clear_contents(self, int64_t slot) except -1
    cpdef void settle(self, int64_t slot) noexcept
    cpdef bint is_empty(self, int64_t slot) except -1
    @cython.locals(table=CellTable, panes=PaneLog, flags=int64_t, info=int64_t, is_first=cython.bint, time=int64_t, taken_back=int64_t, pane=int64_t, entry=int64_t)
    cpdef int emit(self, int64_t slot, int64_t produced, bint by_trigger, bint passing, bint last) except -1
    @cython.locals(table=CellTable, standing=StandingTable, named=int64_t, before=int64_t, earliest=int64_t, previous=int64_t, entry=int64_t, pane=int64_t)
    cpdef int64_t take_back(self, int64_t slot, int64_t produced) except -2
    @cython.locals(panes=PaneLog)
    cpdef bint is_earlier(self, int64_t entry, int64_t other) except *
    @cython.locals(causes=CauseLog, table=CellTable, kind=int64_t, pane=int64_t)
    cpdef int64_t appended(self, int64_t slot, int64_t produced, int64_t named) except -1
    @cython.locals(table=CellTable, pane=int64_t)
    cpdef int emit_reopened(self, int64_t slot, int64_t produced) except -1

cimport cython
from libc.stdint cimport int64_t, uint64_t

cdef int64_t _FIRST_CAPACITY

@cython.final
cdef class OperationLog:
    cdef public int64_t count
    cdef public int64_t[::1] kind, slot, argument
    @cython.locals(index=int64_t)
    cpdef int add(self, int64_t kind, int64_t slot, int64_t argument) except -1

@cython.final
cdef class PaneLog:
    cdef public int64_t count
    cdef public int64_t[::1] cause, number, emission, key, start, end, kind, index, on_time_index, flags, time, produced
    @cython.locals(index=int64_t, size=int64_t)
    cpdef int64_t open(self) except -1
    cpdef void copy(self, int64_t index, PaneLog other, int64_t source) noexcept

@cython.final
cdef class CauseLog:
    cdef public int64_t count
    cdef public int64_t[::1] event, instant, watermark, phase, at, key, start, end, kind
    @cython.locals(index=int64_t, size=int64_t)
    cpdef int64_t open(self) except -1

@cython.final
cdef class StandingTable:
    cdef public PaneLog panes
    cdef public int64_t[::1] following, free, freed
    cdef public int64_t free_count, freed_count
    @cython.locals(entry=int64_t)
    cpdef int64_t open(self) except -1
    @cython.locals(index=int64_t)
    cpdef int open_all(self, int64_t[::1] entries) except -1
    cpdef void close(self, int64_t entry) noexcept
    @cython.locals(index=int64_t)
    cpdef void recycle(self) noexcept

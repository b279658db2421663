cimport cython
from libc.stdint cimport int64_t, uint64_t

cdef int64_t _FIRST_CAPACITY

@cython.final
cdef class DeadlineHeap:
    cdef public int64_t size
    cdef public int64_t[::1] times, slots
    cpdef int64_t first_time(self) noexcept
    cpdef int64_t first_slot(self) noexcept
    @cython.locals(place=int64_t, above=int64_t)
    cpdef int push(self, int64_t time, int64_t slot) except -1
    @cython.locals(size=int64_t, time=int64_t, slot=int64_t, place=int64_t, below=int64_t)
    cpdef void pop(self) noexcept
    cpdef void clear(self) noexcept

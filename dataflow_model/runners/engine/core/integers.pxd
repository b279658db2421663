cimport cython
from libc.stdint cimport int64_t, uint64_t

cdef int64_t _FIRST_CAPACITY, _NONE

@cython.final
cdef class IntegerNumbers:
    cdef public int64_t count, capacity
    cdef public int64_t[::1] integers, numbers
    @cython.locals(mixed=uint64_t)
    cpdef int64_t bucket(self, int64_t integer) noexcept
    @cython.locals(slot=int64_t)
    cpdef int64_t slot_of(self, int64_t integer) noexcept
    @cython.locals(missing=int64_t, row=int64_t, number=int64_t)
    cpdef int64_t find(self, int64_t[::1] integers, int64_t[::1] output) except -1
    @cython.locals(slot=int64_t)
    cpdef put(self, int64_t integer, int64_t number)
    @cython.locals(row=int64_t)
    cpdef put_all(self, int64_t[::1] integers, int64_t[::1] numbers)
    @cython.locals(free=int64_t, slot=int64_t, bucket=int64_t)
    cpdef remove(self, int64_t integer)
    @cython.locals(integers=int64_t[::1], numbers=int64_t[::1], before=int64_t, row=int64_t, slot=int64_t)
    cpdef grow(self)

cimport cython
from libc.stdint cimport int64_t, uint64_t

cdef int64_t _FIRST_CAPACITY, _RECENT, _NONE

@cython.final
cdef class DeadlineQueue:
    cdef public int64_t size, used, free, lists
    cdef public int64_t[::1] slots, following, times, numbers, time_of, first_of, recent, popped, popped_at
    cpdef int64_t first_time(self) noexcept
    cpdef int64_t first_slot(self) noexcept
    @cython.locals(entry=int64_t, number=int64_t)
    cpdef int push(self, int64_t time, int64_t slot) except -1
    @cython.locals(index=int64_t)
    cpdef int push_all(self, int64_t count, int64_t[::1] times, int64_t[::1] slots) except -1
    @cython.locals(entry=int64_t, number=int64_t)
    cpdef void pop(self) noexcept
    @cython.locals(count=int64_t)
    cpdef int64_t pop_until(self, int64_t until) except -1
    @cython.locals(entry=int64_t)
    cpdef int64_t entry(self) except -1
    @cython.locals(mixed=uint64_t, index=int64_t, number=int64_t)
    cpdef int64_t list_of(self, int64_t time) except -1
    @cython.locals(index=int64_t, number=int64_t, above=int64_t)
    cpdef int64_t add_list(self, int64_t time) except -1
    @cython.locals(size=int64_t, unused=int64_t, time=int64_t, number=int64_t, index=int64_t, below=int64_t)
    cpdef void remove_first(self) noexcept
    @cython.locals(size=int64_t, number=int64_t)
    cpdef int grow(self) except -1

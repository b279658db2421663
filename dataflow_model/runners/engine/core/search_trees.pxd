cimport cython
from libc.stdint cimport int64_t, uint64_t

cdef int64_t _NONE, _FIRST_CAPACITY

@cython.final
cdef class SearchTrees:
    cdef public int64_t[::1] root_of, start, left, right, above, rows, slots
    cpdef reserve(self, int64_t keys, int64_t slots)
    @cython.locals(slot=int64_t, latest=int64_t)
    cpdef int64_t last_before(self, int64_t key, int64_t time) noexcept
    @cython.locals(slot=int64_t, earliest=int64_t)
    cpdef int64_t first_from(self, int64_t key, int64_t time) noexcept
    @cython.locals(below=int64_t, above=int64_t)
    cpdef int64_t next_after(self, int64_t slot) noexcept
    @cython.locals(pairs=int64_t, row=int64_t, last=int64_t, slot=int64_t)
    cpdef int64_t join(
        self, int64_t count, int64_t[::1] keys, int64_t[::1] slots, int64_t[::1] starts,
        int64_t[::1] others, int64_t[::1] firsts, int64_t[::1] lasts
    ) except -1
    @cython.locals(pairs=int64_t, row=int64_t, slot=int64_t)
    cpdef int64_t walk(self, int64_t count, int64_t[::1] keys) except -1
    @cython.locals(row=int64_t)
    cpdef void remove_all(self, int64_t count, int64_t[::1] keys, int64_t[::1] slots) noexcept
    cpdef int note(self, int64_t index, int64_t row, int64_t slot) except -1
    @cython.locals(above=int64_t, other=int64_t)
    cpdef void insert(self, int64_t key, int64_t slot, int64_t start) noexcept
    @cython.locals(left=int64_t, right=int64_t)
    cpdef void remove(self, int64_t key, int64_t slot) noexcept
    @cython.locals(above=int64_t, inner=int64_t)
    cpdef void lift(self, int64_t key, int64_t slot) noexcept
    @cython.locals(above=int64_t)
    cpdef void replace(self, int64_t key, int64_t slot, int64_t other) noexcept
    @cython.locals(mixed=uint64_t)
    cpdef uint64_t priority(self, int64_t slot) noexcept

cimport cython
from libc.stdint cimport int64_t, uint64_t

cdef int64_t _NONE

@cython.final
cdef class SearchTrees:
    cdef public int64_t[::1] root_of, start, left, right, above
    cpdef reserve(self, int64_t keys, int64_t slots)
    @cython.locals(slot=int64_t, found=int64_t)
    cpdef int64_t last_before(self, int64_t key, int64_t time) noexcept
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

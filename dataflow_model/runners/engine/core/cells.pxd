cimport cython
from libc.stdint cimport int64_t, uint64_t

from dataflow_model.runners.engine.core.search_trees cimport SearchTrees

cdef int64_t _FIRST_CAPACITY
cdef int64_t _NONE
cdef int64_t _REOPENED
cdef int64_t _BIT_SETS
cdef int64_t _AT_ONCE, _MANY_STEPS, _LINE

@cython.final
cdef class CellTable:
    cdef public int64_t words, stride, counts, waits, domains, never, width, capacity, used, live, free_count, freed_count
    cdef public int64_t touched_count, first_bit, first_counter, first_queued, first_deadline
    cdef public bint linked
    cdef public int64_t[:] key, start, end, kind, chain, flags, pending, elements, earliest, latest, hold_at
    cdef public int64_t[:] index, on_time_index, standing, after, before
    cdef public int64_t[::1] rows, bits, counters, queued, deadlines
    cdef public int64_t[::1] heads, cells_of_key, first_of_key, last_of_key, free, freed, keys_freed
    cdef public int64_t[::1] touched, is_touched, ahead
    cdef public int64_t seen
    cdef public SearchTrees trees

    @cython.locals(mixed=uint64_t)
    cpdef int64_t bucket(self, int64_t key, int64_t start, int64_t end, int64_t kind) noexcept
    @cython.locals(slot=int64_t, is_key=cython.bint)
    cpdef int64_t find(self, int64_t key, int64_t start, int64_t end, int64_t kind) noexcept
    @cython.locals(count=int64_t, index=int64_t, key=int64_t, bucket=int64_t)
    cpdef int64_t find_ahead(self, int64_t[::1] keys, int64_t[::1] starts, int64_t[::1] ends, int64_t[::1] kinds, int64_t first) except -1
    @cython.locals(seen=int64_t, index=int64_t, at=int64_t, end=int64_t)
    cpdef void read_ahead(self, int64_t[::1] slots, int64_t first, int64_t last) noexcept
    @cython.locals(seen=int64_t, index=int64_t, slot=int64_t, key=int64_t)
    cpdef void close_ahead(self, int64_t[::1] slots, int64_t first, int64_t last) noexcept
    @cython.locals(slot=int64_t, row=int64_t, at=int64_t, head=int64_t)
    cpdef int64_t open(self, int64_t key, int64_t start, int64_t end, int64_t kind) except -1
    @cython.locals(count=int64_t, first=int64_t, last=int64_t, index=int64_t)
    cpdef int open_all(self, int64_t[::1] keys, int64_t[::1] starts, int64_t[::1] ends, int64_t[::1] kinds, int64_t[::1] slots) except -1
    @cython.locals(key=int64_t, head=int64_t, other=int64_t)
    cpdef void close(self, int64_t slot) noexcept
    @cython.locals(index=int64_t)
    cpdef void recycle(self) noexcept
    @cython.locals(index=int64_t, key=int64_t)
    cpdef void clear(self) noexcept
    cpdef void touch(self, int64_t key) noexcept
    @cython.locals(index=int64_t)
    cpdef void forget_touched(self) noexcept
    @cython.locals(key=int64_t, start=int64_t, before=int64_t, after=int64_t)
    cpdef int link(self, int64_t slot) except -1
    @cython.locals(before=int64_t, after=int64_t)
    cpdef void unlink(self, int64_t slot, int64_t key) noexcept
    @cython.locals(slot=int64_t, steps=int64_t)
    cpdef int64_t last_before(self, int64_t key, int64_t time) except -2
    cpdef bint has_tree(self, int64_t key) noexcept
    @cython.locals(slot=int64_t)
    cpdef int plant(self, int64_t key) except -1
    cpdef admit_keys(self, int64_t count)
    @cython.locals(size=int64_t)
    cpdef reserve(self, int64_t count)
    @cython.locals(rows=int64_t[::1], width=int64_t)
    cpdef divide(self)
    @cython.locals(slot=int64_t, head=int64_t)
    cpdef grow(self, int64_t size)

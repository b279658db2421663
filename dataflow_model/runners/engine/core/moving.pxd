cimport cython
from libc.stdint cimport int64_t, uint8_t

@cython.locals(count=int64_t, row=int64_t, first=int64_t, column=int64_t)
cpdef void from_rows(int64_t[::1] rows, int64_t width, int64_t[::1] slots, int64_t[::1] indices, int64_t[::1] columns) except *

@cython.locals(count=int64_t, row=int64_t, first=int64_t, column=int64_t)
cpdef void to_rows(int64_t[::1] rows, int64_t width, int64_t[::1] slots, int64_t[::1] indices, int64_t[::1] columns) except *

@cython.locals(total=int64_t, part=int64_t, row=int64_t, at=int64_t, _=int64_t, column=int64_t, size=int64_t, value=int64_t, byte=int64_t)
cpdef void read_packed(const uint8_t[::1] packed, int64_t[::1] begins, int64_t[::1] counts, int64_t[::1] sizes, int64_t[::1] columns) except *

@cython.locals(part=int64_t, to=int64_t, byte=int64_t)
cpdef void copy_parts(const uint8_t[::1] source, int64_t[::1] bounds, uint8_t[::1] target, int64_t[::1] offsets) except *

@cython.locals(part=int64_t)
cpdef list divided(bytes source, int64_t[::1] begins, int64_t[::1] ends)

@cython.locals(known=dict, part=int64_t, alike=bytes)
cpdef int64_t number_alike(bytes source, int64_t[::1] begins, int64_t length, int64_t[::1] numbers) except -1

@cython.locals(changed=dict, encoded=bytes, entry=bytes, head=bytes)
cpdef dict changed_heads(dict entries, dict heads, int64_t length)

@cython.locals(firsts=list, seconds=list)
cpdef object pairs_apart(list pairs)

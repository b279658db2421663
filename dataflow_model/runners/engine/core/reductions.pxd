cimport cython
from libc.stdint cimport int64_t

from dataflow_model.runners.engine.core.log cimport OperationLog

cdef int64_t _ADD, _MERGE, _FIRE, _REPLACE, _RETRACT, _TAKE_BACK, _EXCHANGE, _CLEAR, _EXPIRE

ctypedef fused number:
    int64_t
    double

@cython.locals(index=int64_t, kind=int64_t, slot=int64_t, argument=int64_t)
cpdef int add_up(OperationLog log, int64_t begin, number[::1] sums, number[::1] values, number[::1] emitted) except -1

@cython.locals(index=int64_t, kind=int64_t, slot=int64_t, argument=int64_t, value=number, before=number)
cpdef int keep_best(
    OperationLog log, int64_t begin, number[::1] best, int64_t[::1] present, number[::1] values, number[::1] emitted,
    int64_t sign
) except -1

@cython.locals(index=int64_t, kind=int64_t, slot=int64_t, argument=int64_t)
cpdef int note_touched(OperationLog log, int64_t begin, int64_t[::1] touched, int64_t[::1] emitted) except -1

@cython.locals(index=int64_t, kind=int64_t, slot=int64_t, argument=int64_t)
cpdef int trace(OperationLog log, int64_t begin, int64_t[::1] standing, int64_t[::1] sources) except -1

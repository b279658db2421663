cimport cython
from libc.stdint cimport int64_t, uint64_t

from dataflow_model.runners.engine.core.log cimport OperationLog

cdef int64_t _ADD, _MERGE, _FIRE, _REPLACE, _RETRACT, _TAKE_BACK, _EXCHANGE, _FIRST_CAPACITY

@cython.final
cdef class SumFold:
    cdef public int64_t[::1] sums, standing
    cpdef admit(self, int64_t slots, int64_t entries)
    @cython.locals(place=int64_t, kind=int64_t, slot=int64_t, argument=int64_t)
    cpdef int fold(self, OperationLog log, int64_t begin, int64_t[::1] values, int64_t[::1] emitted) except -1

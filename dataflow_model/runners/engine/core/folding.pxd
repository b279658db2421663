cimport cython
from libc.stdint cimport int64_t

from dataflow_model.runners.engine.core.log cimport OperationLog

cdef int64_t _ADD, _MERGE, _FIRE, _CLEAR, _EXPIRE, _TAKE_BACK, _EXCHANGE, _REPLACE, _NONE

@cython.final
cdef class PythonFold:
    cdef public int64_t failed
    cdef public list emitted
    cdef public object _combine
    cdef public dict _accumulators, _standing
    cdef public int64_t _folded

    @cython.locals(accumulators=dict, kinds=int64_t[::1], slots=int64_t[::1], arguments=int64_t[::1], index=int64_t, kind=int64_t, slot=object)
    cpdef fold(self, OperationLog log, values, int64_t panes)
    @cython.locals(kinds=int64_t[::1], slots=int64_t[::1], arguments=int64_t[::1], index=int64_t, sources=list)
    cpdef int64_t merge(self, OperationLog log, int64_t begin) except -1
    cpdef fold_one(self, int64_t kind, int64_t slot, int64_t argument, values)
    cpdef accumulator(self, int64_t slot)

cimport cython
from libc.stdint cimport int64_t

cdef int64_t _PAIR
cdef object _NOTHING, _PLAIN

cdef class CurrentCall:
    cdef public object cell, values, time, clock, event_now, held, freed, pane, produced, timer_tag, fired_at
    cdef public int64_t row
    cdef public bint is_retraction, has_set_timer

    cpdef enter(self, cell, time, freed)

@cython.final
cdef class ElementCalls:
    cdef public object fn, positional, outcomes
    cdef public CurrentCall call
    cdef public dict arguments
    cdef public list varying
    cdef public bint rescues, has_begun

    cpdef process(self, value, time, cell, freed)

@cython.final
cdef class ElementLoop:
    cdef public object machine
    cdef public ElementCalls calls
    cdef public bint sorts
    cdef public object lateness

    @cython.locals(calls=ElementCalls, call=CurrentCall, row=int64_t, is_late=cython.bint)
    cpdef int run(self, inbox, open_windows, retractions, reached, times, bint watermark_follows) except -1

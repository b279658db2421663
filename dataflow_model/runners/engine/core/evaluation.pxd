cimport cython
from libc.stdint cimport int64_t, uint64_t

from dataflow_model.runners.engine.core.cells cimport CellTable

cdef int64_t _ALWAYS, _COUNT, _WEIGH, _TEST, _ASK, _SIGNAL, _WATERMARK, _DELAY, _PERIOD, _USER, _REPEATEDLY, _REPEAT_COUNT
cdef int64_t _EACH, _ALL, _OR_FINALLY, _CLOCK_DOMAIN, _ELEMENT, _TIMER, _SIGNALLED, _RETRACTED, _MERGED, _FIRED, _FINISHED, _MODE, _DONE, _SET, _MET

@cython.final
cdef class TreeEvaluator:
    cdef public CellTable cells
    cdef public int64_t infinity, words, places, timer_count, event, number, row, event_time, signal, user_count, domains
    cdef public bint cleared
    cdef public int64_t[::1] operation, argument, last, domain, counter, deadline, first_child, children, child, word, mask
    cdef public int64_t[::1] timers, user_places, clocks_passed, now, due_in, due_at, fired_in, fired_at
    cdef public tuple calls
    cdef public object values, users
    cdef public dict memory

    cpdef int64_t element(self, int64_t slot, int64_t row, int64_t event_time) except -1
    cpdef int64_t retraction(self, int64_t slot, int64_t row, int64_t event_time) except -1
    cpdef int64_t signalled(self, int64_t slot, int64_t signal) except -1
    cpdef void begin_merge(self) noexcept
    @cython.locals(number=int64_t, place=int64_t, time=int64_t, is_due=cython.bint)
    cpdef int64_t due(self, int64_t slot, bint clock, int64_t until) except -1
    @cython.locals(number=int64_t, place=int64_t, earliest=int64_t)
    cpdef int64_t next_due(self, int64_t slot, int64_t domain) noexcept
    @cython.locals(number=int64_t, place=int64_t, time=int64_t)
    cpdef bint waits(self, int64_t slot, int64_t domain) except *
    @cython.locals(number=int64_t, place=int64_t, domain=int64_t)
    cpdef bint is_overdue(self, int64_t slot) noexcept
    @cython.locals(base=int64_t, domain=int64_t)
    cpdef bint is_user_due(self, int64_t place, int64_t slot, bint clock, int64_t until) noexcept
    cpdef bint is_finished(self, int64_t slot) noexcept
    @cython.locals(place=int64_t)
    cpdef int forget(self, int64_t slot) except -1

    @cython.locals(result=int64_t, is_named=cython.bint)
    cpdef int64_t invoke(self, int64_t place, int64_t slot) except -1
    @cython.locals(operation=int64_t, at=int64_t, total=int64_t)
    cpdef int64_t leaf(self, int64_t place, int64_t slot) except -1
    @cython.locals(first=int64_t, delay=int64_t)
    cpdef int64_t deadline_from_now(self, int64_t place) except? -1
    @cython.locals(operation=int64_t)
    cpdef int64_t composite(self, int64_t place, int64_t slot) except -1
    @cython.locals(child=int64_t, result=int64_t, done=cython.bint)
    cpdef int64_t repeat(self, int64_t place, int64_t slot) except -1
    @cython.locals(first=int64_t, count=int64_t, number=int64_t, child=int64_t, result=int64_t)
    cpdef int64_t show_in_turn(self, int64_t place, int64_t slot) except -1
    @cython.locals(first=int64_t, count=int64_t, is_timed=cython.bint, latest=int64_t, mode=int64_t, number=int64_t, child=int64_t, result=int64_t, fired=cython.bint)
    cpdef int64_t show_all(self, int64_t place, int64_t slot) except -1
    @cython.locals(first=int64_t, count=int64_t, fired=cython.bint, done=cython.bint, mode=int64_t, ends=cython.bint, number=int64_t, child=int64_t, result=int64_t, until=int64_t)
    cpdef int64_t show_any(self, int64_t place, int64_t slot) except -1
    cpdef bint concerns(self, int64_t child) noexcept
    @cython.locals(at=int64_t, completions=int64_t)
    cpdef bint child_finished(self, int64_t place, int64_t slot, int64_t child) except -1
    @cython.locals(number=int64_t)
    cpdef bint is_due_below(self, int64_t place) noexcept
    @cython.locals(first=int64_t, earlier=int64_t)
    cpdef bint has_begun(self, int64_t place, int64_t slot, int64_t number) noexcept
    @cython.locals(first=int64_t, any_met=cython.bint, number=int64_t, child=int64_t)
    cpdef bint is_ready(self, int64_t place, int64_t slot) noexcept
    cpdef bint all_finished(self, int64_t place, int64_t slot) noexcept
    @cython.locals(first=int64_t, number=int64_t, child=int64_t)
    cpdef void stamp(self, int64_t place) noexcept

    cpdef int64_t weight(self, int64_t place) except -1
    cpdef int64_t test(self, int64_t place) except -1
    cpdef int64_t ask(self, int64_t place, int64_t slot) except -1
    @cython.locals(result=int64_t)
    cpdef int64_t call(self, int64_t place, int64_t slot) except -1
    @cython.locals(domain=int64_t, is_new=cython.bint)
    cpdef int pass_clocks(self) except -1
    cpdef int64_t following(self, int64_t place, int64_t first) except? -1

    @cython.locals(number=int64_t)
    cpdef int clear(self, int64_t place, int64_t slot) except -1
    @cython.locals(number=int64_t)
    cpdef int reset(self, int64_t place, int64_t slot) except -1

    cpdef bint has(self, int64_t slot, int64_t of, int64_t place) noexcept
    cpdef void put(self, int64_t slot, int64_t of, int64_t place) noexcept
    cpdef void take(self, int64_t slot, int64_t of, int64_t place) noexcept
    cpdef int64_t time_of(self, int64_t slot, int64_t place) noexcept

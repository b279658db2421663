cimport cython
from libc.stdint cimport int64_t, uint8_t

ctypedef const unsigned char* Bytes

cdef int64_t _FIRST_CAPACITY, _NONE, _WIDTH, _BEGIN, _KEY, _ENTRY, _SEGMENT, _MOST, _POSITIVE, _LINE, _AT_ONCE

@cython.final
cdef class ByteTable:
    cdef public int64_t bytes, reserved, count, needed, capacity, current, used, seen
    cdef public int64_t[::1] index
    cdef public uint8_t[::1] data
    cdef public bytearray memory
    cdef public dict large
    cdef public list hashes, live, free

    @cython.locals(row=int64_t)
    cpdef object peek(self, bytes encoded)
    @cython.locals(wanted=list, known=list, parts=list, rows=list, ends=int64_t[::1], first=int64_t, index=int64_t, row=int64_t, count=int64_t, end=int64_t)
    cpdef tuple joined(self, object keys)
    @cython.locals(seen=int64_t, last=int64_t, index=int64_t, row=int64_t, begin=int64_t, at=int64_t)
    cpdef void fetch(self, list keys, int64_t first) except *
    cpdef int64_t bucket(self, int64_t hashed) noexcept
    cpdef int64_t after(self, int64_t row) noexcept
    @cython.locals(hashed=int64_t, row=int64_t)
    cpdef int64_t find(self, bytes encoded) except -1
    @cython.locals(source=Bytes, begin=int64_t, at=int64_t)
    cpdef bint is_key(self, int64_t row, bytes encoded) noexcept
    @cython.locals(copied=bytes, copies=list, row=int64_t, begin=int64_t, end=int64_t)
    cpdef list copies(self, list rows, int64_t part)
    @cython.locals(total=int64_t, row=int64_t, target=bytearray, data=uint8_t[::1], copied=uint8_t[::1], to=int64_t, begin=int64_t, length=int64_t, at=int64_t)
    cpdef bytearray copied(self, list rows, int64_t part)
    @cython.locals(keys=list, index=int64_t, is_large=cython.bint)
    cpdef put(self, object entries)
    @cython.locals(row=int64_t, length=int64_t, size=int64_t, before=int64_t)
    cpdef put_one(self, bytes encoded, bytes entry)
    @cython.locals(data=uint8_t[::1], at=int64_t)
    cpdef void write(self, int64_t begin, Bytes source, int64_t length) noexcept
    @cython.locals(row=int64_t, entry=bytes)
    cpdef object pop(self, bytes encoded)
    @cython.locals(row=int64_t)
    cpdef int64_t add(self, bytes encoded) except -1
    @cython.locals(before=int64_t[::1], length=int64_t, other=int64_t, row=int64_t, at=int64_t)
    cpdef grow(self)
    @cython.locals(mask=int64_t, row=int64_t, bucket=int64_t, at=int64_t)
    cpdef close(self, int64_t free)
    @cython.locals(begin=int64_t)
    cpdef int64_t reserve(self, int64_t hashed, int64_t size) except -1
    cpdef open(self)
    @cython.locals(number=int64_t)
    cpdef discard(self, int64_t begin, int64_t size)
    @cython.locals(number=int64_t, hashed=int64_t, row=int64_t)
    cpdef clean(self)
    @cython.locals(number=int64_t, least=int64_t, other=int64_t, live=int64_t)
    cpdef int64_t emptiest(self) except? -1
    @cython.locals(begin=int64_t, size=int64_t, to=int64_t, data=uint8_t[::1], at=int64_t)
    cpdef move(self, int64_t row)

# The C types of key_loops.py, for Cython. That file runs the same, only slower, without them.
cimport cython

ctypedef const unsigned char *octet_pointer

cdef unsigned long long _MASK
cdef unsigned long long _START_0
cdef unsigned long long _START_1
cdef unsigned long long _START_2
cdef unsigned long long _START_3
cdef int _RECORD_SIZE_MIN


cdef class OffsetMap:
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t capacity
    cdef unsigned long long[::1] _table
    cdef Py_ssize_t _slots
    cdef unsigned long long _k0
    cdef unsigned long long _k1
    cdef unsigned long long _low
    cdef unsigned long long _high
    cdef unsigned long long[::1] _hashes
    cdef unsigned long long _seen

    @cython.locals(
        octets=octet_pointer, end=Py_ssize_t, delta=cython.longlong, length=cython.longlong,
        low=cython.ulonglong, high=cython.ulonglong, slot=Py_ssize_t, number=Py_ssize_t,
        _=cython.longlong,
    )
    cpdef bint add(
        self, bytes data, Py_ssize_t at, Py_ssize_t size, Py_ssize_t count, long long base_offset,
        long long first_offset,
    ) except -1

    @cython.locals(octets=octet_pointer, slot=Py_ssize_t)
    cpdef object get(self, bytes key)

    @cython.locals(
        octets=octet_pointer, kept=Py_ssize_t, tombstones=Py_ssize_t, keyless=Py_ssize_t,
        largest=cython.longlong, runs=list, run_start=Py_ssize_t, run_end=Py_ssize_t,
        start=Py_ssize_t, end=Py_ssize_t, time_delta=cython.longlong, delta=cython.longlong,
        length=cython.longlong, value_length=cython.longlong, offset=cython.longlong,
        number=Py_ssize_t, slot=Py_ssize_t, found=cython.longlong, keep=cython.bint,
    )
    cpdef tuple survey(
        self, bytes data, Py_ssize_t at, Py_ssize_t size, Py_ssize_t count, long long base_offset,
        long long base_timestamp, long long latest_offset, bint drop_tombstones,
    )

    @cython.locals(
        number=Py_ssize_t, end=Py_ssize_t, length=cython.longlong, seen=cython.ulonglong,
        _=cython.longlong,
    )
    cdef int _hash_all(
        self, octet_pointer octets, Py_ssize_t at, Py_ssize_t size, Py_ssize_t count
    ) except -1

    @cython.locals(table=cython.ulonglong[::1], slots=Py_ssize_t, slot=Py_ssize_t, place=Py_ssize_t)
    cdef Py_ssize_t _find(self, unsigned long long low, unsigned long long high) except -1

    @cython.locals(
        v0=cython.ulonglong, v1=cython.ulonglong, v2=cython.ulonglong, v3=cython.ulonglong,
        left=cython.longlong, word=cython.ulonglong,
    )
    cdef int _hash(self, octet_pointer octets, Py_ssize_t at, long long length) except -1


cdef (unsigned long long, unsigned long long, unsigned long long, unsigned long long) _round(
    unsigned long long v0, unsigned long long v1, unsigned long long v2, unsigned long long v3
) noexcept

@cython.locals(word=cython.ulonglong, shift=cython.int, i=Py_ssize_t, byte=cython.ulonglong)
cdef unsigned long long _word(octet_pointer octets, Py_ssize_t at, Py_ssize_t length) noexcept

@cython.locals(
    octets=octet_pointer, number=Py_ssize_t, end=Py_ssize_t, length=cython.longlong,
    delta=cython.longlong, time=cython.longlong, found=list, _=cython.longlong,
)
cpdef list invalid_records(
    bytes data, Py_ssize_t at, Py_ssize_t size, Py_ssize_t count, bint keyed,
    long long base_timestamp, long long time_min, long long time_max, Py_ssize_t found_max
)

@cython.locals(
    octets=octet_pointer, out=bytearray, number=Py_ssize_t, at=Py_ssize_t, size=Py_ssize_t,
    end=Py_ssize_t, time_at=Py_ssize_t, delta=cython.longlong, moved=cython.longlong,
)
cpdef bytearray rebased(bytes data, list runs, long long shift)

@cython.locals(length=cython.longlong)
cdef (Py_ssize_t, Py_ssize_t) _record_end(octet_pointer octets, Py_ssize_t at, Py_ssize_t size) except *

@cython.locals(raw=cython.ulonglong, shift=cython.int, byte=cython.ulonglong)
cdef (long long, Py_ssize_t) _varint(octet_pointer octets, Py_ssize_t at, Py_ssize_t end) except *

@cython.locals(rest=cython.ulonglong, size=cython.int)
cdef int _varint_size(long long number) noexcept

@cython.locals(rest=cython.ulonglong)
cdef int _write_varint(bytearray buffer, long long number) except -1

# The C types of record_loops.py, for Cython. That file runs the same, only slower, without them.
cimport cython

ctypedef const unsigned char *octets

cdef int _RECORD_SIZE_MIN
cdef int _HEADER_SIZE_MIN
cdef long long _INT32_MAX
cdef long long _INT64_MAX
cdef long long _INT64_MIN


@cython.final
cdef class Record:
    cdef readonly long long offset
    cdef readonly long long timestamp
    cdef readonly bytes key
    cdef readonly bytes value
    cdef readonly tuple headers


@cython.locals(
    data=octets, size=Py_ssize_t,
    record=Record, records=list, previous=cython.longlong, at=Py_ssize_t, end=Py_ssize_t,
    delta=cython.longlong, offset_delta=cython.longlong, length=cython.longlong, _=Py_ssize_t,
)
cpdef list decode_records(
    bytes body, Py_ssize_t count, long long base_offset,
    long long last_offset_delta, long long base_timestamp, long long max_timestamp, bint appended,
)

@cython.locals(
    headers=list, count=cython.longlong, length=cython.longlong, _=cython.longlong, key=str,
)
cdef tuple _read_headers(octets data, Py_ssize_t at, Py_ssize_t end)

@cython.locals(
    data=octets, size=Py_ssize_t,
    at=Py_ssize_t, end=Py_ssize_t, previous=cython.longlong, delta=cython.longlong,
    offset_delta=cython.longlong, found=cython.longlong, _=Py_ssize_t,
)
cpdef tuple find_record(
    bytes body, Py_ssize_t count, long long last_offset_delta,
    long long base_timestamp, long long timestamp,
)

@cython.locals(
    data=octets, size=Py_ssize_t,
    at=Py_ssize_t, end=Py_ssize_t, delta=cython.longlong, offset_delta=cython.longlong,
    length=cython.longlong, header_count=cython.longlong, count=Py_ssize_t, _=cython.longlong,
)
cpdef object count_records(bytes body)

@cython.locals(length=cython.longlong)
cdef (Py_ssize_t, Py_ssize_t) _record_end(octets data, Py_ssize_t at, Py_ssize_t size) except *

@cython.locals(length=cython.longlong)
cdef (long long, Py_ssize_t) _length(
    octets data, Py_ssize_t at, Py_ssize_t end, str what
) except *

@cython.locals(count=cython.longlong)
cdef (long long, Py_ssize_t) _header_count(octets data, Py_ssize_t at, Py_ssize_t end) except *

@cython.locals(length=cython.longlong)
cdef (long long, Py_ssize_t) _header_key_length(
    octets data, Py_ssize_t at, Py_ssize_t end
) except *

@cython.locals(number=cython.longlong, raw=cython.int)
cdef (long long, Py_ssize_t) _varint32(
    octets data, Py_ssize_t at, Py_ssize_t end, str what
) except *

@cython.locals(raw=cython.ulonglong, shift=cython.int, byte=cython.ulonglong)
cdef (long long, Py_ssize_t) _varint64(
    octets data, Py_ssize_t at, Py_ssize_t end, str what
) except *

cdef long long _time(long long base, long long delta, Py_ssize_t at) except? -1

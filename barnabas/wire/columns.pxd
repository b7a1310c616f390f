# The C types of columns.py, for Cython. That file runs the same, only slower, without them.
cimport cython

from cpython.bytearray cimport PyByteArray_Resize
from libc.string cimport memcpy

ctypedef const unsigned char *octets

cdef bint _COMPILED
cdef Py_ssize_t _BAD
cdef long long _BYTES_MAX
cdef long long _INT64_MAX
cdef long long _INT64_MIN
cdef int _RECORD_SIZE_MIN


@cython.final
cdef class Binary:
    cdef readonly object ends
    cdef readonly bytearray content
    cdef readonly bytearray valid
    cdef readonly long long nulls


@cython.final
cdef class Columns:
    cdef readonly Py_ssize_t rows
    cdef readonly object offsets
    cdef readonly object timestamps
    cdef readonly Binary keys
    cdef readonly Binary values
    cdef readonly object header_ends
    cdef readonly bytearray header_valid
    cdef readonly Binary header_keys
    cdef readonly Binary header_values
    cdef bint _with_headers
    cdef long long _time_scale
    cdef long long _time_max
    cdef readonly Py_ssize_t header_rows

    @cython.locals(
        data=octets, view="const unsigned char[::1]", size=Py_ssize_t, offsets="long long[::1]", timestamps="long long[::1]",
        keys=Binary, values=Binary, key_ends="int[::1]", value_ends="int[::1]",
        key_bytes="unsigned char *", value_bytes="unsigned char *",
        key_bits="unsigned char *", value_bits="unsigned char *",
        key_room=Py_ssize_t, value_room=Py_ssize_t, row=Py_ssize_t, key_at=Py_ssize_t,
        value_at=Py_ssize_t, key_nulls=cython.longlong, value_nulls=cython.longlong,
        header_rows=Py_ssize_t, scale=cython.longlong, latest=cython.longlong,
        previous=cython.longlong, at=Py_ssize_t, end=Py_ssize_t, number=cython.longlong,
        delta=cython.longlong, offset=cython.longlong, time=cython.longlong, _=Py_ssize_t,
    )
    cdef Py_ssize_t _decode(
        self, object body, Py_ssize_t count, long long base_offset, long long last_offset_delta,
        long long base_timestamp, long long max_timestamp, bint appended, long long start,
        long long stop,
    ) except? -1

    @cython.locals(
        count=cython.longlong, number=cython.longlong, names=Binary,
        contents=Binary, _=cython.longlong,
    )
    cdef Py_ssize_t _decode_headers(
        self, octets data, Py_ssize_t at, Py_ssize_t end, Py_ssize_t row, Py_ssize_t header_row,
    ) except? -1


@cython.locals(used=cython.longlong, content="unsigned char *", ends="int[::1]")
cdef object _put(Binary column, Py_ssize_t row, octets data, Py_ssize_t at, long long length)

cdef object _reserve(object numbers, Py_ssize_t count)

cdef object _reserve_values(Binary column, Py_ssize_t count)

cdef object _reserve_bits(bytearray bits, Py_ssize_t count)

cdef Py_ssize_t _grow(bytearray content, Py_ssize_t size) except -1

cdef void _copy(
    unsigned char *target, Py_ssize_t to, octets source, Py_ssize_t start, Py_ssize_t length
) noexcept

cdef inline void _copy_memory(
    unsigned char *target, Py_ssize_t to, octets source, Py_ssize_t start, Py_ssize_t length
) noexcept:
    memcpy(target + to, source + start, length)

cdef inline int _resize(bytearray content, Py_ssize_t size) except -1:
    return PyByteArray_Resize(content, size)

cdef inline octets _first(const unsigned char[::1] view) noexcept:
    return &view[0] if view.shape[0] else NULL

# Numbers of their own: from the bytes, which are const, Cython would make Python's.
@cython.locals(raw=cython.longlong, second=cython.longlong)
cdef (long long, Py_ssize_t) _varint(octets data, Py_ssize_t at, Py_ssize_t end) noexcept

@cython.locals(raw=cython.ulonglong, shift=cython.int, byte=cython.ulonglong)
cdef (long long, Py_ssize_t) _long_varint(octets data, Py_ssize_t at, Py_ssize_t end) noexcept

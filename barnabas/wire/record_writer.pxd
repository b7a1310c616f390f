# The C types of record_writer.py, for Cython. That file runs the same, only slower, without them.
cimport cython

from barnabas.wire.record_loops cimport Record

cdef long long _INT32_MAX
cdef long long _INT64_MAX
cdef long long _INT64_MIN


cdef class RecordWriter:
    cdef public bytearray buffer
    cdef readonly long long count
    cdef readonly long long last_offset_delta
    cdef readonly long long base_timestamp
    cdef readonly long long max_timestamp
    cdef long long _size_max
    cdef bint _closed

    @cython.locals(record=Record, delta=cython.longlong)
    cpdef object extend(self, object records, long long base_offset)

    @cython.locals(start=Py_ssize_t, base=cython.longlong)
    cdef bint _append(
        self, long long delta, long long timestamp, object key, object value, object headers
    ) except -1


@cython.locals(
    key_size=Py_ssize_t, value_size=Py_ssize_t, size=Py_ssize_t, end=Py_ssize_t, i=Py_ssize_t,
    names=list, encoded=bytes,
)
cdef object _write_record(
    bytearray buffer, long long offset_delta, long long timestamp_delta, object key, object value,
    object headers,
)

@cython.locals(rest=cython.ulonglong, size=cython.int)
cdef int _varint_size(long long number) noexcept

@cython.locals(rest=cython.ulonglong)
cdef int _write_varint(bytearray buffer, long long number) except -1

# The C types of message_loops.py, for Cython. That file runs the same, only slower, without them.
cimport cython

ctypedef const unsigned char *octets

cdef extern from "Python.h":
    void PyObject_GC_UnTrack(void *)

cdef int _RECORD_SIZE_MIN
cdef long long _INT64_MAX
cdef long long _INT64_MIN


@cython.final
cdef class Message:
    cdef readonly long long offset
    cdef readonly long long timestamp
    cdef public object key
    cdef public object value
    cdef object _packed
    cdef tuple _source


# The garbage collector would look at every message again and again: that made up two thirds of what a
# message costs. Only a value that refers to its own message is never freed.
cdef inline void _unwatched(Message message) noexcept:
    PyObject_GC_UnTrack(<void *> message)

@cython.locals(
    data=octets, size=Py_ssize_t, message=Message, messages=list, previous=cython.longlong,
    at=Py_ssize_t, end=Py_ssize_t, delta=cython.longlong, offset_delta=cython.longlong,
    length=cython.longlong, _=Py_ssize_t,
)
cpdef list decode_messages(
    tuple source, bytes body, Py_ssize_t count, long long base_offset,
    long long last_offset_delta, long long base_timestamp, long long max_timestamp,
    bint appended, long long first, long long stop,
)

@cython.locals(message=Message, found=list, at=Py_ssize_t)
cpdef list acquired_messages(list messages, list ranges, list sources)

@cython.locals(
    data=octets, size=Py_ssize_t, headers=list, count=cython.longlong, at=Py_ssize_t,
    length=cython.longlong, _=cython.longlong, name=str,
)
cpdef tuple unpack_headers(bytes packed)

@cython.locals(raw=cython.int)
cdef (long long, Py_ssize_t) _varint(octets data, Py_ssize_t at, Py_ssize_t end) except *

@cython.locals(raw=cython.ulonglong, shift=cython.int, byte=cython.ulonglong)
cdef (long long, Py_ssize_t) _varint_long(octets data, Py_ssize_t at, Py_ssize_t end) except *

cdef long long _time(long long base, long long delta, Py_ssize_t at) except? -1

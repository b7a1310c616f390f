# The C types of batch_loops.py, for Cython. That file runs the same, only slower, without them.
cimport cython

from barnabas.log.compaction.key_loops cimport OffsetMap

cdef int _UNUSUAL
cdef int _APPEND_TIME
cdef int _MAGIC
cdef int _HEADER_SIZE
cdef int _OVERHEAD
cdef int _CHECKED
cdef int _CRC_AT


@cython.locals(
    fields=tuple, base=cython.longlong, last=cython.longlong, size=Py_ssize_t,
    next_offset=cython.longlong,
)
cpdef tuple map_batches(
    OffsetMap keys, bytes data, Py_ssize_t at, long long first_offset, long long limit
)

@cython.locals(
    fields=tuple, base=cython.longlong, last=cython.longlong, size=Py_ssize_t, count=Py_ssize_t,
    kept=Py_ssize_t, start=Py_ssize_t, read=Py_ssize_t, kept_all=Py_ssize_t,
    keyless_all=Py_ssize_t, i=Py_ssize_t, runs=list,
)
cpdef tuple keep_batches(
    OffsetMap keys, bytes data, Py_ssize_t at, Py_ssize_t last_at, long long limit,
    object producers, frozenset epoch_starts, bytearray out, Py_ssize_t written, object add_batch,
)

@cython.locals(left=Py_ssize_t, fields=tuple, size=cython.longlong)
cdef tuple _usual(bytes data, Py_ssize_t at)

@cython.locals(length=Py_ssize_t)
cdef object _seal(
    bytearray out, Py_ssize_t start, tuple old, long long timestamp, Py_ssize_t count
)

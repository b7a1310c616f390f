# The C types of column_writer.py, for Cython. That file runs the same, only slower, without them.
cimport cython
from libc.string cimport memcpy

ctypedef const unsigned char[::1] octets

cdef bint _COMPILED
cdef long long _RECORD_SIZE_MAX
cdef unsigned int _MASK
cdef unsigned int _MULTIPLIER
cdef unsigned int _SEED


@cython.final
cdef class Strings:
    cdef const int[::1] ends
    cdef octets content
    cdef octets valid
    cdef bint nulls


@cython.final
cdef class RowColumns:
    cdef readonly Py_ssize_t rows
    cdef Strings keys
    cdef Strings values
    cdef const long long[::1] times
    cdef const int[::1] header_ends
    cdef Strings header_keys
    cdef Strings header_values

    @cython.locals(
        rows="const int[::1]", times="const long long[::1]", base=cython.longlong,
        latest=cython.longlong, size=cython.longlong, taken=Py_ssize_t, i=Py_ssize_t,
        row=Py_ssize_t, record_size=cython.longlong, whole=cython.longlong,
    )
    cpdef tuple encode(
        self, object order, Py_ssize_t first, Py_ssize_t last, Py_ssize_t room, long long size_max
    )

    @cython.locals(size=cython.longlong, begin=Py_ssize_t, end=Py_ssize_t, i=Py_ssize_t)
    cdef long long _size(self, Py_ssize_t row, long long delta, long long time_delta) noexcept

    @cython.locals(
        target="unsigned char *", rows="const int[::1]", times="const long long[::1]",
        number=Py_ssize_t, row=Py_ssize_t, time_delta=cython.longlong, begin=Py_ssize_t,
        end=Py_ssize_t, i=Py_ssize_t,
    )
    cdef object _write(
        self, bytearray buffer, Py_ssize_t at, object order, Py_ssize_t first, Py_ssize_t count,
        long long base,
    )


@cython.locals(
    chosen="int[::1]", topic=Py_ssize_t, row=Py_ssize_t,
    hashed="unsigned int",
)
cpdef Py_ssize_t choose(
    Strings keys, Py_ssize_t rows, const int[::1] topics, const int[::1] counts, object partitions,
    const int[::1] unkeyed,
) except? -1

@cython.locals(
    numbers="const int[::1]", at="int[::1]", arranged="int[::1]", row=Py_ssize_t, i=Py_ssize_t,
)
cpdef object arrange(object buckets, Py_ssize_t rows, object ends)

@cython.locals(
    data=octets, length="unsigned int", hashed="unsigned int", whole=Py_ssize_t, at=Py_ssize_t,
    word="unsigned int",
)
cdef unsigned int _murmur2(octets content, Py_ssize_t start, Py_ssize_t end) noexcept

cdef bint _is_null(Strings column, Py_ssize_t row) noexcept

@cython.locals(length=cython.longlong)
cdef long long _string_size(Strings column, Py_ssize_t row) noexcept

@cython.locals(start=Py_ssize_t, length=Py_ssize_t)
cdef Py_ssize_t _put_string(
    unsigned char *target, Py_ssize_t at, Strings column, Py_ssize_t row
) noexcept

cdef void _copy(
    unsigned char *target, Py_ssize_t to, octets source, Py_ssize_t start, Py_ssize_t length
) noexcept

cdef inline void _copy_memory(
    unsigned char *target, Py_ssize_t to, octets source, Py_ssize_t start, Py_ssize_t length
) noexcept:
    memcpy(target + to, &source[start], length)

@cython.locals(rest=cython.ulonglong, size=cython.int)
cdef int _varint_size(long long number) noexcept

@cython.locals(rest=cython.ulonglong)
cdef Py_ssize_t _put_varint(unsigned char *target, Py_ssize_t at, long long number) noexcept

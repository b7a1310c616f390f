# The C types of frame.py, for Cython. That file runs the same, only slower, without them.
cimport cython


cdef class FrameInProgress:
    cdef object _buffer
    cdef object _buffers
    cdef long long _filled
    cdef long long _size
    cdef public long long started_ms

    cpdef object begin(self, object received)

    @cython.locals(count=Py_ssize_t)
    cpdef Py_ssize_t receive(self, object stream) except? -3

    cpdef object complete(self)
    cpdef object release(self)

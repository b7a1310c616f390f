# The C types of lanes.py, for Cython. That file runs the same, only slower, without them.
cimport cython


cdef class Lanes:
    cdef object _loop
    cdef object _now
    cdef object _data
    cdef bint _draining
    cdef double _slice_end
    cdef double _turn_ended
    cdef bint _lingering
    cdef double _linger_end

    @cython.locals(now=cython.double)
    cpdef object ready(self, object waiting)

    cpdef object again(self, object waiting)

    @cython.locals(ended=cython.double, brisk=cython.bint)
    cdef object _linger(self, object waiting, double began)

# The C types of listener_context.py, for Cython. That file runs the same, only slower, without them.
from barnabas.broker.net.lanes cimport Lanes


cdef class ListenerContext:
    cdef readonly object dispatch
    cdef readonly object closed
    cdef readonly object failed
    cdef public Lanes lanes
    cdef public object buffers
    cdef readonly long long frame_size_max
    cdef public str listener_name
    cdef readonly long long frame_size_min
    cdef public object receive
    cdef public long long now_ms

# The C types of connection.py, for Cython. That file runs the same, only slower, without them.
cimport cython

from barnabas.broker.net.frame cimport FrameInProgress
from barnabas.broker.net.listener_context cimport ListenerContext


cdef class ReplySlot:
    cdef public list parts


cdef class Connection:
    cdef readonly object _stream
    cdef ListenerContext _context
    cdef FrameInProgress _frame
    cdef bytes _kept
    cdef list _out
    cdef long long _unsent
    cdef object _slots
    cdef dict _pending
    cdef int _busy
    cdef bint _reading
    cdef bint _writing
    cdef bint _wants_room
    cdef bint _turning
    cdef readonly str peer
    cdef readonly str host
    cdef readonly str listener
    cdef public object principal
    cdef public str client_id
    cdef public str client
    cdef public object login
    cdef public object lane
    cdef public bint queued
    cdef public bint light
    cdef public bint open
    cdef public long long active_ms
    cdef readonly long long requests
    cdef readonly long long bytes_in
    cdef readonly long long bytes_out
    cdef public long long errors
    cdef public str last_error

    cdef object _go_on(self)
    cdef bint _is_full(self) except -1

    @cython.locals(kept=bytes, have=Py_ssize_t, count=Py_ssize_t)
    cdef object _receive(self)

    @cython.locals(position=Py_ssize_t, start=Py_ssize_t, size=cython.longlong)
    cdef object _handle_frames(self, object received, Py_ssize_t end)

    @cython.locals(frame=FrameInProgress)
    cdef object _start_frame(self, long long size, object beginning)

    @cython.locals(frame=FrameInProgress, count=Py_ssize_t)
    cdef object _continue_frame(self)

    cdef object _wait_for_room(self)

    @cython.locals(slot=ReplySlot, parts=list)
    cdef object _handle(self, object frame)

    @cython.locals(out=list, run=list, done=Py_ssize_t, count=Py_ssize_t, end=Py_ssize_t)
    cdef bint _flush(self) except -1

    @cython.locals(
        out=list, end=Py_ssize_t, index=Py_ssize_t, gathered=Py_ssize_t
    )
    cdef Py_ssize_t _gather(self, Py_ssize_t start) except -1

    cdef object _read_on(self)
    cdef object _read_off(self)
    cdef object _break_off(self, str reason)

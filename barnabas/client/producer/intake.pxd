# The C types of intake.py, for Cython. That file runs the same, only slower, without them.
from barnabas.client.producer.accumulator cimport Accumulator


cdef class Intake:
    cdef readonly Accumulator _accumulator
    cdef object _prepare
    cdef readonly object _lock
    cdef public bint _refusing

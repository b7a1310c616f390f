# The C types of batches.py, for Cython. That file runs the same, only slower, without them.
cimport cython

from barnabas.wire.record_writer cimport RecordWriter


cdef class ProducerBatch(RecordWriter):
    cdef public Queue queue
    cdef public long long created_at
    cdef public long long attempts
    cdef public long long node
    cdef public bint unsure
    cdef public long long sequence
    cdef public long long producer_id
    cdef public long long epoch
    cdef public object topic_id
    cdef public long long doubted_at
    cdef public object data
    cdef public long long counted
    cdef public tuple serial
    cdef public list parts
    cdef public ProducerBatch owner
    cdef public bint done
    cdef public object problem
    cdef public long long failure_round
    cdef public object last_problem
    cdef public long long base_offset
    cdef public long long append_time
    cdef public list waiters
    cdef public list callbacks


@cython.final
@cython.freelist(256)
cdef class Delivery:
    cdef public object _owner
    cdef public ProducerBatch _batch
    cdef public Py_ssize_t _index
    cdef public bint _reported
    cdef public long long timestamp

    cpdef object follow(self, Delivery other)


cdef class Queue:
    cdef readonly str topic
    cdef readonly long long partition
    cdef public object waiting
    cdef public ProducerBatch open
    cdef public list flying
    cdef public long long serials
    cdef public long long leader
    cdef public long long sequence
    cdef public long long acknowledged
    cdef public long long known_to
    cdef public long long producer_id
    cdef public long long epoch
    cdef public object topic_id
    cdef public long long lookups
    cdef public bint gap
    cdef public bint lost
    cdef public long long retry_at
    cdef public long long retries

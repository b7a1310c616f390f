# The C types of accumulator.py, for Cython. That file runs the same, only slower, without them.
cimport cython

from barnabas.client.producer.batches cimport ProducerBatch, Delivery, Queue

ctypedef const unsigned char *octets

cdef unsigned int _MASK
cdef unsigned int _MULTIPLIER
cdef unsigned int _SEED
cdef Py_ssize_t _RECORD_OVERHEAD_MAX


@cython.locals(
    view=octets, length=Py_ssize_t, whole=Py_ssize_t, at=Py_ssize_t, hashed=cython.uint,
    word=cython.uint,
)
cpdef unsigned int murmur2(bytes data)


cdef class TopicQueue:
    cdef readonly str topic
    cdef public long long count
    cdef public list queues
    cdef public list available
    cdef public Queue sticky
    cdef public long long sticky_left
    cdef public list limbo
    cdef public ProducerBatch limbo_batch


cdef class Accumulator:
    cdef Py_ssize_t _batch_size_max
    cdef Py_ssize_t _record_size_max
    cdef object _clock
    cdef object _wall
    cdef object _chance
    cdef object _wake
    cdef object _partitioner
    cdef dict _topics
    cdef public long long buffer_size_max
    cdef public long long used
    cdef public dict active
    cdef public dict unknown
    cdef public long long unreported
    cdef object _first_failure
    cdef long long _failure_round
    cdef public bint refreshing
    cdef public object failing

    cpdef object check_room(self)

    @cython.locals(
        size=Py_ssize_t, when=cython.longlong, seconds=cython.double, slot=TopicQueue, queue=Queue,
        batch=ProducerBatch, delivery=Delivery,
    )
    cpdef Delivery add(
        self, str topic, object value, object key, object headers, object partition,
        object timestamp, object callback
    )

    @cython.locals(batch=ProducerBatch, before=Py_ssize_t, grown=Py_ssize_t)
    cdef ProducerBatch _append(
        self, Queue queue, object value, object key, object headers, long long timestamp
    )

    cdef Queue _chosen(self, TopicQueue slot, object key, object value)

    cdef Queue _another(self, TopicQueue slot)

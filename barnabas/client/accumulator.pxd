# The C types of accumulator.py, for Cython. That file runs the same, only slower, without them.
cimport cython

from barnabas.wire.record_loops cimport RecordWriter

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


cdef class Batch(RecordWriter):
    cdef public Queue queue
    cdef public long long created_at
    cdef public long long attempts
    cdef public long long node
    cdef public bint unsure
    cdef public long long sequence
    cdef public long long producer_id
    cdef public long long epoch
    cdef public object data
    cdef public long long counted
    cdef public tuple serial
    cdef public list parts
    cdef public Batch owner
    cdef public bint done
    cdef public object problem
    cdef public long long unseen
    cdef public object last_problem
    cdef public long long base_offset
    cdef public long long append_time
    cdef public list waiters
    cdef public list callbacks


@cython.final
@cython.freelist(256)
cdef class Delivery:
    cdef Accumulator _owner
    cdef Batch _batch
    cdef Py_ssize_t _index
    cdef readonly long long timestamp

    cpdef object follow(self, Delivery other)


cdef class Queue:
    cdef readonly str topic
    cdef readonly long long partition
    cdef public object waiting
    cdef public Batch open
    cdef public list flying
    cdef public long long serials
    cdef public long long leader
    cdef public long long sequence
    cdef public long long acknowledged
    cdef public long long producer_id
    cdef public long long epoch
    cdef public bint gap
    cdef public bint lost
    cdef public long long retry_at
    cdef public long long retries


cdef class Slot:
    cdef readonly str topic
    cdef public long long count
    cdef public list queues
    cdef public list available
    cdef public Queue sticky
    cdef public long long sticky_left
    cdef public list limbo
    cdef public Batch limbo_batch


cdef class Accumulator:
    cdef Py_ssize_t _batch_size_max
    cdef Py_ssize_t _record_size_max
    cdef object _clock
    cdef object _wall
    cdef object _chance
    cdef object _wake
    cdef object _partitioner
    cdef dict _slots
    cdef public long long buffer_size_max
    cdef public long long used
    cdef public dict active
    cdef public dict unknown
    cdef public object failed
    cdef public bint refreshing

    @cython.locals(
        size=Py_ssize_t, when=cython.longlong, seconds=cython.double, slot=Slot, queue=Queue,
        batch=Batch, delivery=Delivery,
    )
    cpdef Delivery add(
        self, str topic, object value, object key, object headers, object partition,
        object timestamp, object callback
    )

    @cython.locals(batch=Batch, before=Py_ssize_t, grown=Py_ssize_t)
    cdef Batch _append(
        self, Queue queue, object value, object key, object headers, long long timestamp
    )

    cdef Queue _chosen(self, Slot slot, object key, object value)

    cdef Queue _another(self, Slot slot)


cdef class Intake:
    cdef readonly Accumulator _accumulator
    cdef object _prepare
    cdef readonly object _lock
    cdef public bint _closed

"""Drives librdkafka itself, the copy that confluent-kafka brings, with no Python per record.

In: an address, a topic of one partition, counts. Out: seconds from the first record to the last
acknowledgement (or the last record received).
Always: what was counted as sent is checked against the partition's end offset.
Why not confluent-kafka's own API: at a microsecond a record the driver would be the limit, and
every comparison of two brokers would come out as one to one. Here a batch of records is one call.
"""

import ctypes
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

_PRODUCER = 0
_CONSUMER = 1
_OK = 0
_BLOCK = 4  # wait while the queue is full
_NOT_YET_KNOWN = (-190, -188, 3, 5, 6)  # partition, topic, either, no leader, not the leader
_OFFSET_BEGINNING = -2
_ANY = -1  # partition, chosen by the partitioner
_CALL_RECORDS = 10_000
_TIMEOUT_MS = 60_000

# A batch is sent when it is full: with a shorter linger a slower broker would get larger batches,
# and the consumers of the two brokers would read different batches.
PRODUCE_LARGE_BATCHES = {
    "linger.ms": "100",
    "batch.size": "1000000",
    "batch.num.messages": "100000",
    "queue.buffering.max.messages": "1000000",
}
PRODUCE_ONE_BY_ONE = {"linger.ms": "0", "batch.num.messages": "1"}
# The default waits a second once enough records are queued: noise, on either side.
CONSUME = {"fetch.queue.backoff.ms": "5"}


class _Message(ctypes.Structure):
    _fields_ = (
        ("err", ctypes.c_int),
        ("rkt", ctypes.c_void_p),
        ("partition", ctypes.c_int32),
        ("payload", ctypes.c_void_p),
        ("len", ctypes.c_size_t),
        ("key", ctypes.c_void_p),
        ("key_len", ctypes.c_size_t),
        ("offset", ctypes.c_int64),
        ("private", ctypes.c_void_p),
    )


@cache
def _library() -> ctypes.CDLL:
    import confluent_kafka

    libs = Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
    found = sorted(libs.glob("librdkafka*.so*"))
    if not found:
        raise RuntimeError(f"no librdkafka in {libs}: install confluent-kafka from a wheel")
    lib = ctypes.CDLL(str(found[0]))
    pointer, text, integer = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    size, long = ctypes.c_size_t, ctypes.c_int64
    long_out = ctypes.POINTER(long)
    for name, result, arguments in (
        ("conf_new", pointer, ()),
        ("conf_set", integer, (pointer, text, text, text, size)),
        ("new", pointer, (integer, pointer, text, size)),
        ("destroy", None, (pointer,)),
        ("topic_new", pointer, (pointer, text, pointer)),
        ("topic_destroy", None, (pointer,)),
        ("produce_batch", integer, (pointer, ctypes.c_int32, integer, pointer, integer)),
        ("flush", integer, (pointer, integer)),
        ("outq_len", integer, (pointer,)),
        ("query_watermark_offsets", integer,
         (pointer, text, ctypes.c_int32, long_out, long_out, integer)),
        ("queue_new", pointer, (pointer,)),
        ("queue_destroy", None, (pointer,)),
        ("consume_start_queue", integer, (pointer, ctypes.c_int32, long, pointer)),
        ("consume_stop", integer, (pointer, ctypes.c_int32)),
        ("consume_callback_queue", integer, (pointer, integer, pointer, pointer)),
        ("last_error", integer, ()),
        ("init_transactions", pointer, (pointer, integer)),
        ("begin_transaction", pointer, (pointer,)),
        ("commit_transaction", pointer, (pointer, integer)),
        ("error_string", text, (pointer,)),
    ):  # fmt: skip
        function = getattr(lib, f"rd_kafka_{name}")
        function.restype = result
        function.argtypes = arguments
    return lib


class _Handle:
    """One librdkafka instance with one topic."""

    def __init__(self, kind: int, servers: str, topic: str, options: Mapping[str, str]) -> None:
        self.lib = _library()
        self.topic_name = topic.encode()
        conf = self.lib.rd_kafka_conf_new()
        problem = ctypes.create_string_buffer(512)
        for name, value in {"bootstrap.servers": servers, **options}.items():
            if self.lib.rd_kafka_conf_set(conf, name.encode(), value.encode(), problem, 512):
                raise ValueError(problem.value.decode())
        self.handle = self.lib.rd_kafka_new(kind, conf, problem, 512)
        if not self.handle:
            raise RuntimeError(problem.value.decode())
        self.topic = self.lib.rd_kafka_topic_new(self.handle, self.topic_name, None)

    def end_offset(self) -> int:
        low, high = ctypes.c_int64(), ctypes.c_int64()
        deadline = time.perf_counter() + _TIMEOUT_MS / 1000
        while error := self.lib.rd_kafka_query_watermark_offsets(
            self.handle, self.topic_name, 0, ctypes.byref(low), ctypes.byref(high), _TIMEOUT_MS
        ):
            # A new topic may be known to the controller before the broker's metadata has it.
            if error not in _NOT_YET_KNOWN or time.perf_counter() > deadline:
                raise RuntimeError(f"no end offset for {self.topic_name.decode()}: error {error}")
            time.sleep(0.05)
        return high.value

    def close(self) -> None:
        self.lib.rd_kafka_topic_destroy(self.topic)
        self.lib.rd_kafka_destroy(self.handle)


def produce(
    servers: str, topic: str, records: int, record_bytes: int, options: Mapping[str, str]
) -> float:
    """Seconds until the last of `records` was acknowledged."""
    client = _Handle(_PRODUCER, servers, topic, options)
    try:
        batch, _payload = _messages(record_bytes, _CALL_RECORDS)
        before = client.end_offset()  # which also connects to the partition's leader
        _send(client, batch, 1)  # ... and this opens the way of a produce request
        started = time.perf_counter()
        _send(client, batch, records)
        seconds = time.perf_counter() - started
        stored = client.end_offset() - before
        if stored != records + 1:
            raise RuntimeError(f"{topic}: {records + 1} records sent, {stored} stored")
        return seconds
    finally:
        client.close()


def _messages(record_bytes: int, count: int) -> tuple[ctypes.Array[_Message], object]:
    """As many equal messages, and their payload, which must live as long as they do."""
    payload = ctypes.create_string_buffer(bytes(range(256)) * (record_bytes // 256 + 1))
    batch = (_Message * count)()
    for message in batch:
        message.payload = ctypes.addressof(payload)
        message.len = record_bytes
    return batch, payload


def _send(client: _Handle, batch: ctypes.Array[_Message], records: int) -> None:
    left = records
    while left:
        count = min(left, _CALL_RECORDS)
        left -= client.lib.rd_kafka_produce_batch(client.topic, 0, _BLOCK, batch, count)
    if client.lib.rd_kafka_flush(client.handle, _TIMEOUT_MS) != _OK:
        raise TimeoutError(f"{client.lib.rd_kafka_outq_len(client.handle)} records not sent")


def consume(servers: str, topic: str, records: int, options: Mapping[str, str]) -> float:
    """Seconds to receive `records` records from the beginning of partition 0."""
    client = _Handle(_CONSUMER, servers, topic, options)
    # librdkafka counts what it hands to the callback, so any harmless C function will do.
    callback = ctypes.cast(ctypes.CDLL(None).abs, ctypes.c_void_p)
    try:
        queue = client.lib.rd_kafka_queue_new(client.handle)
        client.end_offset()  # connects
        started = time.perf_counter()
        client.lib.rd_kafka_consume_start_queue(client.topic, 0, _OFFSET_BEGINNING, queue)
        deadline = started + _TIMEOUT_MS / 1000
        received = 0
        while received < records:
            count = client.lib.rd_kafka_consume_callback_queue(queue, 100, callback, None)
            received += max(count, 0)
            if time.perf_counter() > deadline:
                raise TimeoutError(f"{topic}: {received} of {records} records received")
        seconds = time.perf_counter() - started
        client.lib.rd_kafka_consume_stop(client.topic, 0)
        client.lib.rd_kafka_queue_destroy(queue)
        return seconds
    finally:
        client.close()


@dataclass
class Transactions:
    """What a series of transactions did, and how long each commit took."""

    records: int = 0
    seconds: float = 0.0
    commits_ms: list[float] = field(default_factory=list)
    whole_ms: list[float] = field(default_factory=list)  # from its begin to the end of its commit


def transactions(
    servers: str, topic: str, record_bytes: int, *, count: int, length_ms: float, chunk: int
) -> Transactions:
    """`count` transactions: each sends `chunk` records at a time until `length_ms` have passed,
    then commits. Its records are acknowledged before the commit begins, so a commit is only that.
    """
    options = {
        "transactional.id": f"bench-{time.time_ns()}",
        "linger.ms": "1",
        "batch.size": "1000000",
        "batch.num.messages": "100000",
        "queue.buffering.max.messages": "20000",
        "log_level": "3",  # it warns while the coordinator is loading
    }
    client = _Handle(_PRODUCER, servers, topic, options)
    lib, handle = client.lib, client.handle
    try:
        batch, _payload = _messages(record_bytes, chunk)
        client.end_offset()
        _succeed(client, lib.rd_kafka_init_transactions(handle, _TIMEOUT_MS))
        done = Transactions()
        for number in range(-1, count):  # the first finds the coordinator, and is not measured
            began = time.perf_counter()
            _succeed(client, lib.rd_kafka_begin_transaction(handle))
            sent = 0
            while not sent or time.perf_counter() < began + length_ms / 1e3:
                # By the partitioner: with a given partition, the call does not add it to the
                # transaction, and the records would wait for ever.
                sent += lib.rd_kafka_produce_batch(client.topic, _ANY, _BLOCK, batch, chunk)
            if lib.rd_kafka_flush(handle, _TIMEOUT_MS) != _OK:
                raise TimeoutError(f"{topic}: a transaction's records were not acknowledged")
            flushed = time.perf_counter()
            _succeed(client, lib.rd_kafka_commit_transaction(handle, _TIMEOUT_MS))
            ended = time.perf_counter()
            if number >= 0:
                done.records += sent
                done.seconds += ended - began
                done.commits_ms.append((ended - flushed) * 1e3)
                done.whole_ms.append((ended - began) * 1e3)
        return done
    finally:
        client.close()


def _succeed(client: _Handle, error: int | None) -> None:
    if error:
        raise RuntimeError(client.lib.rd_kafka_error_string(error).decode())

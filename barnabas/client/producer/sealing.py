"""Encodes a batch as it is sent, and splits a batch that is too large into two.

In: batches with records. Out: their bytes, compressed, behind a header; or halves of them.
Always: records keep their order and their times; halves keep the sequence numbers of the whole.
Not here: when a batch leaves (outbox.py).
"""

from barnabas.client.producer import sequences
from barnabas.client.producer.batches import ProducerBatch
from barnabas.wire.compression import Codec
from barnabas.wire.records import decode_batch, producer_batch


def sealed(batch: ProducerBatch, codec: Codec, *, transactional: bool = False) -> bytearray:
    """Nothing more is added to it."""
    return producer_batch(
        batch.close(),
        batch.count,
        codec,
        batch.base_timestamp,
        batch.max_timestamp,
        batch.producer_id,
        batch.epoch,
        batch.sequence,
        transactional=transactional,
    )


def halves(batch: ProducerBatch) -> list[ProducerBatch]:
    """Of one that was sealed: two, each with half its records."""
    assert batch.queue is not None
    assert batch.data is not None
    records = decode_batch(batch.data, crc=False)
    middle = len(records) // 2
    parts = []
    for place, half in enumerate((records[:middle], records[middle:])):
        part = ProducerBatch(batch.queue, 2**31 - 1, batch.created_at)
        for record in half:
            part.append(record.key, record.value, record.headers, record.timestamp)
        part.serial = (*batch.serial, place)
        part.attempts = batch.attempts
        part.unsure = batch.unsure
        part.producer_id, part.epoch = batch.producer_id, batch.epoch
        part.topic_id = batch.topic_id
        if batch.sequence >= 0:
            part.sequence = sequences.after(batch.sequence, place * middle)
        part.counted = len(part.buffer)
        part.owner = batch
        parts.append(part)
    return parts

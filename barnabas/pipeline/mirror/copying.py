"""Copies a range of one partition to another cluster, batch by batch, without decoding records.

In: a range and two clusters. Out: the copied range, and the offset of each batch in the target.
Always: records keep order, partition, key, value, headers and time; control batches and batches of
aborted transactions are not copied; nor is a batch with a wrong checksum. Only batches that no
broker accepts unchanged are decoded: batches with gaps (compacted), batches that start before the
range, and batches whose time the broker set, because their records have the time of the batch.
"""

from dataclasses import dataclass

from barnabas.model.ids import TopicPartition
from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.mirror.round_commits import TaskTransaction
from barnabas.pipeline.mirror.translation import Copied, IdenticalProducer, TranslatedRun
from barnabas.pipeline.spark.brokers import look_for, opened
from barnabas.pipeline.spark.fetching import RangeFetcher
from barnabas.pipeline.spark.offsets import OffsetRange
from barnabas.pipeline.spark.sending import BatchSender, OutOfStep, PackedBatch
from barnabas.pipeline.spark.worker_start import settle
from barnabas.wire.batch import CODEC_MASK, LOG_APPEND_TIME, BatchHeader, check_crc
from barnabas.wire.compression import Codec
from barnabas.wire.records import Record, decode_batch, encode_batch

# copied by one task: a restart repeats no more than this per partition
BYTES_MAX = 256 * 1024 * 1024

Client = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class CopyTask:
    """The range that one task copies."""

    range: OffsetRange
    source: Client
    target: Client
    bytes_max: int = BYTES_MAX
    sole: IdenticalProducer | None = (
        None  # set if offsets are identical: the only producer of the partition
    )
    transaction: TaskTransaction | None = None  # set if records are copied exactly once


def copy_range(task: CopyTask, attempt: int = 0) -> Copied:
    """Copies the range, or as much of it as one task may copy. `attempt`: of Spark."""
    settle()
    source, target = opened(dict(task.source)), opened(dict(task.target))
    at = task.range.at
    look_for(source, [at])
    look_for(target, [at])
    fetching = RangeFetcher(source, task.range, committed_only=True, fail_on_data_loss=False)
    sender = BatchSender(target)
    placed: dict[int, TranslatedRun] = {}

    def note(batch: PackedBatch, base_offset: int) -> None:
        placed[batch.origin] = TranslatedRun(batch.origin, batch.span, base_offset, batch.rows)
        if task.sole is not None and base_offset != batch.origin:
            raise PipelineError(
                f"{at}: offset {batch.origin} of the source is offset {base_offset} of the"
                " target: another"
                " program writes to the target; delete the topic there and start again"
            )

    sender.on_written = note
    if task.transaction is not None:
        task.transaction.join(target, sender, attempt)
    if task.sole is None:
        sender.identify()
    else:
        sender.go_on_as(task.sole.producer_id, task.sole.epoch, {at: task.range.start})
    size, position = 0, task.range.start
    try:
        for header, batch in fetching.batches():
            check_crc(batch, header)
            packed = _packed(sender, at, header, batch, max(position, fetching.position))
            if task.sole is not None:
                _check_no_gap(at, position, packed, header)
            if packed is not None:
                sender.send([packed])
            size += header.size
            position = header.last_offset + 1
            if size >= task.bytes_max:
                break
        else:
            if task.sole is not None and fetching.position > position:
                raise _gap(at, position, fetching.position)
            position = max(position, fetching.position)
        sender.flush()
    except OutOfStep:
        # Another task copies the same records: the mirror then reads the end of the target.
        position = task.range.start
    written = sender.transaction if sender.records else None
    return Copied(at, position, _joined(placed), sender.records, size, written)


def _check_no_gap(
    at: TopicPartition, position: int, packed: PackedBatch | None, header: BatchHeader
) -> None:
    if packed is None or packed.origin > position:
        raise _gap(at, position, header.last_offset + 1 if packed is None else packed.origin)
    if packed.span > packed.rows:
        raise _gap(at, packed.origin, packed.origin + packed.span)


def _gap(at: TopicPartition, first: int, last: int) -> PipelineError:
    return PipelineError(
        f"{at}: records are missing between offsets {first} and {last} of the source (compacted, or"
        " part of transactions): identical offsets cannot be kept; mirror the topic with"
        " sink.offsets: translated"
    )


def _packed(
    sender: BatchSender, at: TopicPartition, header: BatchHeader, batch: memoryview, since: int
) -> PackedBatch | None:
    whole = header.base_offset >= since and header.record_count == header.last_offset_delta + 1
    if whole and not header.attributes & LOG_APPEND_TIME:
        return sender.adopt(at, bytearray(batch), header.base_offset, header.record_count)
    records = [r for r in decode_batch(batch, header=header, crc=False) if r.offset >= since]
    if not records:
        return None
    first = records[0].offset
    again = encode_batch(
        [Record(n, r.timestamp, r.key, r.value, r.headers) for n, r in enumerate(records)],
        codec=tuple(Codec)[header.attributes & CODEC_MASK],
    )
    return sender.adopt(at, again, first, records[-1].offset + 1 - first)


def _joined(placed: dict[int, TranslatedRun]) -> list[TranslatedRun]:
    found: list[TranslatedRun] = []
    for _, run in sorted(placed.items()):
        joined = found[-1].joined(run) if found else None
        if joined is not None:
            found[-1] = joined
        else:
            found.append(run)
    return found

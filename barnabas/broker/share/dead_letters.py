"""Writes records that no member accepted to the dead-letter topic of their share group.

In: ranges of records that are archived, with the cause. Out: letters as those of workers, so that
`barnabas dlq` shows and redrives them.
Always: a letter is committed before its record is archived: after a crash there may be two letters
of a record, never none. Errors that pass are retried until the time is over. A letter that cannot
be written then is logged, and the record is archived. Memory: the letters of one read.
Not here: which records are dead (coordinators/share/share_partition.py).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from barnabas.broker.log_reading import read_batches
from barnabas.broker.net.deferred_reply import DeferredReply
from barnabas.broker.share.state_messages import known_code
from barnabas.broker.topic import Topic
from barnabas.coordinators.share.share_partition import DeadRange
from barnabas.model.errors import Code, InvalidRequest, KafkaError, Retriable
from barnabas.model.ids import BrokerId, check_topic_name
from barnabas.wire.batch import CONTROL
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from barnabas.wire.records import Record, decode_batch, encode_batch, iter_batches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.broker.share.partitions import LoadedShare
    from barnabas.broker.share.service import ShareService

READ_BYTES = 1 << 20
BATCH_BYTES_MAX = 1 << 19
BATCH_OVERHEAD = 100  # bytes, above its records
RECORD_OVERHEAD = 50
TIMEOUT_MS = 10_000  # of one request
RETRY_S_MAX = 15.0
RETRY_S = 0.1
CUT = "barnabas.cut"  # the size of a record that is too large for the topic
NO_RECORD = "barnabas.no-record"  # the letter has headers only, and why
T = TypeVar("T")
_PASSES = frozenset(
    (
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.LEADER_NOT_AVAILABLE,
        Code.NOT_ENOUGH_REPLICAS,
        Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.UNKNOWN_TOPIC_ID,
        Code.BROKER_NOT_AVAILABLE,
        Code.NETWORK_EXCEPTION,
        Code.REQUEST_TIMED_OUT,
    )
)


def write_letters(
    service: "ShareService", share: "LoadedShare", dead: "Sequence[DeadRange]", topic: str
) -> DeferredReply[None]:
    """Set when they are committed, or given up."""
    deferred: DeferredReply[None] = DeferredReply()
    service.keep(_write(service, share, dead, topic, deferred))
    return deferred


async def _write(
    service: "ShareService",
    share: "LoadedShare",
    dead: "Sequence[DeadRange]",
    name: str,
    deferred: DeferredReply[None],
) -> None:
    until = service.loop.time() + RETRY_S_MAX
    written = 0
    try:
        if name == share.partition.name.topic:  # each letter would be the next dead record
            raise InvalidRequest(
                Code.INVALID_TOPIC_EXCEPTION,
                f"the group reads topic {name}: choose another dead-letter topic",
            )
        for each in dead:
            async for letters in _letters(service, share, each):
                await _send(service, name, share.key.partition, letters, until)
                written += len(letters)
    except Exception as error:  # any error: the record is archived, so the log must name it
        service.dead_letters_failed += sum(each.last - each.first + 1 for each in dead) - written
        service.broker.log.error(
            "dead letters not written",
            group=share.key.group,
            partition=str(share.partition.name),
            first=dead[0].first,
            last=dead[-1].last,
            topic=name,
            reason=str(error) or repr(error),
        )
        if not isinstance(error, (KafkaError, OSError)):
            raise  # a bug: the service counts it and logs its trace
    finally:
        service.dead_letters += written
        deferred.set(None)


async def _letters(
    service: "ShareService", share: "LoadedShare", dead: DeadRange
) -> AsyncIterator[list[Record]]:
    """One for each record of the range that is still in the log, by reads of the log."""
    whole = share.settings.dead_letters_with_records
    offset = dead.first
    while offset <= dead.last:
        log = share.partition.log
        offset = max(offset, log.start_offset)  # records before it were deleted meanwhile
        found = await read_batches(share.partition, offset, log.end_offset, READ_BYTES)
        if found is None:
            return
        letters = [
            _letter(share, record, dead, whole, service.now().wall_ms)
            for header, batch in iter_batches(found.data)
            if not header.attributes & CONTROL
            and offset <= header.last_offset
            and header.base_offset <= dead.last
            for record in decode_batch(batch, header=header)
            if max(dead.first, offset) <= record.offset <= dead.last
        ]
        if letters:
            yield letters
        offset = max(found.next_offset, offset + 1)


def _letter(
    share: "LoadedShare", record: Record, dead: DeadRange, whole: bool, wall_ms: int
) -> Record:
    kept = tuple(each for each in record.headers if not each[0].startswith("barnabas."))
    trail = {
        "barnabas.group": share.key.group,
        "barnabas.origin.topic": share.partition.name.topic,
        "barnabas.origin.partition": str(share.key.partition),
        "barnabas.origin.offset": str(record.offset),
        "barnabas.origin.timestamp": str(record.timestamp),
        "barnabas.cause": f"{dead.cause} by member {dead.member}" if dead.member else dead.cause,
        "barnabas.attempts": str(dead.attempts),
        "barnabas.round": "0",
        "barnabas.failed-at": str(wall_ms),
    }
    if not whole:
        trail[NO_RECORD] = "errors.deadletterqueue.copy.record.enable is false"
    headers = kept + tuple((name, text.encode()) for name, text in trail.items())
    return Record(
        offset=0,
        timestamp=wall_ms,
        key=record.key if whole else None,
        value=record.value if whole else None,
        headers=headers,
    )


# Sending


async def _send(
    service: "ShareService", name: str, source: int, letters: list[Record], until: float
) -> None:
    """The letters of a source partition go to one partition."""
    topic = await _retried(service, partial(_topic, service, name), until)
    for batch in _batches(letters, topic.config.max_message_bytes):
        await _retried(service, partial(_produce, service, name, source, batch), until)


async def _retried(service: "ShareService", work: Callable[[], Awaitable[T]], until: float) -> T:
    while True:
        try:
            return await work()
        except KafkaError as error:
            if error.code not in _PASSES or service.loop.time() >= until:
                raise
        await asyncio.sleep(RETRY_S)


async def _topic(service: "ShareService", name: str) -> Topic:
    found = service.broker.topics.get(name)
    if found is not None:
        return found
    config = service.broker.config
    if not config.auto_create_topics_enable:
        raise InvalidRequest(
            Code.INVALID_TOPIC_EXCEPTION,
            f"topic {name} does not exist; create it, or set auto.create.topics.enable",
        )
    check_topic_name(name)
    try:
        return await service.broker.catalog.create_topic(name, config.num_partitions, {})
    except KafkaError as error:
        if error.code is not Code.TOPIC_ALREADY_EXISTS:  # by another letter
            raise
        raise Retriable(Code.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name} is being created") from None


def _batches(letters: list[Record], bytes_max: int) -> Iterator[list[Record]]:
    """Such that the topic accepts each."""
    batch, size = list[Record](), BATCH_OVERHEAD
    for letter in letters:
        more = _size(letter)
        if BATCH_OVERHEAD + more > bytes_max:
            letter = _cut(letter)
            more = _size(letter)
        if batch and size + more > min(bytes_max, BATCH_BYTES_MAX):
            yield batch
            batch, size = [], BATCH_OVERHEAD
        batch.append(letter)
        size += more
    if batch:
        yield batch


def _size(letter: Record) -> int:
    """Not less than it has in a batch."""
    headers = sum(len(name) * 4 + len(value or b"") + 10 for name, value in letter.headers)
    return RECORD_OVERHEAD + len(letter.key or b"") + len(letter.value or b"") + headers


def _cut(letter: Record) -> Record:
    """Only what says where the record is, and why it is dead."""
    size = len(letter.key or b"") + len(letter.value or b"")
    trail = tuple(each for each in letter.headers if each[0].startswith("barnabas."))
    headers = (*trail, (CUT, str(size).encode()), (NO_RECORD, b"too large for this topic"))
    return Record(offset=0, timestamp=letter.timestamp, key=None, value=None, headers=headers)


async def _produce(service: "ShareService", name: str, source: int, letters: list[Record]) -> None:
    topic = service.broker.topics.existing(name)
    numbered = [
        Record(
            offset=number,
            timestamp=letter.timestamp,
            key=letter.key,
            value=letter.value,
            headers=letter.headers,
        )
        for number, letter in enumerate(letters)
    ]
    batch = memoryview(encode_batch(numbered))
    index = source % max(1, len(topic.partitions))
    request = ProduceRequest(
        acks=-1,
        timeout_ms=TIMEOUT_MS,
        topic_data=[
            TopicProduceData(
                name=topic.name,
                topic_id=topic.id,
                partition_data=[PartitionProduceData(index=index, records=batch)],
            )
        ],
    )
    leader = topic.partitions[index].leader
    cluster = service.broker.cluster
    version = ProduceRequest.version_max
    if cluster is None:
        response = await service.answer_itself(request, version)
    else:
        response = await cluster.peers.call(
            BrokerId(leader), request, lane="forward", timeout_ms=TIMEOUT_MS
        )
    assert isinstance(response, ProduceResponse)
    for each in response.responses:
        for result in each.partition_responses:
            if result.error_code:
                raise Retriable(known_code(result.error_code), f"{topic.name}-{index}")

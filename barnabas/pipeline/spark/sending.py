"""Sends batches that are built already, some rounds ahead of their answers.

In: batches of records, by partition. Out: where they were written, or one line that says why not.
Always: the batches of a partition are written once and in order, however often they were sent
(with acks=all); memory is bounded by the rounds under way.
Always: a producer id is used by one task at a time. The next task of the same process goes on with
it, and with its sequence numbers, only if all that was sent under it was acknowledged.
Not here: how rows become records (wire/column_writer.py, writing.py).
"""

import os
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from barnabas.client.blocking.net import run
from barnabas.client.cluster import ClusterClient
from barnabas.client.errors import check, partition_error
from barnabas.model.errors import Code, InvalidRequest, KafkaError, Retriable
from barnabas.model.ids import NO_PRODUCER_ID, NO_TOPIC_ID, TopicPartition
from barnabas.pipeline.errors import PipelineError
from barnabas.wire.batch import CODEC_MASK, NO_SEQUENCE, read_header, write_header
from barnabas.wire.compression import Codec
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from barnabas.wire.records import producer_batch

_BY_NAME_MAX = 12  # the last version of Produce that names topics
_ROUNDS_MAX = 3  # under way; brokers keep the last five batches of a producer to know them again
_SEQUENCES = 2**31
_ACKS_ALL = -1


class OutOfStep(PipelineError):
    """Another task has written in the name of this producer: look where it is now."""


class PackedBatch(NamedTuple):
    """A batch as it is sent."""

    at: TopicPartition
    data: bytearray
    rows: int
    origin: int = -1  # of a copy: the offset of its first record where it comes from
    span: int = 0  # of a copy: how many offsets it took up there


def _unnoted(batch: PackedBatch, base_offset: int) -> None:
    """Nobody asked where batches came to lie."""


class IdleProducer(NamedTuple):
    """A producer whose last batch of every partition was acknowledged."""

    producer_id: int
    epoch: int
    sequences: dict[TopicPartition, int]  # of the next batch


# Of finished tasks of this process (a fork starts without), by cluster: brokers remember each
# producer id for a day, and a task for each would be far too many.
_idle: dict[tuple[int, str], list[IdleProducer]] = {}


class _Round:
    def __init__(self, batches: list[PackedBatch]) -> None:
        self.batches = batches
        self.answers: list[tuple[list[PackedBatch], Any]] = []


class BatchSender:
    """Of one task. `written` has the lowest and highest offset of each partition so far."""

    def __init__(self, cluster: ClusterClient) -> None:
        config = cluster.config
        self._cluster = cluster
        self._codec = Codec.named(config.compression_type)
        self._acks = _ACKS_ALL if config.acks in ("all", "-1") else int(config.acks)
        self._sequences: dict[TopicPartition, int] = {}
        self._under_way: deque[_Round] = deque()
        self._known: set[TopicPartition] = set()  # to whose brokers this producer is known
        self.producer_id: int = NO_PRODUCER_ID
        self.epoch = -1
        self.written: dict[TopicPartition, tuple[int, int]] = {}
        self.records = 0
        self._shared = False
        self._reused = False
        self._cluster_id = ""  # where the producer id was given out, if others may go on with it
        self.on_written: Callable[[PackedBatch, int], None] = _unnoted

    def identify(self, *, reuse: bool = False) -> None:
        """Become a producer whose repetitions the broker can see; only acks=all promises more.

        `reuse`: one that an earlier task of this process has released, if there is one.
        """
        if self._acks != _ACKS_ALL:
            return
        if reuse:
            self._cluster_id = run(self._cluster.retrying(self._cluster.view)).cluster_id or ""
            released = _idle.get((os.getpid(), self._cluster_id))
            if self._cluster_id and released:
                self.producer_id, self.epoch, self._sequences = released.pop()
                self._reused = True
                return
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)

        async def attempt() -> None:
            connection = await self._cluster.anyone()
            response = await connection.call(
                request, InitProducerIdResponse, timeout_ms=self._cluster.timeout_ms
            )
            check(response.error_code, about="producer id")
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch

        run(self._cluster.retrying(attempt))

    def release(self) -> None:
        """The task is done, and all of it acknowledged: another may go on as this producer."""
        if self._cluster_id and self.producer_id != NO_PRODUCER_ID and not self._under_way:
            identity = IdleProducer(self.producer_id, self.epoch, dict(self._sequences))
            _idle.setdefault((os.getpid(), self._cluster_id), []).append(identity)
            self._cluster_id = ""

    def go_on_as(self, producer_id: int, epoch: int, sequences: dict[TopicPartition, int]) -> None:
        """Be a producer that others may be as well: whoever is out of step stops with OutOfStep."""
        self.producer_id, self.epoch = producer_id, epoch
        self._sequences = {at: number % _SEQUENCES for at, number in sequences.items()}
        self._shared = True

    def pack(
        self, at: TopicPartition, records: bytearray, count: int, first_ms: int, latest_ms: int
    ) -> PackedBatch:
        """Put a header in front of records, which leave room for it."""
        data = producer_batch(
            records,
            count,
            self._codec,
            first_ms,
            latest_ms,
            self.producer_id,
            self.epoch,
            self._next_sequence(at, count),
        )
        return PackedBatch(at, data, count)

    def adopt(self, at: TopicPartition, batch: bytearray, origin: int, span: int) -> PackedBatch:
        """Make a whole batch of another producer one of ours; its records stay as they are."""
        header = read_header(batch)
        count = header.record_count
        write_header(
            batch,
            header._replace(
                base_offset=0,
                leader_epoch=-1,
                attributes=header.attributes & CODEC_MASK,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                base_sequence=self._next_sequence(at, count),
            ),
        )
        return PackedBatch(at, batch, count, origin, span)

    def _next_sequence(self, at: TopicPartition, count: int) -> int:
        if self.producer_id == NO_PRODUCER_ID:
            return NO_SEQUENCE
        sequence = self._sequences.get(at, 0)
        self._sequences[at] = (sequence + count) % _SEQUENCES
        return sequence

    def send(self, batches: list[PackedBatch]) -> None:
        """One batch per partition at most. Waits for an earlier round if enough are under way."""
        if len(self._under_way) >= _ROUNDS_MAX:
            self._finish_oldest()
        begun = _Round(batches)
        self._under_way.append(begun)
        try:
            run(self._send(begun, batches))
        except Retriable as problem:
            self._again(problem)
        if not all(batch.at in self._known for batch in batches):
            # A broker takes any first number of a producer that it does not know: were the first
            # batch refused for a while and the second taken, the first could not follow.
            self.flush()
            self._known.update(batch.at for batch in batches)

    def flush(self) -> None:
        while self._under_way:
            self._finish_oldest()

    async def _send(self, begun: _Round, batches: list[PackedBatch]) -> None:
        view = await self._cluster.view({batch.at.topic: None for batch in batches})
        if self._cluster_id and view.cluster_id != self._cluster_id:
            # There the id may be another producer's, and our batches would pass for its repeats.
            raise PipelineError(
                f"cluster {self._cluster_id} has become {view.cluster_id} while a task wrote to it;"
                " run the task again"
            )
        by_leader: dict[int, list[PackedBatch]] = {}
        for batch in batches:
            by_leader.setdefault(view.leader(batch.at), []).append(batch)
        for leader, group in by_leader.items():
            topics: dict[str, list[PartitionProduceData]] = {}
            for batch in group:
                data = PartitionProduceData(index=batch.at.partition, records=batch.data)
                topics.setdefault(batch.at.topic, []).append(data)
            ids = {name: view.topic(name).id for name in topics}
            request = ProduceRequest(
                acks=self._acks,
                timeout_ms=self._cluster.timeout_ms,
                topic_data=[
                    TopicProduceData(name=name, topic_id=ids[name], partition_data=data)
                    for name, data in topics.items()
                ],
            )
            version_max = _BY_NAME_MAX if NO_TOPIC_ID in ids.values() else None
            connection = await self._cluster.broker(leader)
            if self._acks == 0:
                connection.tell(
                    request, timeout_ms=self._cluster.timeout_ms, version_max=version_max
                )
                continue
            answer = connection.send(
                request,
                ProduceResponse,
                timeout_ms=self._cluster.timeout_ms,
                version_max=version_max,
            )
            begun.answers.append((group, answer))

    def _finish_oldest(self) -> None:
        oldest = self._under_way[0]
        try:
            failed = run(self._received(oldest))
        except Retriable as problem:
            self._again(problem)
            return
        if failed is not None:
            self._again(failed)
            return
        self._under_way.popleft()
        self.records += sum(batch.rows for batch in oldest.batches)

    async def _received(self, begun: _Round) -> Retriable | None:
        """Take the answers of a round in; what may work when it is tried again."""
        problem: Retriable | None = None
        for group, answer in begun.answers:
            response: ProduceResponse = await answer
            view = await self._cluster.view()
            offsets: dict[TopicPartition, Any] = {}
            for topic in response.responses:
                name = topic.name or view.name_of(topic.topic_id)
                for part in topic.partition_responses:
                    offsets[TopicPartition(name, part.index)] = part
            for batch in group:
                why = self._judge(batch, offsets.get(batch.at))
                problem = problem or why
        return problem

    def _judge(self, batch: PackedBatch, part: Any) -> Retriable | None:
        if part is None:
            return Retriable(Code.UNKNOWN_SERVER_ERROR, f"{batch.at} is missing in the answer")
        if part.error_code == Code.OUT_OF_ORDER_SEQUENCE_NUMBER:
            # One before it is still to be sent again.
            return Retriable(Code.OUT_OF_ORDER_SEQUENCE_NUMBER, f"{batch.at}: sent out of order")
        if part.error_code == Code.MESSAGE_TOO_LARGE:
            raise InvalidRequest(
                Code.MESSAGE_TOO_LARGE,
                f"{batch.at}: a batch of {len(batch.data)} bytes, {batch.rows} rows, is over the"
                " topic's max.message.bytes: raise that, or lower kafka.batch.size",
            )
        if part.error_code not in (Code.NONE, Code.DUPLICATE_SEQUENCE_NUMBER):
            problem = partition_error(part.error_code, part.error_message, about=str(batch.at))
            if not isinstance(problem, Retriable):
                raise problem
            return problem
        if part.base_offset >= 0:
            first, _ = self.written.get(batch.at, (part.base_offset, 0))
            self.written[batch.at] = first, part.base_offset + batch.rows - 1
            self.on_written(batch, part.base_offset)
        return None

    def _again(self, problem: KafkaError) -> None:
        """Send everything that is under way anew, round by round, until it is written."""
        deadline = time.monotonic() + self._cluster.config.delivery_timeout_ms / 1000
        for wait_ms in self._cluster.waits_ms():
            if time.monotonic() + wait_ms / 1000 > deadline:
                raise problem
            self._forget_answers()
            time.sleep(wait_ms / 1000)
            try:
                run(self._cluster.refresh())
                while self._under_way:
                    oldest = self._under_way[0]
                    oldest.answers.clear()
                    run(self._send(oldest, oldest.batches))
                    failed = run(self._received(oldest))
                    if failed is not None:
                        self._check_step(failed)
                        raise failed
                    self._under_way.popleft()
                    self.records += sum(batch.rows for batch in oldest.batches)
            except Retriable as why:
                problem = why
                continue
            return

    def _check_step(self, problem: Retriable) -> None:
        """All before it is written: one that is out of order now will never be in order."""
        if self._reused and problem.code is Code.OUT_OF_ORDER_SEQUENCE_NUMBER:
            raise PipelineError(
                f"{problem.detail}: the topic has lost records that were acknowledged to producer"
                f" {self.producer_id}; run the task again, it then gets a new producer id"
            )
        if self._shared and problem.code is Code.OUT_OF_ORDER_SEQUENCE_NUMBER:
            raise OutOfStep(f"{problem.detail}: another run of this mirror is writing; try again")

    def _forget_answers(self) -> None:
        """Answers still to come belong to connections that are used no more."""
        self._cluster.close()
        for begun in self._under_way:
            begun.answers.clear()

"""Sends complete batches, several rounds ahead of their responses.

In: batches of records, by partition. Out: the offsets they were written at, or an error in one
line.
Always: the batches of a partition are written once and in order, however often they were sent
(with acks=all); the number of rounds in flight limits the memory.
Always: a producer id is used by one task at a time. The next task of the same process reuses it,
and continues its sequence numbers, only if all batches sent with it were acknowledged.
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
from barnabas.pipeline.spark.transaction_calls import (
    SinkTransaction,
    partitions_added,
    partitions_in,
)
from barnabas.wire.batch import (
    CODEC_MASK,
    NO_SEQUENCE,
    TRANSACTIONAL,
    read_header,
    write_header,
)
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
_WITHOUT_ADDING_MAX = 11  # the last one that does not add partitions to the transaction
# rounds in flight; brokers keep the last five batches of a producer to detect duplicates
_ROUNDS_MAX = 3
_SEQUENCES = 2**31
_ACKS_ALL = -1


class OutOfStep(PipelineError):
    """Another task has written with this producer id: read the end of the partition again."""


class PackedBatch(NamedTuple):
    """A batch that is ready to be sent."""

    at: TopicPartition
    data: bytearray
    rows: int
    origin: int = -1  # of a copy: the offset of its first record in the source
    span: int = 0  # of a copy: how many offsets it takes in the source


def _unnoted(batch: PackedBatch, base_offset: int) -> None:
    """Ignores the offsets of written batches."""


class IdleProducer(NamedTuple):
    """A producer whose last batch of every partition was acknowledged."""

    producer_id: int
    epoch: int
    sequences: dict[TopicPartition, int]  # of the next batch


# Producers of finished tasks of this process, by cluster; a forked process starts with none.
# Brokers keep each producer id for a day, and one for each task would be far too many.
_idle: dict[tuple[int, str], list[IdleProducer]] = {}


class _Round:
    def __init__(self, batches: list[PackedBatch]) -> None:
        self.batches = batches
        self.answers: list[tuple[list[PackedBatch], Any]] = []


class BatchSender:
    """Sends the batches of one task. `written`: the lowest and highest offset of each partition so
    far.
    """

    def __init__(self, cluster: ClusterClient) -> None:
        config = cluster.config
        self._cluster = cluster
        self._codec = Codec.named(config.compression_type)
        self._acks = _ACKS_ALL if config.acks in ("all", "-1") else int(config.acks)
        self._sequences: dict[TopicPartition, int] = {}
        self._under_way: deque[_Round] = deque()
        self._known: set[TopicPartition] = set()  # the cluster that assigned the producer id
        self.producer_id: int = NO_PRODUCER_ID
        self.epoch = -1
        self.written: dict[TopicPartition, tuple[int, int]] = {}
        self.records = 0
        self._shared = False
        self._reused = False
        self.transaction: SinkTransaction | None = None
        self._begin: Callable[[], SinkTransaction] | None = None
        self._adds_partitions = False  # of the transaction, in the older protocol
        self._added: set[TopicPartition] = set()
        self._cluster_id = ""  # the cluster of the producer id, if later tasks may reuse it
        self.on_written: Callable[[PackedBatch, int], None] = _unnoted

    def identify(self, *, reuse: bool = False) -> None:
        """Get a producer id, so that the broker detects duplicates; only with acks=all.

        `reuse`: take a producer that an earlier task of this process has released, if there is one.
        """
        if self._acks != _ACKS_ALL or self.transaction is not None:
            return
        if self._begin is not None:
            self._take_part(self._begin())
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

    def begin_with(self, begin: Callable[[], SinkTransaction]) -> None:
        """Write in a transaction of this task alone, which begins with the first rows."""
        self._begin = begin

    def share(self, transaction: SinkTransaction) -> None:
        """Write in a transaction that other tasks also write in, each into its own partitions."""
        self._take_part(transaction)
        self._adds_partitions = True

    def _take_part(self, transaction: SinkTransaction) -> None:
        self.transaction = transaction
        self.producer_id, self.epoch = transaction.producer_id, transaction.epoch

    def release(self) -> None:
        """The task has ended and all its batches are acknowledged: a later task may reuse this
        producer.
        """
        if self._cluster_id and self.producer_id != NO_PRODUCER_ID and not self._under_way:
            identity = IdleProducer(self.producer_id, self.epoch, dict(self._sequences))
            _idle.setdefault((os.getpid(), self._cluster_id), []).append(identity)
            self._cluster_id = ""

    def go_on_as(self, producer_id: int, epoch: int, sequences: dict[TopicPartition, int]) -> None:
        """Use a producer id that other tasks may use too: a task with a wrong sequence number stops
        with OutOfStep.
        """
        self.producer_id, self.epoch = producer_id, epoch
        self._sequences = {at: number % _SEQUENCES for at, number in sequences.items()}
        self._shared = True

    def pack(
        self, at: TopicPartition, records: bytearray, count: int, first_ms: int, latest_ms: int
    ) -> PackedBatch:
        """Write the header in front of records, which leave room for it."""
        data = producer_batch(
            records,
            count,
            self._codec,
            first_ms,
            latest_ms,
            self.producer_id,
            self.epoch,
            self._next_sequence(at, count),
            transactional=self.transaction is not None,
        )
        return PackedBatch(at, data, count)

    def adopt(self, at: TopicPartition, batch: bytearray, origin: int, span: int) -> PackedBatch:
        """Give a complete batch of another producer our producer id; its records stay unchanged."""
        header = read_header(batch)
        count = header.record_count
        write_header(
            batch,
            header._replace(
                base_offset=0,
                leader_epoch=-1,
                attributes=header.attributes & CODEC_MASK
                | (TRANSACTIONAL if self.transaction is not None else 0),
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
        """Send at most one batch per partition. Waits for an earlier round if too many are in
        flight.
        """
        if len(self._under_way) >= _ROUNDS_MAX:
            self._finish_oldest()
        if self._adds_partitions and self.transaction is not None:
            new = [batch.at for batch in batches if batch.at not in self._added]
            if new:
                self._add(self.transaction, new)
        begun = _Round(batches)
        self._under_way.append(begun)
        try:
            run(self._send(begun, batches))
        except Retriable as problem:
            self._again(problem)
        if not all(batch.at in self._known for batch in batches):
            # A broker accepts any first sequence number of a producer that it does not know: if it
            # refused the first batch for a while and accepted the second, the first could not
            # follow.
            self.flush()
            self._known.update(batch.at for batch in batches)

    def _add(self, transaction: SinkTransaction, new: list[TopicPartition]) -> None:
        """Before the first batch of these partitions. The sequence numbers of a partition are those
        of one task: another one's would be taken for repetitions of the first one's.
        """
        if taken := sorted(partitions_in(self._cluster, transaction) & set(new)):
            raise PipelineError(
                f"{taken[0]} has rows of another task, or of an earlier run of this one: on Apache"
                " Kafka, exactlyOnce needs one task for each partition, and cannot repeat it. The"
                " batch fails and nothing of it is visible: start the query again. Without"
                " pipelines, use barnabas.pipeline.by_target_partition(df, ...) before the write",
                Code.TRANSACTION_ABORTABLE,
            )
        partitions_added(self._cluster, transaction, new)
        self._added.update(new)

    def flush(self) -> None:
        while self._under_way:
            self._finish_oldest()

    async def _send(self, begun: _Round, batches: list[PackedBatch]) -> None:
        view = await self._cluster.view({batch.at.topic: None for batch in batches})
        if self._cluster_id and view.cluster_id != self._cluster_id:
            # In the other cluster the id may belong to another producer, and our batches would be
            # taken for duplicates.
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
                transactional_id=self.transaction and self.transaction.transactional_id,
                acks=self._acks,
                timeout_ms=self._cluster.timeout_ms,
                topic_data=[
                    TopicProduceData(name=name, topic_id=ids[name], partition_data=data)
                    for name, data in topics.items()
                ],
            )
            version_max = _BY_NAME_MAX if NO_TOPIC_ID in ids.values() else None
            if self._adds_partitions:
                version_max = _WITHOUT_ADDING_MAX
            connection = await self._cluster.broker(leader)
            if self._acks == 0:
                connection.send_one_way(
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
        """Process the responses of a round. Returns the batches that may be retried."""
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
            return Retriable(Code.UNKNOWN_SERVER_ERROR, f"{batch.at} is missing in the response")
        if part.error_code == Code.OUT_OF_ORDER_SEQUENCE_NUMBER:
            # An earlier batch must be sent again first.
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
            first, _ = self.written.get(batch.at, (-1, -1))
            first = part.base_offset if first < 0 else first
            self.written[batch.at] = first, part.base_offset + batch.rows - 1
            self.on_written(batch, part.base_offset)
        else:  # an old repetition: its partition is one that was written to all the same
            self.written.setdefault(batch.at, (-1, -1))
        return None

    def _again(self, problem: KafkaError) -> None:
        """Send all batches in flight again, round by round, until they are written."""
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
        """All earlier batches are written: a batch that is out of order now stays out of order."""
        if self._reused and problem.code is Code.OUT_OF_ORDER_SEQUENCE_NUMBER:
            raise PipelineError(
                f"{problem.detail}: the topic has lost records that were acknowledged to producer"
                f" {self.producer_id}; run the task again, it then gets a new producer id"
            )
        if self._shared and problem.code is Code.OUT_OF_ORDER_SEQUENCE_NUMBER:
            raise OutOfStep(
                f"{problem.detail}: another run of this mirror writes at the same time; try again"
            )

    def _forget_answers(self) -> None:
        """Forget pending responses; their connections are not used any more."""
        self._cluster.close()
        for begun in self._under_way:
            begun.answers.clear()

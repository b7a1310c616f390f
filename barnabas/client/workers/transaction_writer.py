"""Writes the transactions of window/exactly_once.py with a transactional producer.

Always: the member and generation of a transaction are those of the moment in which the window chose
its records; a commit without a response is repeated until its result is known; a transaction that
cannot be committed is aborted before the window learns of it.
Not here: what is in a transaction (window/exactly_once.py), its requests
(client/producer/transacting.py).
"""

import asyncio
from collections.abc import Awaitable, Callable
from uuid import uuid4

from barnabas.client.aio.producer import Producer
from barnabas.client.cluster import ClusterClient
from barnabas.client.group_metadata import GroupMetadata
from barnabas.client.producer.accumulator import BufferFull
from barnabas.client.producer.producing import HURRY_S
from barnabas.client.producer.record import ProducerRecord
from barnabas.client.producer.transaction_errors import ABORT_FIRST
from barnabas.client.workers.driver import WindowDriver, log, send_letter
from barnabas.client.workers.letter_writer import LetterWriter
from barnabas.client.workers.window.effects import Effect, SendLetter, WriteTransaction
from barnabas.client.workers.window.exactly_once import AbortCause, ExactlyOnce, cause_of_abort
from barnabas.client.workers.window.window_partition import WindowRecord
from barnabas.config.client import ClientConfig, Value
from barnabas.model.errors import Abortable, Code, Fenced, InvalidRequest, KafkaError, Retriable
from barnabas.model.ids import TopicPartition

_LOOK_MS_MAX = 5_000  # for a topic that does not exist yet
TIMEOUT_MS = 10_000  # of a transaction, which begins when its records are handled; as in Streams


def transaction_options(config: ClientConfig) -> dict[str, Value]:
    """The producer's options, where the user has not set them.

    A worker with a group.instance.id has the same transactional.id after a restart: it ends at
    once what it left open. Others have a new one, and the coordinator ends what they left open.
    """
    options: dict[str, Value] = {}
    if not config.transactional_id:
        name = config.group_instance_id or str(uuid4())
        options["transactional_id"] = f"{config.group_id}-{name}"
    if "transaction.timeout.ms" not in config.given:
        options["transaction_timeout_ms"] = TIMEOUT_MS
    return options


class TransactionWriter:
    """Of one run."""

    def __init__(
        self, driver: WindowDriver, cluster: ClusterClient, guarantee: ExactlyOnce
    ) -> None:
        self._driver = driver
        self._cluster = cluster
        self._guarantee = guarantee
        self._post = LetterWriter(cluster)
        self._producer = Producer(cluster=cluster)
        self._known: dict[str, int] = {}  # topics that exist, and their partitions
        self._looking = asyncio.Lock()

    async def open(self) -> None:
        """Ends a transaction that an earlier run with the same id left open: the offsets of its
        partitions could not be read before.
        """
        await self._producer.init_transactions()

    def start(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, WriteTransaction):
                self._begin(effect)
            elif isinstance(effect, SendLetter):
                letters = self._guarantee.letters
                self._driver.spawn(send_letter(self._driver, self._post, letters, effect))

    def forget(self, at: TopicPartition) -> None:
        """The coordinator of the group refuses offsets of an earlier generation."""

    async def take(self, results: tuple[ProducerRecord, ...]) -> tuple[ProducerRecord, ...]:
        """A producer waits for the metadata of an unknown topic, and its transaction with it: so
        the topic is looked up before.
        """
        for record in results:
            known = self._known.get(record.topic, 0)
            if known <= (record.partition or 0):
                await self._look_up(record)
        return results

    async def close(self) -> None:
        try:
            await self._producer.close(timeout_s=HURRY_S)
        except KafkaError as problem:
            log.warning("the last transaction is left open: %s", problem)

    async def _look_up(self, record: ProducerRecord) -> None:
        topic, partition = record.topic, record.partition

        async def attempt() -> int:
            await self._cluster.view([topic])
            create = self._cluster.config.allow_auto_create_topics
            view = await self._cluster.refresh(create=create)
            try:
                return len(view.topic(topic).partitions)
            except InvalidRequest as problem:
                if problem.code is not Code.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                raise Retriable(problem.code, problem.detail) from None  # being created, perhaps

        async with self._looking:
            if self._known.get(topic, 0) <= (partition or 0):
                count = await self._cluster.retrying(attempt, timeout_ms=_LOOK_MS_MAX)
                self._known[topic] = count
        count = self._known[topic]
        if partition is not None and not 0 <= partition < count:
            raise InvalidRequest(
                Code.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {topic!r} has no partition {partition}: it has {count}",
            )

    # --- one transaction ---

    def _begin(self, transaction: WriteTransaction) -> None:
        """The generation of the group is taken now, together with the window's choice of records:
        if one of its partitions is revoked later, the coordinator refuses the offsets.
        """
        try:
            member = self._driver.consumer.group_metadata()
        except Fenced as problem:
            self._driver.spawn(self._not_a_member(transaction, problem))
        else:
            self._driver.spawn(self._write(transaction, member))

    async def _not_a_member(self, transaction: WriteTransaction, problem: Fenced) -> None:
        self._aborted(transaction, problem, AbortCause.PASSING, None)

    async def _write(self, transaction: WriteTransaction, member: GroupMetadata) -> None:
        driver, producer = self._driver, self._producer
        try:
            await _answered(producer.begin_transaction)
            try:
                await self._send(transaction)
                await producer.send_offsets_to_transaction(transaction.offsets, member)
                await _answered(producer.commit_transaction)
            except (Abortable, BufferFull) as problem:
                await _answered(producer.abort_transaction)
                self._judge(transaction, problem)
                return
            except _ResultRefused as refused:
                await _answered(producer.abort_transaction)
                why = refused.problem
                self._aborted(transaction, why, AbortCause.REFUSED, refused.entry)
                return
        except KafkaError as problem:
            self._end(transaction, problem)
            return
        driver.do(self._guarantee.committed(transaction.number, driver.now()))

    async def _send(self, transaction: WriteTransaction) -> None:
        for entry in transaction.entries:
            for record in entry.results:
                try:
                    await self._add(record)
                except InvalidRequest as problem:
                    raise _ResultRefused(entry, problem) from None

    async def _add(self, record: ProducerRecord) -> None:
        while True:
            try:
                self._producer.send_nowait(
                    record.topic,
                    record.value,
                    key=record.key,
                    headers=record.headers,
                    partition=record.partition,
                    timestamp=record.timestamp,
                )
            except BufferFull:
                await self._producer.drain()
                continue
            await self._producer.drain()
            return

    def _judge(self, transaction: WriteTransaction, problem: KafkaError) -> None:
        cause = cause_of_abort(problem)
        if cause is AbortCause.LASTING:
            self._end(transaction, problem)
        else:
            self._aborted(transaction, problem, cause, None)

    def _end(self, transaction: WriteTransaction, problem: KafkaError) -> None:
        self._driver.fail(problem)
        self._driver.do(self._guarantee.ended(transaction.number, self._driver.now()))

    def _aborted(
        self,
        transaction: WriteTransaction,
        problem: KafkaError,
        cause: AbortCause,
        culprit: WindowRecord | None,
    ) -> None:
        driver, guarantee = self._driver, self._guarantee
        number, detail = transaction.number, problem.detail.removesuffix(ABORT_FIRST)
        count = len(transaction.entries)
        log.warning("the transaction of %d records was aborted, retrying: %s", count, detail)
        driver.do(guarantee.aborted(number, cause, detail, driver.now(), culprit=culprit))


class _ResultRefused(Exception):
    """The producer does not accept a result of this record: it is too large, for example."""

    def __init__(self, entry: WindowRecord, problem: InvalidRequest) -> None:
        super().__init__(problem.detail)
        self.entry = entry
        self.problem = problem


async def _answered(call: Callable[[], Awaitable[None]]) -> None:
    """Repeats a call of the producer until the coordinator has answered."""
    while True:
        try:
            return await call()
        except BufferFull:
            raise
        except Retriable as problem:
            log.warning("the coordinator does not answer, retrying: %s", problem)

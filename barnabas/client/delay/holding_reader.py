"""Reads holding topics and their ledgers: what is pending, and what became of a record.

Written over `Net`, like all flows; a delayer and `barnabas delay` use it. The cluster's
isolation.level is read_committed.
Always: a ledger is read to its very end. Only delayers write to it, so this end is reached as soon
as the last transaction of the last delayer is complete.
"""

from collections.abc import AsyncGenerator
from typing import NamedTuple

from barnabas.client.admin.admin import EARLIEST, LATEST, Admin
from barnabas.client.cluster import ClusterClient
from barnabas.client.consumer.message import RawMessage
from barnabas.client.consumer.partition_consumer import PartitionConsumer
from barnabas.client.delay.delay_ledger import (
    DelayOutcome,
    LedgerRecord,
    MovedOffsets,
    read_ledger_record,
)
from barnabas.client.delay.delayed_record import HoldingEntry, HoldingRules, entry_of
from barnabas.client.delay.holding_topics import HoldingTopic
from barnabas.client.delay.schedule import DelaySchedule, PlannedMove
from barnabas.client.workers.dead_letter_headers import headers_of
from barnabas.model.errors import Code, KafkaError, Retriable
from barnabas.model.ids import TopicPartition

_CHUNK = 500
_SHOWN_MAX = 100  # bytes of a key and of a value
_RECORD_SIZE = 100  # of what belongs to a record beside key, value and headers


class PendingRecord(NamedTuple):
    """A record that has not been moved; the beginnings of its key and of its value."""

    partition: int
    move: PlannedMove
    key: bytes | None
    value: bytes | None


class HoldingReader:
    """Of one cluster."""

    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster = cluster
        self._admin = Admin(cluster=cluster)

    async def ledger(
        self, holding: HoldingTopic, partition: int, begin: int = 0
    ) -> list[tuple[int, LedgerRecord]]:
        """The ledger of a partition from this offset on: offsets and records."""
        at = TopicPartition(holding.ledger, partition)

        async def whole() -> int:
            end = await self._offset(at, LATEST, committed_only=True)
            if end < await self._offset(at, LATEST, committed_only=False):
                raise Retriable(Code.OFFSET_NOT_AVAILABLE, f"{at}: a transaction is still open")
            return end

        try:
            end = await self._cluster.retrying(whole)
            begin = max(begin, await self._offset(at, EARLIEST, committed_only=True))
        except KafkaError as problem:
            if problem.code is not Code.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            return []  # nothing was moved yet
        found = []
        async for message in self._messages(at, begin, end):
            record = read_ledger_record(message.value, holding.topic_id)
            if record is not None:
                found.append((message.offset, record))
        return found

    async def end(self, at: TopicPartition) -> int:
        return await self._offset(at, LATEST, committed_only=True)

    async def start(self, at: TopicPartition) -> int:
        return await self._offset(at, EARLIEST, committed_only=True)

    async def pending(
        self,
        holding: HoldingTopic,
        partition: int,
        rules: HoldingRules,
        read_max: int | None = None,
    ) -> list[PendingRecord]:
        """In the order in which they are due; of the first `read_max` records, if it is given."""
        at = TopicPartition(holding.name, partition)
        records = [record for _, record in await self.ledger(holding, partition)]
        end = await self.end(at)
        schedule = DelaySchedule(MovedOffsets(records), end, holding.dead_letters)
        begin = max(schedule.position, await self.start(at))
        end = end if read_max is None else min(end, begin + read_max)
        texts: dict[int, tuple[bytes | None, bytes | None]] = {}
        now = self._cluster.net.wall_ms()
        async for message in self._messages(at, begin, end):
            schedule.read([entry_in(message, rules, now)], message.offset + 1)
            if message.offset in schedule:
                texts[message.offset] = _beginning(message.key), _beginning(message.value)
        return [PendingRecord(partition, move, *texts[move.offset]) for move in schedule.pending()]

    async def ledger_end(self, holding: HoldingTopic, partition: int) -> int:
        try:
            return await self.end(TopicPartition(holding.ledger, partition))
        except KafkaError as problem:
            if problem.code is not Code.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            return 0

    async def outcome(
        self, holding: HoldingTopic, partition: int, offset: int, begin: int
    ) -> DelayOutcome | None:
        """What became of a record, according to the ledger from offset `begin` on."""
        for _, record in await self.ledger(holding, partition, begin):
            if (outcome := record.outcome(offset)) is not None:
                return outcome
        return None

    async def _messages(
        self, at: TopicPartition, begin: int, end: int
    ) -> AsyncGenerator[RawMessage, None]:
        if begin >= end:
            return
        async with PartitionConsumer([at], cluster=self._cluster) as consumer:
            await consumer.seek(at, begin)
            consumer.stop_at({at: end})
            while messages := await consumer.getmany(_CHUNK):
                for message in messages:
                    yield message

    async def _offset(self, at: TopicPartition, time: int, *, committed_only: bool) -> int:
        found = await self._admin.offsets({at: time}, committed_only=committed_only)
        return found[at].offset


def entry_in(message: RawMessage, rules: HoldingRules, now: int) -> HoldingEntry:
    """The entry of a record; `now`: ms since 1970."""
    headers = headers_of(message)
    size = _RECORD_SIZE + len(message.key or b"") + len(message.value or b"")
    size += sum(len(name) + len(value or b"") for name, value in headers)
    return entry_of(message.offset, headers, size, rules, now)


def _beginning(value: bytes | None) -> bytes | None:
    return None if value is None else value[:_SHOWN_MAX]

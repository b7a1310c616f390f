"""Reads dead-letter topics, and sends their records back to their original topics.

Written over `Net`, like all flows; `barnabas dlq` runs them.
Always: a receipt names each letter that is redriven, first as an intent, then as done. After a
crash, the next redrive sends the rest with the same sequence numbers, so the broker drops
duplicates.
Not here: what receipts mean (redrive_ledger.py).
"""

import re
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import NamedTuple
from uuid import uuid4

from barnabas.client.admin.admin import EARLIEST, LATEST, Admin
from barnabas.client.cluster import ClusterClient
from barnabas.client.consumer.message import RawMessage
from barnabas.client.consumer.partition_consumer import PartitionConsumer
from barnabas.client.workers import redrive_ledger
from barnabas.client.workers.dead_letter_headers import (
    CUT,
    NO_RECORD,
    LetterTrail,
    headers_of,
    own_headers,
    trail_in,
)
from barnabas.client.workers.letter_writer import LetterWriter
from barnabas.client.workers.redrive_ledger import LetterPartition, Receipt, RedriveLedger
from barnabas.client.workers.window.effects import SendLetter
from barnabas.model.errors import Code, InvalidRequest, KafkaError
from barnabas.model.ids import TopicPartition

REDRIVEN_FROM = "barnabas.redriven-from"
_NAMED = re.compile(r"([._-](dlq|dlt|dead-?letters?|errors))$", re.IGNORECASE)
_RECEIPTS = TopicPartition(redrive_ledger.TOPIC, 0)
_CHUNK = 500


class Letter(NamedTuple):
    """One record of a dead-letter topic. `trail` is None if another program wrote it."""

    message: RawMessage
    trail: LetterTrail | None
    redriven: bool

    @property
    def goes_back(self) -> bool:
        """Whether it has a record to send. A letter of a share group may have headers only."""
        return not any(name == NO_RECORD for name, _ in headers_of(self.message))

    @property
    def time(self) -> int:
        """When the record failed, or else when the letter was written."""
        if self.trail is not None and self.trail.failed_at >= 0:
            return self.trail.failed_at
        return self.message.timestamp


@dataclass(frozen=True)
class Filter:
    """Selects letters. A field that is None matches any letter."""

    partitions: tuple[int, ...] = ()
    offset: int | None = None
    origin: str | None = None
    group: str | None = None
    cause: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    def takes(self, letter: Letter) -> bool:
        trail, message = letter.trail, letter.message
        if self.partitions and message.partition not in self.partitions:
            return False
        if self.offset is not None and message.offset != self.offset:
            return False
        if self.since_ms is not None and letter.time < self.since_ms:
            return False
        if self.until_ms is not None and letter.time >= self.until_ms:
            return False
        if self.origin is None and self.group is None and self.cause is None:
            return True
        if trail is None:
            return False
        return (
            (self.origin is None or f"{trail.origin}:".startswith(f"{self.origin}:"))
            and (self.group is None or trail.group == self.group)
            and (self.cause is None or self.cause.lower() in trail.cause.lower())
        )


class Summary(NamedTuple):
    """One dead-letter topic. `last` is its newest letter."""

    topic: str
    letters: int
    redriven: int
    last: Letter | None


class DeadLetters:
    """The dead-letter topics of one cluster."""

    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster = cluster
        self._admin = Admin(cluster=cluster)
        self._post = LetterWriter(cluster)
        self._ids: dict[str, str] = {}  # of topics

    # --- listing ---

    async def summaries(self) -> list[Summary]:
        """Topics with the name of a dead-letter topic, or whose last records have the headers of
        one.
        """
        view = await self._admin.topics()
        partitions = [
            TopicPartition(name, partition.number)
            for name, topic in sorted(view.topics.items())
            for partition in topic.partitions
            if not topic.is_internal and name != redrive_ledger.TOPIC
        ]
        if not partitions:
            return []
        starts = await self._offsets(partitions, EARLIEST)
        ends = await self._offsets(partitions, LATEST)
        filled = [at for at in partitions if ends[at] > starts[at]]
        read = await self._ledger()
        self._ids |= {name: str(topic.id) for name, topic in view.topics.items()}
        last: dict[str, Letter] = {}
        tails = {at: (ends[at] - 1, ends[at]) for at in filled}
        async for message in self._messages(tails):
            letter = self._letter(message, read)
            trail = letter.trail
            if _NAMED.search(message.topic) or (trail is not None and trail.not_before < 0):
                before = last.get(message.topic)
                if before is None or letter.time > before.time:
                    last[message.topic] = letter
        found = []
        for name in dict.fromkeys(at.topic for at in partitions):
            if name in last or _NAMED.search(name):
                ours = [at for at in partitions if at.topic == name]
                there = sum(ends[at] - starts[at] for at in ours)
                taken = sum(
                    len([offset for offset in read.taken(self._source(at)) if offset >= starts[at]])
                    for at in ours
                )
                found.append(Summary(name, there, taken, last.get(name)))
        return found

    async def letters(self, topic: str, wanted: Filter) -> AsyncGenerator[Letter, None]:
        """The letters that exist now, partition by partition, oldest first."""
        spans = await self._spans(topic, wanted)
        read = await self._ledger()
        for at, span in spans.items():
            async for message in self._messages({at: span}):
                letter = self._letter(message, read)
                if wanted.takes(letter):
                    yield letter

    # --- redriving ---

    async def redrive(
        self,
        topic: str,
        wanted: Filter,
        *,
        to: str | None = None,
        limit: int | None = None,
        progress: Callable[[int], None] = lambda count: None,
    ) -> int:
        """Send letters back to their original topic, or to `to`. Returns how many were sent."""
        await self._make_receipts()
        count = 0
        self._ids[topic] = str((await self._admin.topic(topic)).id)
        for receipt in (await self._ledger()).open(topic, self._ids[topic]):
            count += await self._finish(receipt)
            progress(count)
        chunk: list[RawMessage] = []
        async with aclosing(self.letters(topic, wanted)) as letters:
            async for letter in letters:
                if letter.redriven or (letter.trail is None and to is None):
                    continue
                if not letter.goes_back:
                    continue
                if limit is not None and count + len(chunk) >= limit:
                    break
                message = letter.message
                if chunk and (len(chunk) == _CHUNK or chunk[0].partition != message.partition):
                    count += await self._redrive_chunk(chunk, to)
                    progress(count)
                    chunk = []
                chunk.append(message)
        if chunk:
            count += await self._redrive_chunk(chunk, to)
            progress(count)
        return count

    async def _redrive_chunk(self, chunk: list[RawMessage], to: str | None) -> int:
        at = TopicPartition(chunk[0].topic, chunk[0].partition)
        places = {message.offset: await self._place(message, to) for message in chunk}
        receipt = redrive_ledger.intent(
            uuid4().hex, self._source(at), places, await self._post.identify()
        )
        await self._write(redrive_ledger.encoded(receipt))
        if not (await self._ledger()).won(receipt.token):
            raise InvalidRequest(
                Code.INVALID_REQUEST,
                f"{at}: another redrive sends the same letters; wait until it ends, then try again",
            )
        return await self._send_all(receipt, chunk)

    async def _finish(self, receipt: Receipt) -> int:
        """Finish an interrupted redrive, of another process or of ours; some letters may be deleted
        since.
        """
        start = (await self._offsets([receipt.at], EARLIEST))[receipt.at]
        offsets = receipt.offsets()
        span = (max(start, offsets[0]), offsets[-1] + 1)
        wanted = set(offsets)
        found = [
            message
            async for message in self._messages({receipt.at: span})
            if message.offset in wanted
        ]
        return await self._send_all(receipt, found)

    async def _send_all(self, receipt: Receipt, messages: list[RawMessage]) -> int:
        """Send letters. A refused sequence number belongs to a letter that is already written:
        numbers have no gaps.
        """
        numbers = receipt.numbered()
        for message in messages:
            place, sequence = numbers[message.offset]
            came = f"{message.topic}:{message.partition}:{message.offset}"
            given = headers_of(message)
            # A value that was cut is not the record's: its reader must be able to see that.
            cut = tuple(header for header in given if header[0] == CUT)
            headers = (*own_headers(given), *cut, (REDRIVEN_FROM, came.encode()))
            await self._post.send(
                SendLetter(
                    receipt.at,
                    0,
                    message.offset,
                    receipt.identity,
                    sequence,
                    place,
                    # Its own timestamp may be so old that retention would delete it at once.
                    self._cluster.net.wall_ms(),
                    message.key,
                    message.value,
                    headers,
                )
            )
        await self._write(redrive_ledger.encoded(redrive_ledger.end(receipt.token)))
        return len(messages)

    async def _place(self, message: RawMessage, to: str | None) -> TopicPartition:
        """Its original partition, or the same partition of `to`."""
        trail = trail_in(headers_of(message))
        topic = to or (trail.origin.topic if trail else None)
        assert topic is not None
        partition = trail.origin.partition if trail else message.partition
        view = await self._cluster.view([topic])
        if topic not in view.topics:
            view = await self._cluster.refresh()
        if topic not in view.topics:
            came = f"{message.topic}:{message.partition}:{message.offset}"
            raise InvalidRequest(
                Code.UNKNOWN_TOPIC_OR_PARTITION,
                f"letter {came} goes to topic {topic!r}, which does not exist; --to names another",
            )
        return TopicPartition(topic, partition % len(view.topics[topic].partitions))

    # --- receipts ---

    async def _make_receipts(self) -> None:
        try:
            await self._admin.create_topic(
                redrive_ledger.TOPIC, partitions=1, configs={"retention.ms": "-1"}
            )
        except KafkaError as problem:
            if problem.code is not Code.TOPIC_ALREADY_EXISTS:
                raise

    async def _write(self, receipt: bytes) -> None:
        await self._post.append(_RECEIPTS, receipt, self._cluster.net.wall_ms())

    async def _ledger(self) -> RedriveLedger:
        read = RedriveLedger()
        try:
            await self._admin.topic(redrive_ledger.TOPIC)
        except KafkaError as problem:
            if problem.code is not Code.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            return read
        start = (await self._offsets([_RECEIPTS], EARLIEST))[_RECEIPTS]
        end = (await self._offsets([_RECEIPTS], LATEST))[_RECEIPTS]
        async for message in self._messages({_RECEIPTS: (start, end)}):
            read.read(message.value)
        return read

    # --- reading ---

    def _source(self, at: TopicPartition) -> LetterPartition:
        return LetterPartition(at.topic, self._ids[at.topic], at.partition)

    def _letter(self, message: RawMessage, read: RedriveLedger) -> Letter:
        source = self._source(TopicPartition(message.topic, message.partition))
        return Letter(message, trail_in(headers_of(message)), message.offset in read.taken(source))

    async def _spans(self, topic: str, wanted: Filter) -> dict[TopicPartition, tuple[int, int]]:
        found = await self._admin.topic(topic)
        self._ids[topic] = str(found.id)
        partitions = [
            TopicPartition(topic, partition.number)
            for partition in found.partitions
            if not wanted.partitions or partition.number in wanted.partitions
        ]
        starts = await self._offsets(partitions, EARLIEST)
        ends = await self._offsets(partitions, LATEST)
        spans = {at: (starts[at], ends[at]) for at in partitions}
        if wanted.offset is not None:
            one = wanted.offset
            spans = {at: (max(start, one), min(end, one + 1)) for at, (start, end) in spans.items()}
        return {at: span for at, span in spans.items() if span[0] < span[1]}

    async def _offsets(
        self, partitions: list[TopicPartition], time: int
    ) -> dict[TopicPartition, int]:
        if not partitions:
            return {}
        # A reader of committed records would wait for the end of a transaction that is open.
        committed_only = self._cluster.config.isolation_level == "read_committed"
        found = await self._admin.offsets(
            dict.fromkeys(partitions, time), committed_only=committed_only
        )
        return {at: place.offset for at, place in found.items()}

    async def _messages(
        self, spans: dict[TopicPartition, tuple[int, int]]
    ) -> AsyncGenerator[RawMessage, None]:
        spans = {at: span for at, span in spans.items() if span[0] < span[1]}
        if not spans:
            return
        async with PartitionConsumer(list(spans), cluster=self._cluster) as consumer:
            for at, (start, _) in spans.items():
                await consumer.seek(at, start)
            consumer.stop_at({at: stop for at, (_, stop) in spans.items()})
            while messages := await consumer.getmany(_CHUNK):
                for message in messages:
                    yield message

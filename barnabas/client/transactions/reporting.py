"""Collects a report of open transactions from the leaders of partitions and from coordinators.

Flows over `Net`, with the requests of an Admin.
Always: a transaction that its coordinator does not know is looked for a second time, since it may
have ended between two requests; what has ended meanwhile is not in the report.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from barnabas.client.admin.transactions import STATE_TOPIC
from barnabas.client.cluster import ClusterClient
from barnabas.client.consumer.decoding import FetchedRecords
from barnabas.client.consumer.offset_lookup import Committed
from barnabas.client.groups.answers import Description
from barnabas.client.groups.calls import FETCH_NAMES_UNTIL
from barnabas.client.groups.offered import offers
from barnabas.client.groups.report import MemberReport
from barnabas.client.transactions.report import (
    ActiveProducer,
    OpenTransaction,
    ReadingGroup,
    TransactionDescription,
    TransactionsReport,
    UnstablePartition,
    WaitingReader,
)
from barnabas.client.transactions.transaction_rules import is_known
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages import fetch
from barnabas.wire.messages.describe_producers import DescribeProducersRequest
from barnabas.wire.messages.describe_transactions import DescribeTransactionsRequest
from barnabas.wire.messages.list_offsets import LATEST
from barnabas.wire.messages.list_transactions import ListTransactionsRequest

if TYPE_CHECKING:
    from barnabas.client.admin.admin import Admin

TIMES_MAX = 20  # each costs a batch over the network
READ_AHEAD_BYTES = 64 * 1024
READ_AHEAD_OFFSETS_MAX = 1_000
READ_AHEAD_MAX = 20
READER_LOOKS = 3
READER_PAUSE_MS = 100
_READ_COMMITTED = 1
_REQUESTS = (DescribeProducersRequest, DescribeTransactionsRequest, ListTransactionsRequest)


Readers = dict[TopicPartition, dict[tuple[str, str], None]]
"""By partition: the client ids and hosts of consumers, in order."""


class StableEnd(NamedTuple):
    """The last stable offset and the high watermark of a partition."""

    stable: int
    end: int


class TransactionReports:
    """Builds reports from the requests of `admin`."""

    def __init__(self, admin: "Admin", cluster: ClusterClient) -> None:
        self._admin = admin
        self._cluster = cluster

    async def report(self, topics: Iterable[str] | None = None) -> TransactionsReport:
        """Of these topics, or of all; with the groups that read them."""
        wanted = None if topics is None else sorted(topics)
        view = await self._cluster.retrying(lambda: self._cluster.view_of(wanted))
        for name in wanted or ():
            view.topic(name)  # or the error that names it
        partitions = [
            TopicPartition(name, partition.number)
            for name, topic in sorted(view.topics.items())
            for partition in topic.partitions
            if partition.leader >= 0
        ]
        ends = await self.stable_ends(partitions)
        report = await self.held(ends)
        return replace(report, held=await self._with_groups(report.held))

    async def stable_ends(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, StableEnd]:
        """The last stable offset first: the other way round, it could be the larger one."""
        wanted = dict.fromkeys(partitions, LATEST)
        if not wanted:
            return {}
        stable = await self._admin.offsets(wanted, committed_only=True)
        ends = await self._admin.offsets(wanted)
        return {at: StableEnd(stable[at].offset, ends[at].offset) for at in wanted}

    async def held(self, ends: Mapping[TopicPartition, StableEnd]) -> TransactionsReport:
        """Where readers are held back, and by which transactions; without groups."""
        held = {at: each for at, each in ends.items() if each.stable < each.end}
        partitions: list[UnstablePartition] = []
        missing: tuple[int, ...] = ()
        if held:
            missing = await self._without_coordinator()
            for broker, led in (await self._cluster.by_leader(held)).items():
                if await self._tells_producers(broker):
                    partitions += await self._explained(broker, {at: held[at] for at in led})
                else:
                    again = await self.stable_ends(led)
                    partitions += [
                        UnstablePartition(at, *held[at], leader=broker, producers_known=False)
                        for at in led
                        if again[at].stable < held[at].end
                    ]
        return TransactionsReport(
            tuple(sorted(partitions, key=lambda each: each.at)),
            len(ends),
            missing,
            self._cluster.net.wall_ms(),
        )

    async def _tells_producers(self, broker: int) -> bool:
        """Kafka before 3.0 does not have all of these requests."""
        connection = await self._cluster.broker(broker)
        return all(offers(connection, request.api_key) for request in _REQUESTS)

    async def _without_coordinator(self) -> tuple[int, ...]:
        """Ids of these partitions are listed by no broker: they may well have transactions."""
        view = await self._cluster.retrying(lambda: self._cluster.view_of([STATE_TOPIC]))
        topic = view.topics.get(STATE_TOPIC)
        if topic is None:
            return ()
        return tuple(each.number for each in topic.partitions if each.leader not in view.brokers)

    async def _explained(
        self, broker: int, held: Mapping[TopicPartition, StableEnd]
    ) -> list[UnstablePartition]:
        """The partitions that one broker leads."""
        opened = _opened(await self._admin.describe_producers(held))
        known = await self._known({one.producer_id for each in opened.values() for one in each})
        partitions = [
            UnstablePartition(
                at, *ends, broker, tuple(_open(at, one, known) for one in opened.get(at, ()))
            )
            for at, ends in held.items()
        ]
        doubtful = [each for each in partitions if not all(map(is_known, each.transactions))]
        doubtful += [each for each in partitions if not each.transactions]
        if doubtful:
            still = await self._still_held(doubtful)
            looked_again = {each.at for each in doubtful}
            partitions = [each for each in partitions if each.at not in looked_again] + still
        return await self._with_times(partitions)

    async def _known(self, producer_ids: Iterable[int]) -> dict[int, TransactionDescription]:
        """By producer id: its transactional id, as its coordinator describes it."""
        ids = sorted(producer_ids)
        if not ids:
            return {}
        listed = await self._admin.list_transactions(producer_ids=ids)
        described = await self._admin.describe_transactions(
            [each.transactional_id for each in listed],
            coordinators={each.transactional_id: each.coordinator for each in listed},
        )
        return {
            each.producer_id: described[each.transactional_id]
            for each in listed
            if each.transactional_id in described
        }

    async def _still_held(self, doubtful: list[UnstablePartition]) -> list[UnstablePartition]:
        """Only what is there at the second look too; a coordinator may know it by now.

        Records that are written between the two requests of a look make the end the larger one. So
        it counts whether the records of the first look are still hidden at the second.
        """
        ends = await self.stable_ends(each.at for each in doubtful)
        opened = _opened(await self._admin.describe_producers(ends))
        known = await self._known({one.producer_id for each in opened.values() for one in each})
        found = []
        for each in doubtful:
            stable, end = ends[each.at]
            before = {(one.producer.producer_id, one.start_offset) for one in each.transactions}
            still = tuple(
                _open(each.at, one, known)
                for one in opened.get(each.at, ())
                if (one.producer_id, one.start_offset) in before
            )
            if stable < each.end:
                found.append(replace(each, stable=stable, end=end, transactions=still))
        return found

    async def _with_times(self, partitions: list[UnstablePartition]) -> list[UnstablePartition]:
        """A transaction that no coordinator knows began when its first record was written."""
        offsets = {
            each.at: each.transactions[0].start_offset
            for each in partitions
            if each.transactions and each.transactions[0].began_ms is None
        }
        times = await self._admin.times_at(dict(list(offsets.items())[:TIMES_MAX]))
        return [
            replace(
                each,
                transactions=(
                    replace(each.transactions[0], began_ms=times[each.at]),
                    *each.transactions[1:],
                ),
            )
            if each.at in times
            else each
            for each in partitions
        ]

    async def _with_groups(
        self, held: tuple[UnstablePartition, ...]
    ) -> tuple[UnstablePartition, ...]:
        if not held:
            return held
        listed = await self._admin.groups()
        asked = {each.group: each.coordinator for each in listed if each.type != "share"}
        asked.pop("", None)
        offsets = await self._admin.groups_offsets(asked, coordinators=asked)
        held = await self.with_positions(held, offsets)
        waiting = await self.waiting(held)
        described: dict[str, Description] = {}
        if any(waiting.values()):
            described = await self._admin.describe_groups(asked, coordinators=asked)
        return with_readers(held, waiting, {id_: each.members for id_, each in described.items()})

    async def waiting(self, held: tuple[UnstablePartition, ...]) -> Readers:
        """Who waits there. A fetch waits for half a second, then the consumer sends the next: one
        look may miss it.
        """
        found: Readers = {}
        for look in range(READER_LOOKS if held else 0):
            if look:
                await self._cluster.net.sleep(READER_PAUSE_MS)
            seen = await self._admin.waiting_readers(each.at for each in held)
            if not seen:
                break  # no leader reports it
            for at, readers in seen.items():
                found.setdefault(at, {}).update(dict.fromkeys(readers))
        return found

    async def with_positions(
        self,
        held: tuple[UnstablePartition, ...],
        offsets: Mapping[str, Mapping[TopicPartition, Committed]],
    ) -> tuple[UnstablePartition, ...]:
        """`offsets`: the committed offsets of groups."""
        looks = READ_AHEAD_MAX
        found = []
        for each in held:
            positions = []
            for group in sorted(offsets):
                committed = offsets[group].get(each.at)
                if committed is None:
                    continue
                at_stable = committed.offset == each.stable
                if each.stable - READ_AHEAD_OFFSETS_MAX <= committed.offset < each.stable and looks:
                    looks -= 1
                    at_stable = await self._nothing_to_read(each, committed.offset)
                positions.append(ReadingGroup(group, committed.offset, at_stable))
            found.append(replace(each, groups=tuple(positions)))
        return tuple(found)

    async def _nothing_to_read(self, held: UnstablePartition, offset: int) -> bool:
        """A consumer that commits the offset after its last message stops short of a marker."""
        part = fetch.FetchPartition(
            partition=held.at.partition,
            fetch_offset=offset,
            partition_max_bytes=READ_AHEAD_BYTES,
        )
        request = fetch.FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=READ_AHEAD_BYTES,
            isolation_level=_READ_COMMITTED,
            topics=[fetch.FetchTopic(topic=held.at.topic, partitions=[part])],
        )
        leader = await self._cluster.leader(held.at)
        response = await leader.call(
            request,
            fetch.FetchResponse,
            timeout_ms=self._cluster.timeout_ms,
            version_max=FETCH_NAMES_UNTIL,
        )
        answers = [each for topic in response.responses for each in topic.partitions]
        if not answers or answers[0].error_code:
            return False
        records = FetchedRecords(held.at, answers[0], committed_only=True)
        reached = records.next
        while records:
            _, batch = records.take(offset)
            if batch is not None:
                return False
        return reached >= held.stable


def with_readers(
    held: tuple[UnstablePartition, ...],
    waiting: Readers,
    members: Mapping[str, Iterable[MemberReport]],
) -> tuple[UnstablePartition, ...]:
    """`members`: of the groups that may read there."""
    groups = {
        (member.client, member.host.removeprefix("/"), at): group
        for group, all_ in members.items()
        for member in all_
        for at in member.owned
    }
    return tuple(
        replace(
            each,
            readers=tuple(
                WaitingReader(client, host, groups.get((client, host, each.at)))
                for client, host in waiting.get(each.at, ())
            ),
        )
        for each in held
    )


def _opened(
    producers: Mapping[TopicPartition, Iterable[ActiveProducer]],
) -> dict[TopicPartition, list[ActiveProducer]]:
    """Those with an open transaction, by its first offset."""
    return {
        at: sorted(
            (each for each in found if each.start_offset is not None),
            key=lambda each: each.start_offset or 0,
        )
        for at, found in producers.items()
    }


def _open(
    at: TopicPartition, one: ActiveProducer, known: Mapping[int, TransactionDescription]
) -> OpenTransaction:
    assert one.start_offset is not None
    found = OpenTransaction(at, one, one.start_offset, known.get(one.producer_id))
    if found.described is not None and is_known(found):
        return replace(found, began_ms=found.described.started_ms)
    return found

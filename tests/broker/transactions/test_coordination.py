"""The transaction coordinator on a broker: its log, its markers, its restarts."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.groups.coordination import coordination
from barnabas.broker.net.deferred_reply import DeferredReply
from barnabas.broker.topic import TRANSACTIONS_TOPIC
from barnabas.broker.transactions.coordination import CallOrigin, transaction_coordination
from barnabas.broker.transactions.local_markers import AT_ONCE_MAX
from barnabas.coordinators.caller import Caller
from barnabas.coordinators.groups.records import partition_of
from barnabas.coordinators.transactions.decision import Identity
from barnabas.keeper.keeper import Keeper
from barnabas.keeper.memory import MemoryKeeper
from barnabas.log.transactions.append import require_guard
from barnabas.model.errors import Code
from barnabas.wire.messages.end_txn import EndTxnRequest
from barnabas.wire.messages.fetch import FetchResponse
from barnabas.wire.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.offset_fetch import OffsetFetchRequestTopics
from barnabas.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from barnabas.wire.messages.write_txn_markers import WriteTxnMarkersResponse
from tests.broker.handlers.test_fetch import fetch, offsets_in, only
from tests.broker.running import Running, running_broker
from tests.log.batches import batch
from tests.waiting import eventually

ID = "tx"
OFFSETS = "__consumer_offsets"


class Coordinator:
    """Requests in a few letters."""

    def __init__(self, running: Running) -> None:
        self.running = running
        self.driver = transaction_coordination(running.broker)

    async def ask(self, operation: Callable[..., Any], version: int = 3) -> Any:
        reply = self.driver.run(ID, operation, CallOrigin(version, "c", "/h"))
        if not isinstance(reply, DeferredReply):
            return reply
        told: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        reply.then(told.set_result)
        return await told

    async def init(self, timeout_ms: int = 60_000) -> Identity:
        request = InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=timeout_ms)
        said = await self.ask(lambda shard, *rest: shard.init_producer_id(request, *rest))
        assert said.error_code == 0
        return Identity(said.producer_id, said.producer_epoch)

    async def add(self, producer: Identity, topic: str, *partitions: int) -> None:
        named = {topic: frozenset(partitions)}
        said = await self.ask(lambda shard, *rest: shard.add_partitions(ID, producer, named, *rest))
        (topic_result,) = said.results_by_topic_v3_and_below
        assert {e.partition_error_code for e in topic_result.results_by_partition} == {0}

    async def end(self, producer: Identity, *, commit: bool) -> Code:
        request = EndTxnRequest(
            transactional_id=ID,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            committed=commit,
        )
        said = await self.ask(lambda shard, *rest: shard.end_txn(request, *rest))
        return Code.of(said.error_code)

    def state(self) -> str:
        self.driver.led.take_up()
        index = partition_of(ID, self.driver.partitions)
        found = self.driver.runtime.any_shard(index).table.transactions.get(ID)
        return "" if found is None else found.state.title

    async def until(self, state: str) -> None:
        await eventually(lambda: self.state() == state, self.state)

    def produce(self, producer: Identity, partition: int, sequence: int = 0) -> None:
        found = self.running.broker.topics.existing("t").partition(partition)
        guard = require_guard(
            found.log, producer.producer_id, producer.epoch, sequence, has_version_2=False
        )
        wall_ms = self.running.broker.clock.wall_ms()  # an old record would be in a segment alone
        data = batch(
            1,
            time=wall_ms,
            producer=producer.producer_id,
            epoch=producer.epoch,
            sequence=sequence,
            transactional=True,
        )
        found.append(data, -1, wall_ms, guard=guard)

    async def visible(self, partition: int) -> tuple[list[int], int]:
        """The offsets that a reader of committed records gets, and how many are of aborts."""
        offsets = [-1, -1]
        offsets[partition] = 0
        request = fetch(*offsets, isolation_level=1)
        found = only(await self.running.ask(request, FetchResponse, 12))
        return offsets_in(found), len(found.aborted_transactions or [])


@asynccontextmanager
async def coordinating(path: Path, keeper: Keeper | None = None) -> AsyncIterator[Coordinator]:
    options = {"transaction.state.log.num.partitions": "3", "offsets.topic.num.partitions": "2"}
    async with running_broker(path, options, keeper) as running:
        coordinator = Coordinator(running)
        await coordinator.driver.ready()
        yield coordinator


@pytest.mark.parametrize("commit", [True, False])
async def test_a_transaction_over_two_partitions_ends_in_both(tmp_path: Path, commit: bool) -> None:
    async with coordinating(tmp_path) as coordinator:
        await coordinator.running.create("t", partitions=2)
        producer = await coordinator.init()
        await coordinator.add(producer, "t", 0, 1)
        for partition in (0, 1):
            coordinator.produce(producer, partition)
        assert await coordinator.visible(0) == ([], 0)
        assert await coordinator.end(producer, commit=commit) is Code.NONE
        await coordinator.until("CompleteCommit" if commit else "CompleteAbort")
        for partition in (0, 1):
            assert await coordinator.visible(partition) == ([0, 1], 0 if commit else 1)


async def test_the_topic_of_transactions_is_made_as_kafka_makes_it(tmp_path: Path) -> None:
    async with coordinating(tmp_path) as coordinator:
        topic = coordinator.running.broker.topics.existing(TRANSACTIONS_TOPIC)
        assert len(topic.partitions) == 3
        assert topic.overrides["cleanup.policy"] == "compact"
        assert topic.overrides["compression.type"] == "uncompressed"
        assert topic.internal


async def test_a_deleted_topic_does_not_keep_a_transaction_from_ending(tmp_path: Path) -> None:
    async with coordinating(tmp_path) as coordinator:
        producer = await coordinator.init()
        await coordinator.add(producer, "gone", 0)
        await coordinator.end(producer, commit=True)
        await coordinator.until("CompleteCommit")


async def test_a_restart_goes_on_where_the_broker_was_killed(tmp_path: Path) -> None:
    """The decision is in the log, its markers are not."""
    keeper = MemoryKeeper()
    async with coordinating(tmp_path, keeper) as coordinator:
        await coordinator.running.create("t", partitions=2)
        producer = await coordinator.init()
        await coordinator.add(producer, "t", 0)
        coordinator.produce(producer, 0)
        nothing = WriteTxnMarkersResponse(markers=[])
        coordinator.driver._write_here = lambda due, now: (None, due)  # type: ignore[method-assign]
        coordinator.driver._begin_here = lambda request: nothing  # type: ignore[method-assign]
        await coordinator.end(producer, commit=True)
        assert coordinator.state() == "PrepareCommit"
        assert await coordinator.visible(0) == ([], 0)
    async with coordinating(tmp_path, keeper) as coordinator:
        await coordinator.until("CompleteCommit")
        assert await coordinator.visible(0) == ([0, 1], 0)
        following = await coordinator.init()
        assert following.producer_id == producer.producer_id
        assert following.epoch == producer.epoch + 1


async def test_a_transaction_left_open_is_aborted_after_its_timeout(tmp_path: Path) -> None:
    async with coordinating(tmp_path) as coordinator:
        await coordinator.running.create("t", partitions=2)
        producer = await coordinator.init(timeout_ms=1)
        await coordinator.add(producer, "t", 0)
        coordinator.produce(producer, 0)
        index = partition_of(ID, 3)
        shard = coordinator.driver.runtime.shard(index)
        since_ms = shard.table.transactions[ID].started_ms
        await eventually(lambda: coordinator.driver.led.now().wall_ms > since_ms + 1)
        shard._timers.set(shard._timeouts, 0)  # its check is due, ten seconds early
        coordinator.driver._go_on()
        await coordinator.until("CompleteAbort")
        assert await coordinator.visible(0) == ([0, 1], 1)


async def test_offsets_take_effect_with_the_marker(tmp_path: Path) -> None:
    async with coordinating(tmp_path) as coordinator:
        running = coordinator.running
        await running.create("t")
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
        await running.ask(find, FindCoordinatorResponse)
        groups = coordination(running.broker)
        index = groups.partition_of("g")
        producer = await coordinator.init()
        await coordinator.add(producer, OFFSETS, index)
        commit_offset(coordinator, producer, index, 42)
        wanted = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]

        def fetched() -> tuple[int, int]:
            (topic,) = groups.shard_of("g").fetch("g", wanted, stable=True)
            return topic.partitions[0].committed_offset, topic.partitions[0].error_code

        assert fetched() == (-1, Code.UNSTABLE_OFFSET_COMMIT)
        await coordinator.end(producer, commit=True)
        await coordinator.until("CompleteCommit")
        assert fetched() == (42, Code.NONE)


def commit_offset(coordinator: Coordinator, producer: Identity, index: int, offset: int) -> None:
    broker = coordinator.running.broker
    groups = coordination(broker)
    log = broker.topics.existing(OFFSETS).partition(index).log
    guard = require_guard(log, producer.producer_id, producer.epoch, -1, has_version_2=False)
    request = TxnOffsetCommitRequest(
        transactional_id=ID,
        group_id="g",
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        topics=[
            TxnOffsetCommitRequestTopic(
                name="t",
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=0, committed_offset=offset, committed_metadata=""
                    )
                ],
            )
        ],
    )
    deferred: DeferredReply[Any] = DeferredReply()
    caller = Caller(deferred, 3, "c", "/h")
    now = groups.now()
    outcome = groups.runtime.shard(index).commit_in_transaction(request, guard, caller, now)
    for token, response in groups.runtime.carry_out(index, outcome, now):
        assert token is deferred
        deferred.set(response)
    assert deferred.take().topics[0].partitions[0].error_code == 0


async def test_a_marker_that_a_partition_refuses_at_first_is_sent_again(tmp_path: Path) -> None:
    """Of two partitions one has its marker at once; the other gets it from the queue."""
    async with coordinating(tmp_path) as coordinator:
        await coordinator.running.create("t", partitions=2)
        producer = await coordinator.init()
        await coordinator.add(producer, "t", 0, 1)
        coordinator.produce(producer, 0)
        coordinator.produce(producer, 1)
        refusing = coordinator.running.broker.topics.existing("t").partition(1)
        refusing.in_sync = []
        await coordinator.end(producer, commit=True)
        assert await coordinator.visible(0) == ([0, 1], 0)
        assert coordinator.state() == "PrepareCommit"
        refusing.in_sync = list(refusing.replicas)
        await coordinator.until("CompleteCommit")
        assert await coordinator.visible(1) == ([0, 1], 0)


async def test_a_transaction_over_many_partitions_is_ended_by_the_queue(tmp_path: Path) -> None:
    async with coordinating(tmp_path) as coordinator:
        await coordinator.running.create("t", partitions=AT_ONCE_MAX + 1)
        producer = await coordinator.init()
        await coordinator.add(producer, "t", *range(AT_ONCE_MAX + 1))
        coordinator.produce(producer, AT_ONCE_MAX)
        await coordinator.end(producer, commit=True)
        await coordinator.until("CompleteCommit")
        last = coordinator.running.broker.topics.existing("t").partition(AT_ONCE_MAX)
        assert last.log.last_stable_offset == 2  # the record and its marker

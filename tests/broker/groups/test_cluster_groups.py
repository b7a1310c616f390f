"""A coordinator dies in each of the stages of a group's life; another one goes on.

Three brokers, groups and their offsets on all of them; members speak the wire's own messages.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import StringIO
from pathlib import Path
from typing import TypeVar
from uuid import UUID

import pytest

from barnabas.broker.cluster.peers import Peers
from barnabas.broker.groups.coordination import Coordination
from barnabas.broker.shards.journal import PartitionJournal
from barnabas.config.kinds import Address
from barnabas.model.errors import Code, KafkaError, Retriable
from barnabas.model.ids import NO_TOPIC_ID, BrokerId
from barnabas.system.logs import Logger
from barnabas.system.network import SystemNetwork
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from barnabas.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from barnabas.wire.messages.offset_fetch import OffsetFetchResponse
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from barnabas.wire.records import Record, encode_batch
from tests.broker.clustered import NOBODY, Clustered, cluster_of
from tests.group_requests import commit_request, committed_request, join_request, sync_request
from tests.waiting import WAIT_S, eventually

GROUP = "readers"
OFFSETS_TOPIC = "__consumer_offsets"
ELSEWHERE = (
    Code.NOT_COORDINATOR, Code.COORDINATOR_NOT_AVAILABLE, Code.COORDINATOR_LOAD_IN_PROGRESS,
    Code.LEADER_NOT_AVAILABLE,
)  # fmt: skip
R = TypeVar("R", bound=ProtocolMessage)


async def nobody(request: ProtocolMessage, version: int) -> ProtocolMessage:
    raise AssertionError("members call brokers")


class Member:
    """One that does as Kafka's own does: asks who coordinates, and again when it is told to."""

    def __init__(self, clustered: Clustered, name: str) -> None:
        log = Logger(StringIO())
        self._clustered = clustered
        self._peers = Peers(NOBODY, SystemNetwork(log).connect, log, nobody, name)
        self.name = name
        self.id = ""
        self.generation = -1
        self.settled = -1  # the generation it has its part of
        self.leads = False
        self.others: list[str] = []

    async def coordinator(self) -> BrokerId:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP])
        while True:
            self._peers.known(
                {
                    BrokerId(id_): Address("127.0.0.1", broker.port)
                    for id_, broker in self._clustered.brokers.items()
                }
            )
            for id_ in list(self._clustered.brokers):
                try:
                    answer = await self._peers.call(BrokerId(id_), request, timeout_ms=5_000)
                except KafkaError:
                    continue
                assert isinstance(answer, FindCoordinatorResponse)
                (found,) = answer.coordinators
                if not found.error_code and found.node_id in self._clustered.brokers:
                    return BrokerId(found.node_id)
            await asyncio.sleep(0.01)

    async def ask(self, request: ProtocolMessage, expected: type[R]) -> R:
        """Of the coordinator, again and again while that changes."""
        async with asyncio.timeout(WAIT_S):
            while True:
                try:
                    answer = await self.ask_once(request, expected)
                except KafkaError:
                    await asyncio.sleep(0.01)
                    continue
                if getattr(answer, "error_code", 0) not in ELSEWHERE:
                    return answer
                await asyncio.sleep(0.01)

    async def ask_once(self, request: ProtocolMessage, expected: type[R]) -> R:
        answer = await self._peers.call(await self.coordinator(), request, timeout_ms=20_000)
        assert isinstance(answer, expected)
        return answer

    def joining(self) -> JoinGroupRequest:
        return join_request(GROUP, self.id, self.name.encode(), rebalance_ms=20_000)

    async def join(self) -> None:
        while True:
            answer = await self.ask(self.joining(), JoinGroupResponse)
            if answer.error_code == Code.MEMBER_ID_REQUIRED:
                self.id = answer.member_id
                continue
            if answer.error_code == Code.UNKNOWN_MEMBER_ID:
                self.id = ""
                continue
            assert not answer.error_code, answer.error_code
            self.id, self.generation = answer.member_id, answer.generation_id
            self.leads = answer.leader == answer.member_id
            self.others = [each.member_id for each in answer.members]
            return

    def syncing(self) -> SyncGroupRequest:
        shares = {each: each.encode() for each in self.others} if self.leads else {}
        return sync_request(GROUP, self.id, self.generation, shares, protocol="range")

    async def sync(self) -> int:
        answer = await self.ask(self.syncing(), SyncGroupResponse)
        if not answer.error_code:
            assert answer.assignment == self.id.encode()
        return answer.error_code

    async def heartbeat(self) -> int:
        request = HeartbeatRequest(group_id=GROUP, generation_id=self.generation, member_id=self.id)
        return (await self.ask(request, HeartbeatResponse)).error_code

    async def live(self, done: asyncio.Event) -> None:
        while not done.is_set():
            self.settled = -1
            await self.join()
            if await self.sync():
                continue
            while not done.is_set() and not await self.heartbeat():
                self.settled = self.generation
                await asyncio.sleep(0.01)

    def committing(self, offset: int) -> OffsetCommitRequest:
        return commit_request(
            GROUP,
            {0: offset},
            topic_id=self.topic_id,
            member=self.id,
            generation=self.generation,
        )

    @property
    def topic_id(self) -> UUID:
        topic = next(iter(self._clustered.brokers.values())).topics.get("t")
        assert topic is not None
        return topic.id

    async def commit(self, offset: int) -> int:
        while True:
            answer = await self.ask(self.committing(offset), OffsetCommitResponse)
            code = answer.topics[0].partitions[0].error_code
            if code not in ELSEWHERE:
                return code
            await asyncio.sleep(0.01)

    async def committed(self) -> int:
        request = committed_request(GROUP, topic_id=self.topic_id)
        while True:
            answer = await self.ask(request, OffsetFetchResponse)
            (group,) = answer.groups
            if not group.error_code:
                return group.topics[0].partitions[0].committed_offset
            assert group.error_code in ELSEWHERE, group.error_code
            await asyncio.sleep(0.01)

    def close(self) -> None:
        self._peers.close()


async def settle(*members: Member) -> None:
    """They join, sync and send heartbeats, as consumers do, until they are one generation."""
    done = asyncio.Event()
    for each in members:
        each.settled = -1
    lives = [asyncio.ensure_future(each.live(done)) for each in members]
    try:
        await eventually(
            lambda: members[0].settled >= 0 and len({each.settled for each in members}) == 1
        )
    finally:
        done.set()
        await asyncio.gather(*lives)


@asynccontextmanager
async def group_of_two(directory: Path) -> AsyncIterator[tuple[Clustered, Member, Member]]:
    async with cluster_of(directory, 3) as clustered:
        await clustered.create("t")
        members = Member(clustered, "a"), Member(clustered, "b")
        try:
            yield clustered, *members
        finally:
            for each in members:
                each.close()


async def joined(a: Member, b: Member) -> None:
    """Both in one generation that nobody has an assignment of."""
    await settle(a, b)
    leader, follower = (a, b) if a.leads else (b, a)
    generation = a.generation
    joining = asyncio.ensure_future(leader.join())
    while follower.generation == generation:
        await follower.join()
    await joining
    assert leader.generation == follower.generation


async def kill_coordinator(clustered: Clustered, member: Member) -> None:
    """Then somebody else is."""
    before = await member.coordinator()
    await clustered.kill(before)
    while await member.coordinator() == before:
        await asyncio.sleep(0.01)


async def test_stage_1_members_that_wait_to_join_join_at_the_next_coordinator(
    tmp_path: Path,
) -> None:
    async with group_of_two(tmp_path) as (clustered, a, b):
        await settle(a)
        joining = asyncio.ensure_future(b.join())  # waits for `a`, which does not come
        while await a.heartbeat() != Code.REBALANCE_IN_PROGRESS:
            await asyncio.sleep(0.005)
        assert not joining.done()
        await kill_coordinator(clustered, a)
        joining.cancel()
        await settle(a, b)
        assert await a.heartbeat() == await b.heartbeat() == Code.NONE


async def test_stage_2_a_generation_that_was_not_assigned_is_not_known_any_more(
    tmp_path: Path,
) -> None:
    async with group_of_two(tmp_path) as (clustered, a, b):
        await joined(a, b)
        await kill_coordinator(clustered, a)
        follower = b if a.leads else a
        assert await follower.sync() in (Code.UNKNOWN_MEMBER_ID, Code.ILLEGAL_GENERATION)
        await settle(a, b)
        assert {len(a.others), len(b.others)} == {0, 2}


async def test_stage_3_an_assignment_that_was_written_is_kept_though_no_member_has_it(
    tmp_path: Path,
) -> None:
    async with group_of_two(tmp_path) as (clustered, a, b):
        await joined(a, b)
        leader, follower = (a, b) if a.leads else (b, a)
        coordinator = await leader.coordinator()
        index = shard_index(clustered, coordinator)
        ends = log_ends(clustered, index)
        asked = asyncio.ensure_future(leader.ask_once(leader.syncing(), SyncGroupResponse))
        await eventually(lambda: min(log_ends(clustered, index)) > max(ends))
        await kill_coordinator(clustered, a)
        await asyncio.gather(asked, return_exceptions=True)
        assert await follower.sync() == Code.NONE
        assert await leader.sync() == Code.NONE
        assert await a.heartbeat() == await b.heartbeat() == Code.NONE


def shard_index(clustered: Clustered, coordinator: int) -> int:
    coordination = clustered.brokers[coordinator].coordination
    assert coordination is not None
    return coordination.partition_of(GROUP)


def log_ends(clustered: Clustered, index: int) -> list[int]:
    return [
        clustered.partition(id_, OFFSETS_TOPIC, index).log.end_offset for id_ in clustered.brokers
    ]


async def test_stage_4_a_stable_group_stays_as_it_is(tmp_path: Path) -> None:
    async with group_of_two(tmp_path) as (clustered, a, b):
        await settle(a, b)
        generation, ids = a.generation, (a.id, b.id)
        assert await a.commit(41) == Code.NONE
        await kill_coordinator(clustered, a)
        assert await a.heartbeat() == await b.heartbeat() == Code.NONE
        assert (a.generation, (a.id, b.id)) == (generation, ids)
        assert await a.committed() == 41
        assert await b.sync() == Code.NONE


async def test_stage_5_a_commit_that_was_answered_is_found_and_one_that_was_not_can_be_repeated(
    tmp_path: Path,
) -> None:
    async with group_of_two(tmp_path) as (clustered, a, _):
        await settle(a)
        answered = -1
        dying: asyncio.Future[None] | None = None
        for offset in range(200):
            if offset == 20:
                dying = asyncio.ensure_future(kill_coordinator(clustered, a))
            assert await a.commit(offset) == Code.NONE
            answered = offset
            if dying is not None and dying.done():
                break
        assert dying is not None
        await dying
        assert await a.committed() == answered
        assert await a.commit(answered + 1) == Code.NONE
        assert await a.committed() == answered + 1


async def test_a_coordinator_that_stops_in_good_order_hands_its_groups_over(tmp_path: Path) -> None:
    async with group_of_two(tmp_path) as (clustered, a, b):
        await settle(a, b)
        assert await a.commit(5) == Code.NONE
        before = await a.coordinator()
        await clustered.stop(before)
        assert await a.heartbeat() == await b.heartbeat() == Code.NONE
        assert await a.committed() == 5
        await clustered.start(before)
        assert await b.heartbeat() == Code.NONE


async def test_who_is_asked_for_a_group_that_it_has_not_says_so_and_lists_its_own(
    tmp_path: Path,
) -> None:
    async with group_of_two(tmp_path) as (clustered, a, _):
        await settle(a)
        coordinator = await a.coordinator()
        for id_ in clustered.brokers:
            listed = await clustered.ask(
                id_, ListGroupsRequest(states_filter=[], types_filter=[]), ListGroupsResponse
            )
            assert bool(listed.groups) == (id_ == coordinator)
            request = HeartbeatRequest(group_id=GROUP, generation_id=a.generation, member_id=a.id)
            answer = await clustered.ask(id_, request, HeartbeatResponse)
            expected = Code.NONE if id_ == coordinator else Code.NOT_COORDINATOR
            assert answer.error_code == expected


async def test_nothing_is_written_to_a_log_that_another_broker_leads(tmp_path: Path) -> None:
    """Between the end of a leadership and that of its shard, requests may still come."""
    async with group_of_two(tmp_path) as (clustered, a, _):
        await settle(a)
        index = shard_index(clustered, await a.coordinator())
        led = clustered.partition(await a.coordinator(), OFFSETS_TOPIC, index)
        for id_ in clustered.brokers:
            partition = clustered.partition(id_, OFFSETS_TOPIC, index)
            if partition is not led:
                end = partition.log.end_offset
                journal = PartitionJournal(partition)
                with pytest.raises(Retriable, match="is led by broker"):
                    journal.append(encode_batch([Record(0, 1, b"k", b"v", ())]), 1)
                assert partition.log.end_offset == end


@pytest.mark.parametrize("again", [1, 3])
async def test_offsets_survive_every_coordinator_in_turn(tmp_path: Path, again: int) -> None:
    async with group_of_two(tmp_path) as (clustered, a, _):
        await settle(a)
        for turn in range(again):
            assert await a.commit(turn) == Code.NONE
            before = await a.coordinator()
            await clustered.kill(before)
            assert await a.committed() == turn
            await clustered.start(before)
            await eventually(
                lambda: all(
                    len(clustered.partition(id_, OFFSETS_TOPIC, 0).in_sync) == 3
                    for id_ in clustered.brokers
                )
            )


async def test_a_member_of_the_new_protocol_goes_on_at_the_next_coordinator(tmp_path: Path) -> None:
    async with group_of_two(tmp_path) as (clustered, a, _):

        def beat(epoch: int) -> ConsumerGroupHeartbeatRequest:
            joining = epoch == 0
            return ConsumerGroupHeartbeatRequest(
                group_id=GROUP,
                member_id="m",
                member_epoch=epoch,
                rebalance_timeout_ms=20_000 if joining else -1,
                subscribed_topic_names=["t"] if joining else None,
                topic_partitions=[] if joining else None,
            )

        answer = await a.ask(beat(0), ConsumerGroupHeartbeatResponse)
        while answer.assignment is None or not answer.assignment.topic_partitions:
            assert not answer.error_code, answer.error_message
            answer = await a.ask(beat(answer.member_epoch), ConsumerGroupHeartbeatResponse)
        epoch = answer.member_epoch
        await kill_coordinator(clustered, a)
        answer = await a.ask(beat(epoch), ConsumerGroupHeartbeatResponse)
        assert (answer.error_code, answer.member_epoch) == (Code.NONE, epoch)


async def test_offsets_of_a_deleted_topic_are_removed_by_every_coordinator(tmp_path: Path) -> None:
    async with group_of_two(tmp_path) as (clustered, a, _):
        await settle(a)
        assert await a.commit(7) == Code.NONE
        coordinator = await a.coordinator()
        elsewhere = next(id_ for id_ in clustered.brokers if id_ != coordinator)
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name="t", topic_id=NO_TOPIC_ID)], timeout_ms=20_000
        )
        answer = await clustered.ask(elsewhere, request, DeleteTopicsResponse)
        assert not answer.responses[0].error_code
        coordination = clustered.brokers[coordinator].coordination
        assert coordination is not None
        offsets = coordination.shard_of(GROUP).offsets
        await eventually(lambda: offsets.find(GROUP, "t", 0) is None)
        await clustered.create("t")
        assert await a.committed() == -1
        await kill_coordinator(clustered, a)
        assert await a.committed() == -1


async def test_offsets_of_a_topic_that_went_while_nobody_led_them_go_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barnabas.broker.groups.coordination.SWEEP_S", 0.05)
    async with group_of_two(tmp_path) as (clustered, a, _):
        await settle(a)
        assert await a.commit(7) == Code.NONE
        coordinator = await a.coordinator()
        index = shard_index(clustered, coordinator)
        # As if the deletion had not been heard of: the topic goes from the view, not from the log.
        monkeypatch.setattr(Coordination, "topic_gone", lambda self, name: None)
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name="t", topic_id=NO_TOPIC_ID)], timeout_ms=20_000
        )
        await clustered.ask(coordinator, request, DeleteTopicsResponse)
        await clustered.kill(coordinator)
        await eventually(lambda: clustered.leader(OFFSETS_TOPIC, index) not in (-1, coordinator))
        coordination = clustered.brokers[clustered.leader(OFFSETS_TOPIC, index)].coordination
        assert coordination is not None
        await eventually(lambda: coordination.runtime.is_active(index))
        await eventually(lambda: coordination.shard_of(GROUP).offsets.find(GROUP, "t", 0) is None)


async def test_while_there_are_too_few_brokers_for_its_replicas_there_is_no_coordinator(
    tmp_path: Path,
) -> None:
    """Clients wait for one; of any other error they would die."""
    settings = {"offsets.topic.replication.factor": "3"}
    async with cluster_of(tmp_path, 1, settings) as cluster:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP])
        answer = await cluster.ask(1, request, FindCoordinatorResponse)
        assert answer.coordinators[0].error_code == Code.COORDINATOR_NOT_AVAILABLE
        assert "factor is 3" in (answer.coordinators[0].error_message or "")

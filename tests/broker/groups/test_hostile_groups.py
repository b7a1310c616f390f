"""People who mean groups harm: each is refused with a code, and the memory stays bounded.

The broker runs in this process where what it holds is looked at, and as a process of its own where
what the kernel says it holds is.
"""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from struct import pack
from typing import Any

import pytest

from barnabas.broker.groups.coordination import Coordination
from barnabas.broker.net.deferred_reply import DeferredReply
from barnabas.coordinators.groups.memory import MEMBER_BYTES
from barnabas.coordinators.runtime import Now, ShardReply
from barnabas.keeper.memory import MemoryKeeper
from barnabas.model.errors import Code
from barnabas.wire.apis import APIS
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.frames import read_request_header, read_response, request_frame
from barnabas.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from barnabas.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from barnabas.wire.messages.offset_commit import OffsetCommitResponse
from barnabas.wire.messages.sync_group import SyncGroupResponse
from tests.broker.net.test_hostile import memory
from tests.broker.running import Running, running_broker
from tests.group_requests import commit_request, join_request, sync_request
from tests.process import BrokerProcess
from tests.raw import RawClient

pytestmark = pytest.mark.slow

AT_ONCE = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "4"}
MIB = 1 << 20
DIRECT = 3  # the last version of JoinGroup that takes a member without a name at once
NAMED = 9


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_broker(tmp_path, AT_ONCE) as broker:
        await broker.create("t", 2)
        await broker.ask(FindCoordinatorRequest(coordinator_keys=["g"]), FindCoordinatorResponse)
        yield broker


def coordination(running: Running) -> Coordination:
    found = running.broker.coordination
    assert found is not None
    return found


def commit(
    group: str = "g", *, partitions: tuple[int, ...] = (0,), **given: Any
) -> ProtocolMessage:
    return commit_request(group, dict.fromkeys(partitions, 1), metadata=None, **given)


async def joined(running: Running, metadata: bytes = b"", group: str = "g") -> JoinGroupResponse:
    """A group of one, stable."""
    answer = await running.ask(join_request(group, metadata=metadata), JoinGroupResponse, DIRECT)
    assert answer.error_code == Code.NONE
    shares = {answer.member_id: b"\xff" * 9}
    request = sync_request(group, answer.member_id, answer.generation_id, shares)
    synced = await running.ask(request, SyncGroupResponse, DIRECT)
    assert (synced.error_code, bytes(synced.assignment)) == (Code.NONE, b"\xff" * 9)
    return answer


# --- nonsense -----------------------------------------------------------------------------------

RUBBISH = {
    "nothing": b"",
    "half a version": b"\0",
    "a version from the future": pack(">hi", 32_000, 2**31 - 1),
    "a negative count of topics": pack(">hi", 0, -7),
    "more topics than there are bytes": pack(">hi", 1, 2**31 - 1),
    "a topic longer than the rest": pack(">hih", 0, 1, 32_767) + b"t",
    "text that is no text": pack(">hih", 0, 1, 2) + b"\xff\xfe",
    "zeros": bytes(1000),
}


@pytest.mark.parametrize("metadata", RUBBISH.values(), ids=RUBBISH)
async def test_metadata_that_nobody_can_read_is_carried_as_it_is(
    running: Running, metadata: bytes
) -> None:
    """It is between the members: the group works, can be looked at, and may be committed for."""
    member = await joined(running, metadata)
    described = await running.ask(DescribeGroupsRequest(groups=["g"]), DescribeGroupsResponse)
    (group,) = described.groups
    assert (group.group_state, bytes(group.members[0].member_metadata)) == ("Stable", metadata)
    request = commit(generation=member.generation_id, member=member.member_id)
    answer = await running.ask(request, OffsetCommitResponse, 9)
    assert answer.topics[0].partitions[0].error_code == Code.NONE
    running.log.seek(0)
    assert "Traceback" not in running.log.read()


async def test_words_from_nowhere_are_answered_with_codes(running: Running) -> None:
    beat = HeartbeatRequest(group_id="nobody", generation_id=-(2**31), member_id="x" * 30_000)
    assert (await running.ask(beat, HeartbeatResponse)).error_code == Code.UNKNOWN_MEMBER_ID
    unnamed = HeartbeatRequest(group_id="", generation_id=0, member_id="")
    assert (await running.ask(unnamed, HeartbeatResponse)).error_code == Code.INVALID_GROUP_ID
    sync = sync_request("nobody", "", -1)
    assert (await running.ask(sync, SyncGroupResponse)).error_code == Code.UNKNOWN_MEMBER_ID
    leave = LeaveGroupRequest(group_id="nobody", members=[MemberIdentity(member_id="x")] * 3)
    left = await running.ask(leave, LeaveGroupResponse)
    assert {member.error_code for member in left.members} == {Code.UNKNOWN_MEMBER_ID}
    stranger = join_request(member="never-given-out")
    answer = await running.ask(stranger, JoinGroupResponse, NAMED)
    assert answer.error_code == Code.UNKNOWN_MEMBER_ID
    epoch = ConsumerGroupHeartbeatRequest(
        group_id="nobody", member_id="x", member_epoch=7, rebalance_timeout_ms=-1
    )
    new = await running.ask(epoch, ConsumerGroupHeartbeatResponse)
    assert new.error_code == Code.GROUP_ID_NOT_FOUND
    assert (await running.ask(ListGroupsRequest(), ListGroupsResponse)).groups == []


@pytest.mark.parametrize("generation", [-(2**31), -2, 0, 2, 2**31 - 1])
async def test_a_generation_that_is_not_the_groups_is_refused_everywhere(
    running: Running, generation: int
) -> None:
    member = (await joined(running)).member_id
    beat = HeartbeatRequest(group_id="g", generation_id=generation, member_id=member)
    assert (await running.ask(beat, HeartbeatResponse)).error_code == Code.ILLEGAL_GENERATION
    sync = sync_request("g", member, generation)
    assert (await running.ask(sync, SyncGroupResponse)).error_code == Code.ILLEGAL_GENERATION
    request = commit(generation=generation, member=member)
    answer = await running.ask(request, OffsetCommitResponse, 9)
    assert answer.topics[0].partitions[0].error_code == Code.ILLEGAL_GENERATION


@pytest.mark.parametrize("session_ms", [-(2**31), -1, 0, 1, 5_999, 1_800_001, 2**31 - 1])
async def test_an_absurd_session_timeout_is_refused(running: Running, session_ms: int) -> None:
    answer = await running.ask(join_request(session_ms=session_ms), JoinGroupResponse, DIRECT)
    assert answer.error_code == Code.INVALID_SESSION_TIMEOUT


@pytest.mark.parametrize("rebalance_ms", [-(2**31), -1, 0, 2**31 - 1])
async def test_an_absurd_rebalance_timeout_leaves_a_group_that_works(
    running: Running, rebalance_ms: int
) -> None:
    first = await running.ask(join_request(rebalance_ms=rebalance_ms), JoinGroupResponse, DIRECT)
    assert first.error_code == Code.NONE
    leave = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=first.member_id)])
    left = await running.ask(leave, LeaveGroupResponse)
    # Who gives itself no time at all to sync may have been given up already.
    assert left.members[0].error_code in (Code.NONE, Code.UNKNOWN_MEMBER_ID)
    await joined(running)


async def test_a_group_without_protocols_or_without_a_type_is_refused(running: Running) -> None:
    for request in (join_request(protocols=()), join_request(kind="")):
        answer = await running.ask(request, JoinGroupResponse, DIRECT)
        assert answer.error_code == Code.INCONSISTENT_GROUP_PROTOCOL


async def test_a_partition_that_does_not_exist_fails_alone(running: Running) -> None:
    request = commit(partitions=(0, 2, -1, 2**31 - 1, 1))
    answer = await running.ask(request, OffsetCommitResponse, 9)
    (topic,) = answer.topics
    assert {each.partition_index: each.error_code for each in topic.partitions} == {
        0: Code.NONE,
        1: Code.NONE,
        2: Code.UNKNOWN_TOPIC_OR_PARTITION,
        -1: Code.UNKNOWN_TOPIC_OR_PARTITION,
        2**31 - 1: Code.UNKNOWN_TOPIC_OR_PARTITION,
    }


# --- too much -----------------------------------------------------------------------------------


async def test_ten_megabytes_of_metadata_are_refused(running: Running) -> None:
    large = join_request(metadata=bytes(10 * MIB))
    answer = await running.ask(large, JoinGroupResponse, DIRECT)
    assert answer.error_code == Code.INVALID_REQUEST
    many = join_request(metadata=bytes(100_000), protocols=map(str, range(100)))
    answer = await running.ask(many, JoinGroupResponse, DIRECT)
    assert answer.error_code == Code.INVALID_REQUEST
    assert (await running.ask(ListGroupsRequest(), ListGroupsResponse)).groups == []
    await joined(running)


async def test_all_members_together_may_bring_only_so_much(running: Running) -> None:
    """Newcomers are sent away, those who are in stay in, and who leaves makes room."""
    room = coordination(running).shards()[0].limits.memory
    room.bytes_max = 3_000_000
    members = []
    for number in range(4):
        request = join_request(f"group-{number}", metadata=bytes(900_000))
        members.append(await running.ask(request, JoinGroupResponse, DIRECT))
    assert [member.error_code for member in members] == [0, 0, 0, Code.COORDINATOR_NOT_AVAILABLE]
    assert room.used == 3 * (900_000 + MEMBER_BYTES)
    again = join_request("group-0", members[0].member_id, metadata=bytes(900_000))
    assert (await running.ask(again, JoinGroupResponse, DIRECT)).error_code == Code.NONE
    gone = [MemberIdentity(member_id=members[1].member_id)]
    await running.ask(LeaveGroupRequest(group_id="group-1", members=gone), LeaveGroupResponse)
    assert room.used == 2 * (900_000 + MEMBER_BYTES)
    await joined(running, bytes(900_000), "group-3")


async def test_names_given_out_to_nobody_take_up_room_until_they_expire(running: Running) -> None:
    room = coordination(running).shards()[0].limits.memory
    room.bytes_max = 50 * MEMBER_BYTES
    codes = []
    for number in range(60):
        answer = await running.ask(join_request(f"group-{number}"), JoinGroupResponse, NAMED)
        codes.append(answer.error_code)
    assert codes == [Code.MEMBER_ID_REQUIRED] * 50 + [Code.COORDINATOR_NOT_AVAILABLE] * 10
    now = coordination(running).now()
    coordination(running).runtime.expire(Now(now.ms + 30_001, now.wall_ms))
    assert room.used == 0
    assert [list(shard.groups()) for shard in coordination(running).shards()] == [[]] * 4


async def test_a_clock_that_jumps_expires_sessions_and_nothing_else(running: Running) -> None:
    member = await joined(running)
    request = commit(generation=member.generation_id, member=member.member_id)
    await running.ask(request, OffsetCommitResponse, 9)
    now = coordination(running).now()
    far = Now(now.ms + 10**12, now.wall_ms - 10**12)
    runtime = coordination(running).runtime
    runtime.expire(far)
    beat = HeartbeatRequest(
        group_id="g", generation_id=member.generation_id, member_id=member.member_id
    )
    assert (await running.ask(beat, HeartbeatResponse)).error_code == Code.UNKNOWN_MEMBER_ID
    assert coordination(running).shard_of("g").offsets.count("g") == 1
    assert (await joined(running)).generation_id > member.generation_id


def _ask(client: RawClient, request: ProtocolMessage, version: int) -> ProtocolMessage:
    return client.call(request, version, APIS[request.api_key].response)


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[RawClient]:
    with RawClient(broker.host, broker.port) as connected:
        found = FindCoordinatorRequest(coordinator_keys=["g"])
        _ask(connected, found, 4)
        yield connected


def test_thousands_of_groups_cost_little_each(
    broker: BrokerProcess, client: RawClient, topic: str
) -> None:
    assert client.create_topic(topic) == 0
    _ask(client, commit("group-of-one", topic=topic), 9)
    before = memory(broker)
    for first in range(0, 5_000, 100):
        for number in range(first, first + 100):
            client.begin(commit(f"group-{number}", topic=topic), 9)
            client.begin(join_request(f"named-{number}", session_ms=6_000), NAMED)
        for _ in range(200):
            client.receive()
    assert memory(broker) - before < 60 * MIB
    listed = client.call(ListGroupsRequest(), 4, ListGroupsResponse)
    assert len(listed.groups) >= 5_000


def test_members_with_megabytes_of_metadata_do_not_fill_the_memory(
    broker: BrokerProcess, client: RawClient
) -> None:
    """Half a gigabyte is brought along: what is not refused at once is bounded by the room."""
    before = memory(broker)
    codes = []
    for number in range(50):
        request = join_request(f"large-{number}", metadata=bytes(10 * MIB))
        codes.append(client.call(request, DIRECT, JoinGroupResponse).error_code)
    assert set(codes) == {Code.INVALID_REQUEST}
    assert memory(broker) - before < 60 * MIB


def test_group_names_as_long_as_can_be_are_not_kept(
    broker: BrokerProcess, client: RawClient
) -> None:
    before = memory(broker)
    for first in range(0, 2_000, 50):
        for number in range(first, first + 50):
            name = f"{number}-".ljust(32_000, "x")
            client.begin(HeartbeatRequest(group_id=name, generation_id=1, member_id="m"), 4)
        for _ in range(50):
            client.receive()
    assert memory(broker) - before < 30 * MIB


@pytest.mark.parametrize("version", [DIRECT, 5, NAMED])
async def test_a_client_too_long_for_the_name_of_a_member_is_refused(
    running: Running, version: int
) -> None:
    """A member is named after its client, or its instance id."""
    key = JoinGroupRequest.api_key
    wire = running.connect()
    wire.put(request_frame(key, version, 1, "c" * 32_767, join_request()))
    _, answer = read_response(await wire.take(), key, version)
    assert isinstance(answer, JoinGroupResponse)
    assert answer.error_code == Code.INVALID_REQUEST
    if version >= 5:
        request = join_request(instance="é" * 16_383)
        refused = await running.ask(request, JoinGroupResponse, version)
        assert refused.error_code == Code.INVALID_REQUEST


async def test_an_answer_that_cannot_be_encoded_costs_one_connection_and_no_other_answer(
    running: Running,
) -> None:
    wires = [running.connect(), running.connect()]
    laters: list[DeferredReply[ProtocolMessage]] = [DeferredReply(), DeferredReply()]
    dispatcher = running.broker.dispatcher
    for wire, deferred in zip(wires, laters, strict=True):
        connection = next(each for each in running.broker.connections if each._stream is wire)
        key, version = HeartbeatRequest.api_key, 4
        beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
        header = read_request_header(memoryview(request_frame(key, version, 1, "c", beat)[4:]))
        framed = dispatcher._framed(deferred, connection, header)
        framed.then(lambda parts, wire=wire: wire.send(parts))  # type: ignore[misc]
    bad = HeartbeatResponse(error_code=1 << 40)
    good = HeartbeatResponse(error_code=0)
    coordination(running).led.deliver([ShardReply(laters[0], bad), ShardReply(laters[1], good)])
    assert wires[0].closed
    assert await wires[1].take()
    assert "request failed" in running.log.getvalue()


async def test_an_answer_that_fails_does_not_stop_the_others(running: Running) -> None:
    told: list[ProtocolMessage] = []
    bad: DeferredReply[ProtocolMessage] = DeferredReply()
    good: DeferredReply[ProtocolMessage] = DeferredReply()
    bad.then(lambda _: told[7])  # type: ignore[arg-type]
    good.then(told.append)
    answer = HeartbeatResponse(error_code=0)
    coordination(running).led.deliver([ShardReply(bad, answer), ShardReply(good, answer)])
    assert told == [answer]
    assert "work on groups failed" in running.log.getvalue()


async def test_a_member_that_is_in_cannot_bring_more_than_there_is_room_for(
    running: Running,
) -> None:
    room = coordination(running).shards()[0].limits.memory
    room.bytes_max = 500_000
    joined = await running.ask(join_request(metadata=b"x"), JoinGroupResponse, DIRECT)
    member = joined.member_id
    assert not joined.error_code
    larger = join_request(member=member, metadata=bytes(900_000))
    refused = await running.ask(larger, JoinGroupResponse, DIRECT)
    assert refused.error_code == Code.COORDINATOR_NOT_AVAILABLE
    room.bytes_max = room.used
    again = await running.ask(join_request(member=member, metadata=b"y"), JoinGroupResponse, DIRECT)
    assert not again.error_code


async def test_long_names_weigh_as_metadata_does(running: Running) -> None:
    room = coordination(running).shards()[0].limits.memory
    await running.ask(join_request(instance="i" * 30_000), JoinGroupResponse, NAMED)
    assert room.used > 60_000  # the instance id, and the member id that was made from it
    key = JoinGroupRequest.api_key
    before = room.used
    wire = running.connect()
    wire.put(request_frame(key, NAMED, 1, "c" * 30_000, join_request(group="other" * 1_000)))
    _, answer = read_response(await wire.take(), key, NAMED)
    assert isinstance(answer, JoinGroupResponse)
    assert answer.error_code == Code.MEMBER_ID_REQUIRED
    assert room.used > before + 34_000
    leaving = MemberIdentity(member_id=answer.member_id)
    leave = LeaveGroupRequest(group_id="other" * 1_000, members=[leaving])
    await running.ask(leave, LeaveGroupResponse)
    assert room.used == before


async def test_groups_that_were_read_back_weigh_what_they_did(tmp_path: Path) -> None:
    keeper = MemoryKeeper()
    async with running_broker(tmp_path, AT_ONCE, keeper) as running:
        await running.ask(FindCoordinatorRequest(coordinator_keys=["g"]), FindCoordinatorResponse)
        joined = await running.ask(join_request(metadata=bytes(90_000)), JoinGroupResponse, DIRECT)
        sync = sync_request("g", joined.member_id, joined.generation_id)
        assert not (await running.ask(sync, SyncGroupResponse)).error_code
        used = coordination(running).shards()[0].limits.memory.used
        assert used >= 90_000
    async with running_broker(tmp_path, AT_ONCE, keeper) as running:
        await running.ask(FindCoordinatorRequest(coordinator_keys=["g"]), FindCoordinatorResponse)
        assert coordination(running).shards()[0].limits.memory.used == used

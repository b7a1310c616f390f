"""Every version of every request about groups, asked of a real broker by a bare socket."""

from collections.abc import Iterator
from functools import partial
from uuid import UUID, uuid4

import pytest

from barnabas.model.errors import Code
from barnabas.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.join_group import JoinGroupResponse
from barnabas.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from barnabas.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from barnabas.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from barnabas.wire.messages.sync_group import SyncGroupResponse
from tests import group_requests
from tests.conftest import broker_with
from tests.group_requests import sync_request
from tests.process import BrokerProcess
from tests.raw import RawClient

pytestmark = pytest.mark.slow

OPTIONS = {"group.initial.rebalance.delay.ms": "0"}
join_request = partial(group_requests.join_request, kind="test", protocols=["p"])
broker = broker_with(OPTIONS)


@pytest.fixture
def raw(broker: BrokerProcess) -> Iterator[RawClient]:
    with RawClient(broker.host, broker.port) as client:
        find(client, "any", 3)
        yield client


def find(raw: RawClient, key: str, version: int, key_type: int = 0) -> tuple[int, int, str, int]:
    if version >= 4:
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        (one,) = raw.call(request, version, FindCoordinatorResponse).coordinators
        assert one.key == key
        return one.error_code, one.node_id, one.host, one.port
    request = FindCoordinatorRequest(key=key, key_type=key_type)
    answer = raw.call(request, version, FindCoordinatorResponse)
    return answer.error_code, answer.node_id, answer.host, answer.port


def join(
    raw: RawClient, group: str, version: int, member: str = "", metadata: bytes = b"m"
) -> JoinGroupResponse:
    request = join_request(
        group,
        member,
        metadata,
        session_ms=10_000,
        rebalance_ms=10_000 if version >= 1 else -1,
    )
    return raw.call(request, version, JoinGroupResponse)


def joined(raw: RawClient, group: str, version: int = 9) -> JoinGroupResponse:
    """A group of one, before its sync."""
    answer = join(raw, group, version)
    if answer.error_code == Code.MEMBER_ID_REQUIRED:
        answer = join(raw, group, version, answer.member_id)
    assert answer.error_code == 0
    return answer


def sync(raw: RawClient, group: str, of: JoinGroupResponse, version: int = 5) -> SyncGroupResponse:
    request = sync_request(group, of.member_id, of.generation_id, {of.member_id: b"share"})
    return raw.call(request, version, SyncGroupResponse)


def committed_topic(topic: str, id_: UUID, version: int, offset: int) -> OffsetCommitRequestTopic:
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata="said"
    )
    if version >= 10:
        return OffsetCommitRequestTopic(topic_id=id_, partitions=[partition])
    return OffsetCommitRequestTopic(name=topic, partitions=[partition])


def topic_id(raw: RawClient, topic: str) -> UUID:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    return raw.call(request, 12, MetadataResponse).topics[0].topic_id


@pytest.mark.parametrize("version", range(7))
def test_any_group_is_coordinated_here(broker: BrokerProcess, raw: RawClient, version: int) -> None:
    code, node, host, port = find(raw, "some group", version)
    assert (code, node, host, port) == (0, 1, broker.host, broker.port)


@pytest.mark.parametrize("version", [3, 6])
def test_coordinators_of_transactions_are_found_and_of_unknown_kinds_refused(
    broker: BrokerProcess, raw: RawClient, version: int
) -> None:
    assert find(raw, "tx", version, key_type=1) == (0, 1, broker.host, broker.port)
    assert find(raw, "what", version, key_type=9)[0] == Code.INVALID_REQUEST


@pytest.mark.parametrize("version", range(10))
def test_a_member_joins_in_every_version(raw: RawClient, topic: str, version: int) -> None:
    answer = joined(raw, topic, version)
    assert (answer.generation_id, answer.protocol_name) == (1, "p")
    assert answer.leader == answer.member_id
    assert [member.metadata for member in answer.members] == [b"m"]
    assert answer.protocol_type == ("test" if version >= 7 else None)


@pytest.mark.parametrize("version", range(6))
def test_a_member_gets_its_share_in_every_version(raw: RawClient, topic: str, version: int) -> None:
    answer = sync(raw, topic, joined(raw, topic), version)
    assert (answer.error_code, answer.assignment) == (0, b"share")


@pytest.mark.parametrize("version", range(5))
def test_a_member_lives_in_every_version(raw: RawClient, topic: str, version: int) -> None:
    member = joined(raw, topic)
    for generation, code in ((member.generation_id, Code.NONE), (99, Code.ILLEGAL_GENERATION)):
        request = HeartbeatRequest(
            group_id=topic, generation_id=generation, member_id=member.member_id
        )
        assert raw.call(request, version, HeartbeatResponse).error_code == code


@pytest.mark.parametrize("version", range(6))
def test_a_member_leaves_in_every_version(raw: RawClient, topic: str, version: int) -> None:
    member = joined(raw, topic).member_id
    if version < 3:
        request = LeaveGroupRequest(group_id=topic, member_id=member)
    else:
        request = LeaveGroupRequest(group_id=topic, members=[MemberIdentity(member_id=member)])
    assert raw.call(request, version, LeaveGroupResponse).error_code == 0
    again = raw.call(request, version, LeaveGroupResponse)
    code = again.error_code if version < 3 else again.members[0].error_code
    assert code == Code.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", range(2, 11))
def test_offsets_are_committed_in_every_version(raw: RawClient, topic: str, version: int) -> None:
    raw.create_topic(topic)
    id_ = topic_id(raw, topic)
    missing = committed_topic("missing", uuid4(), version, 1)
    request = OffsetCommitRequest(
        group_id=topic,
        member_id="",
        topics=[committed_topic(topic, id_, version, 42), missing],
    )
    answer = raw.call(request, version, OffsetCommitResponse)
    unknown = Code.UNKNOWN_TOPIC_ID if version >= 10 else Code.UNKNOWN_TOPIC_OR_PARTITION
    assert [each.partitions[0].error_code for each in answer.topics] == [0, unknown]
    fetched = fetch(raw, topic, topic, id_, 9)
    assert fetched == [(0, 42, "said", 0), (1, -1, "", 0)]


def fetch(
    raw: RawClient, group: str, topic: str, id_: UUID, version: int
) -> list[tuple[int, int, str | None, int]]:
    if version < 8:
        request = OffsetFetchRequest(
            group_id=group,
            topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[0, 1])],
        )
        answer = raw.call(request, version, OffsetFetchResponse)
        assert answer.error_code == 0
        old = answer.topics[0].partitions
        return [
            (each.partition_index, each.committed_offset, each.metadata, each.error_code)
            for each in old
        ]
    wanted = OffsetFetchRequestTopics(partition_indexes=[0, 1], name=topic)
    if version >= 10:
        wanted = OffsetFetchRequestTopics(partition_indexes=[0, 1], topic_id=id_)
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=[wanted])])
    (found,) = raw.call(request, version, OffsetFetchResponse).groups
    assert (found.group_id, found.error_code) == (group, 0)
    return [
        (each.partition_index, each.committed_offset, each.metadata, each.error_code)
        for each in found.topics[0].partitions
    ]


@pytest.mark.parametrize("version", range(1, 11))
def test_offsets_are_returned_in_every_version(raw: RawClient, topic: str, version: int) -> None:
    raw.create_topic(topic)
    id_ = topic_id(raw, topic)
    request = OffsetCommitRequest(
        group_id=topic, member_id="", topics=[committed_topic(topic, id_, 9, 7)]
    )
    raw.call(request, 9, OffsetCommitResponse)
    assert fetch(raw, topic, topic, id_, version) == [(0, 7, "said", 0), (1, -1, "", 0)]
    if version >= 8:
        everything = OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(group_id=topic, topics=None),
                OffsetFetchRequestGroup(group_id="no such group", topics=None),
            ]
        )
        known, unknown = raw.call(everything, version, OffsetFetchResponse).groups
        assert [each.partitions[0].committed_offset for each in known.topics] == [7]
        assert known.topics[0].topic_id.int == (id_.int if version >= 10 else 0)
        assert (unknown.topics, unknown.error_code) == ([], 0)
    elif version >= 2:
        everything = OffsetFetchRequest(group_id=topic, topics=None)
        answer = raw.call(everything, version, OffsetFetchResponse)
        assert [each.name for each in answer.topics] == [topic]


def test_a_topic_id_that_nobody_has_is_an_error_of_its_own(raw: RawClient, topic: str) -> None:
    assert fetch(raw, topic, topic, uuid4(), 10) == [
        (0, -1, "", Code.UNKNOWN_TOPIC_ID),
        (1, -1, "", Code.UNKNOWN_TOPIC_ID),
    ]


@pytest.mark.parametrize("version", range(7))
def test_groups_are_described_in_every_version(raw: RawClient, topic: str, version: int) -> None:
    member = joined(raw, topic)
    sync(raw, topic, member)
    request = DescribeGroupsRequest(
        groups=[topic, "nobody"], include_authorized_operations=version >= 3
    )
    found, missing = raw.call(request, version, DescribeGroupsResponse).groups
    assert (found.error_code, found.group_state, found.protocol_data) == (0, "Stable", "p")
    (described,) = found.members
    assert (described.member_id, described.client_id) == (member.member_id, "raw")
    assert (described.member_metadata, described.member_assignment) == (b"m", b"share")
    code = Code.GROUP_ID_NOT_FOUND if version >= 6 else Code.NONE
    assert (missing.error_code, missing.group_state) == (code, "Dead")
    assert (found.authorized_operations > 0) == (version >= 3)


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed_in_every_version(raw: RawClient, topic: str, version: int) -> None:
    joined(raw, topic)
    listed = raw.call(ListGroupsRequest(), version, ListGroupsResponse)
    (ours,) = [each for each in listed.groups if each.group_id == topic]
    assert ours.protocol_type == "test"
    assert ours.group_state == ("CompletingRebalance" if version >= 4 else "")
    assert ours.group_type == ("classic" if version >= 5 else "")
    if version >= 4:
        request = ListGroupsRequest(states_filter=["completingrebalance"])
        groups = raw.call(request, version, ListGroupsResponse).groups
        assert topic in [each.group_id for each in groups]
        request = ListGroupsRequest(states_filter=["Stable"])
        groups = raw.call(request, version, ListGroupsResponse).groups
        assert topic not in [each.group_id for each in groups]
    if version >= 5:
        request = ListGroupsRequest(types_filter=["consumer"])
        assert raw.call(request, version, ListGroupsResponse).groups == []


@pytest.mark.parametrize("version", range(3))
def test_groups_are_deleted_in_every_version(raw: RawClient, topic: str, version: int) -> None:
    joined(raw, f"{topic}-busy")
    raw.create_topic(topic)
    raw.call(
        OffsetCommitRequest(
            group_id=topic, member_id="", topics=[committed_topic(topic, uuid4(), 9, 7)]
        ),
        9,
        OffsetCommitResponse,
    )
    request = DeleteGroupsRequest(groups_names=[topic, f"{topic}-busy", "nobody"])
    results = raw.call(request, version, DeleteGroupsResponse).results
    assert [each.error_code for each in results] == [
        Code.NONE,
        Code.NON_EMPTY_GROUP,
        Code.GROUP_ID_NOT_FOUND,
    ]


def test_offsets_are_deleted_topic_by_topic(raw: RawClient, topic: str) -> None:
    raw.create_topic(topic)
    raw.call(
        OffsetCommitRequest(
            group_id=topic, member_id="", topics=[committed_topic(topic, uuid4(), 9, 7)]
        ),
        9,
        OffsetCommitResponse,
    )
    partition = OffsetDeleteRequestPartition(partition_index=0)
    request = OffsetDeleteRequest(
        group_id=topic,
        topics=[
            OffsetDeleteRequestTopic(name=name, partitions=[partition])
            for name in (topic, "missing")
        ],
    )
    answer = raw.call(request, 0, OffsetDeleteResponse)
    assert [each.partitions[0].error_code for each in answer.topics] == [
        Code.NONE,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
    ]


def test_ten_megabytes_of_metadata_are_refused(raw: RawClient, topic: str) -> None:
    assert join(raw, topic, 9, metadata=bytes(10_000_000)).error_code == Code.INVALID_REQUEST
    assert joined(raw, topic).error_code == 0


def test_members_that_hang_up_while_they_wait_hold_nobody_up_for_ever(
    broker: BrokerProcess, raw: RawClient, topic: str
) -> None:
    """A waiting join whose connection is gone is answered into nothing."""
    first = joined(raw, topic)
    sync(raw, topic, first)
    with RawClient(broker.host, broker.port) as other:
        promised = join(other, topic, 9).member_id
        other.begin(
            join_request(topic, promised, b"m", session_ms=6_000, rebalance_ms=6_000),
            9,
        )
    again = join(raw, topic, 9, first.member_id)
    assert (again.error_code, again.generation_id) == (0, 2)
    assert len(again.members) == 2


def test_thousands_of_groups_do_no_harm(raw: RawClient, topic: str) -> None:
    raw.create_topic(topic)
    for number in range(3_000):
        request = OffsetCommitRequest(
            group_id=f"{topic}-{number}",
            member_id="",
            topics=[committed_topic(topic, uuid4(), 9, number)],
        )
        raw.begin(request, 9)
        if number % 100 == 99:
            for _ in range(100):
                raw.receive()
    listed = raw.call(ListGroupsRequest(), 5, ListGroupsResponse)
    assert sum(each.group_id.startswith(f"{topic}-") for each in listed.groups) == 3_000


def test_a_broker_whose_offsets_topic_was_deleted_starts_afresh(
    broker: BrokerProcess, raw: RawClient, topic: str
) -> None:
    raw.create_topic(topic)
    commit = OffsetCommitRequest(
        group_id=topic, member_id="", topics=[committed_topic(topic, uuid4(), 9, 7)]
    )
    raw.call(commit, 9, OffsetCommitResponse)
    request = DeleteTopicsRequest(topic_names=["__consumer_offsets"], timeout_ms=10_000)
    deleted = raw.call(request, 5, DeleteTopicsResponse)
    assert deleted.responses[0].error_code == 0
    find(raw, topic, 3)
    assert fetch(raw, topic, topic, uuid4(), 9)[0] == (0, -1, "", 0)
    answer = raw.call(commit, 9, OffsetCommitResponse)
    assert answer.topics[0].partitions[0].error_code == 0
    assert fetch(raw, topic, topic, uuid4(), 9)[0] == (0, 7, "said", 0)

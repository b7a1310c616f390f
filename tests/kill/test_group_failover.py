"""A coordinator that dies at each stage of a rebalance, and comes back on the same data.

Always: the generation whose shares were written is in force, with the same members and shares; who
is of any other is told to rejoin; a commit that was answered is there. The stages are those at
which the old coordinator may have died: joining, joined but not synced, synced but nobody told,
stable, committing.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack

import pytest

from barnabas.model.errors import Code
from barnabas.wire.apis import APIS
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.frames import read_response
from barnabas.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from barnabas.wire.messages.offset_fetch import OffsetFetchResponse
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.conftest import StartBroker
from tests.group_requests import commit_request, committed_request, join_request, sync_request
from tests.process import BrokerProcess
from tests.raw import RawClient
from tests.waiting import until

SESSION_MS = 600_000  # however long the broker takes to come back, nobody expires
OPTIONS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.max.session.timeout.ms": str(SESSION_MS),
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "offsets.topic.num.partitions": "3",
}
JOIN, SYNC, HEARTBEAT, COMMIT, FETCH = 3, 3, 4, 8, 8  # versions
LOADING = Code.COORDINATOR_LOAD_IN_PROGRESS


class Member:
    """One member on a connection of its own."""

    def __init__(self, broker: BrokerProcess, name: str) -> None:
        self.name = name
        self._broker = broker
        self.id = ""
        self.generation = -1
        self.connect()

    def connect(self) -> None:
        self.client = RawClient(self._broker.host, self._broker.port)

    def close(self) -> None:
        self.client.close()

    def begin_join(self) -> None:
        request = join_request(
            "g", self.id, self.name.encode(), session_ms=SESSION_MS, rebalance_ms=SESSION_MS
        )
        self.client.begin(request, JOIN)

    def joined(self) -> JoinGroupResponse:
        answer = self._answer(JoinGroupRequest, JOIN)
        assert isinstance(answer, JoinGroupResponse)
        assert answer.error_code == Code.NONE
        self.id, self.generation = answer.member_id, answer.generation_id
        return answer

    def begin_sync(self, shares: Mapping[str, bytes] = {}) -> None:
        self.client.begin(sync_request("g", self.id, self.generation, shares), SYNC)

    def synced(self) -> bytes:
        answer = self._answer(SyncGroupRequest, SYNC)
        assert isinstance(answer, SyncGroupResponse)
        assert answer.error_code == Code.NONE
        return bytes(answer.assignment)

    def share(self) -> bytes:
        self.begin_sync()
        return self.synced()

    def _answer(self, request: type[ProtocolMessage], version: int) -> ProtocolMessage:
        return read_response(self.client.receive(), request.api_key, version)[1]

    def heartbeat(self) -> int:
        request = HeartbeatRequest(group_id="g", generation_id=self.generation, member_id=self.id)
        return self.client.call(request, HEARTBEAT, HeartbeatResponse).error_code

    def commit_request(self, offset: int) -> OffsetCommitRequest:
        return commit_request("g", {0: offset}, member=self.id, generation=self.generation)

    def commit(self, offset: int) -> int:
        request = self.commit_request(offset)
        answer = self.client.call(request, COMMIT, OffsetCommitResponse)
        return answer.topics[0].partitions[0].error_code


class Scene:
    """A group of two, stable in its second generation, with an offset committed."""

    def __init__(self, broker: BrokerProcess, opened: ExitStack) -> None:
        self.broker = broker
        self._opened = opened
        with RawClient(broker.host, broker.port) as client:
            assert client.create_topic("t", 2) == 0
            found = FindCoordinatorRequest(coordinator_keys=["g"])
            client.call(found, 4, FindCoordinatorResponse)
        self.one = self.member("one")
        self.two = self.member("two")
        self.one.begin_join()
        self.one.joined()  # alone, in the first generation
        self.two.begin_join()
        until(lambda: self.one.heartbeat() == Code.REBALANCE_IN_PROGRESS, self.describe)
        self.rebalance([self.one, self.two])
        assert self.one.commit(10) == Code.NONE

    def member(self, name: str) -> Member:
        made = Member(self.broker, name)
        self._opened.callback(made.close)
        return made

    def rebalance(self, members: list[Member]) -> None:
        """The first leads, and joins last; the others wait already."""
        self.join(members)
        leader, *others = members
        for member in others:
            member.begin_sync()
        leader.begin_sync({member.id: member.name.encode() for member in members})
        assert [member.synced() for member in members] == [m.name.encode() for m in members]

    def join(self, members: list[Member]) -> None:
        members[0].begin_join()
        answers = [member.joined() for member in members]
        assert {answer.leader for answer in answers} == {members[0].id}
        assert len(answers[0].members) == len(members)

    def describe(self) -> DescribeGroupsResponse:
        with RawClient(self.broker.host, self.broker.port) as client:
            request = DescribeGroupsRequest(groups=["g"])
            return client.call(request, 5, DescribeGroupsResponse)

    def state(self) -> tuple[str, dict[str, bytes]]:
        (group,) = self.describe().groups
        shares = {member.member_id: bytes(member.member_assignment) for member in group.members}
        return group.group_state, shares

    def fail_over(self, *members: Member) -> None:
        """Killed, and back: with the group read from the log."""
        self.broker.kill()
        self.broker.start()
        until(lambda: self.describe().groups[0].error_code != LOADING, self.describe)
        for member in members:
            member.client.close()
            member.connect()

    def committed(self) -> int:
        with RawClient(self.broker.host, self.broker.port) as client:
            (answer,) = client.call(committed_request("g"), FETCH, OffsetFetchResponse).groups
        assert answer.error_code == Code.NONE
        return answer.topics[0].partitions[0].committed_offset


@pytest.fixture
def scene(start_broker: StartBroker) -> Iterator[Scene]:
    with ExitStack() as opened:
        made = Scene(start_broker(OPTIONS), opened)
        yield made
        made.broker.check_log()


def test_it_dies_while_members_join(scene: Scene) -> None:
    """The old generation goes on; the newcomer is nobody, and starts over."""
    one, two = scene.one, scene.two
    three = scene.member("three")
    three.begin_join()
    until(lambda: two.heartbeat() == Code.REBALANCE_IN_PROGRESS, scene.describe)
    one.begin_join()
    scene.fail_over(one, two, three)
    assert scene.state() == ("Stable", {one.id: b"one", two.id: b"two"})
    assert (one.heartbeat(), two.heartbeat()) == (Code.NONE, Code.NONE)
    assert (one.share(), two.share()) == (b"one", b"two")
    assert scene.committed() == 10
    three.begin_join()
    until(lambda: two.heartbeat() == Code.REBALANCE_IN_PROGRESS, scene.describe)
    two.begin_join()
    scene.rebalance([one, two, three])
    assert (one.generation, two.generation, three.generation) == (3, 3, 3)


def test_it_dies_after_the_join_and_before_the_sync(scene: Scene) -> None:
    """Nobody owned anything in the generation that is gone: its members are told to rejoin."""
    one, two = scene.one, scene.two
    three = scene.member("three")
    three.begin_join()
    until(lambda: two.heartbeat() == Code.REBALANCE_IN_PROGRESS, scene.describe)
    two.begin_join()
    scene.join([one, two, three])
    assert one.generation == 3
    two.begin_sync()
    scene.fail_over(one, two, three)
    assert scene.state() == ("Stable", {one.id: b"one", two.id: b"two"})
    assert one.heartbeat() == Code.ILLEGAL_GENERATION
    assert two.heartbeat() == Code.ILLEGAL_GENERATION
    assert three.heartbeat() == Code.UNKNOWN_MEMBER_ID
    assert one.commit(20) == Code.ILLEGAL_GENERATION
    assert three.commit(20) == Code.UNKNOWN_MEMBER_ID
    assert scene.committed() == 10
    three.id = ""
    three.begin_join()
    one.generation = two.generation = 2
    until(lambda: two.heartbeat() == Code.REBALANCE_IN_PROGRESS, scene.describe)
    two.begin_join()
    scene.rebalance([one, two, three])


def test_it_dies_after_the_sync_and_before_the_replies(scene: Scene) -> None:
    """The assignments are written: a member that asks again gets its own, in this generation."""
    one, two = scene.one, scene.two
    three = scene.member("three")
    three.begin_join()
    until(lambda: two.heartbeat() == Code.REBALANCE_IN_PROGRESS, scene.describe)
    two.begin_join()
    scene.join([one, two, three])
    shares = {member.id: f"new {member.name}".encode() for member in (one, two, three)}
    two.begin_sync()
    one.begin_sync(shares)
    until(lambda: scene.state()[0] == "Stable", scene.describe)
    scene.fail_over(one, two, three)  # none of them has read its answer
    assert scene.state() == ("Stable", shares)
    for member in (one, two, three):
        assert member.heartbeat() == Code.NONE
        assert member.share() == shares[member.id]
        assert member.generation == 3
    assert scene.committed() == 10
    assert three.commit(30) == Code.NONE


def test_it_dies_in_a_stable_group(scene: Scene) -> None:
    """Nobody notices: the same members, the same generation, the same shares."""
    one, two = scene.one, scene.two
    before = scene.state()
    for _ in range(2):
        scene.fail_over(one, two)
        assert scene.state() == before == ("Stable", {one.id: b"one", two.id: b"two"})
        for member in (one, two):
            assert member.heartbeat() == Code.NONE
            assert member.share() == member.name.encode()
        assert scene.committed() == 10
    assert two.commit(11) == Code.NONE
    assert scene.committed() == 11


def test_it_dies_while_a_member_commits(scene: Scene) -> None:
    """What was answered is there; of what was not, at most what had been sent."""
    one, two = scene.one, scene.two
    answered = 10
    for _ in range(3):
        first, last = answered + 1, answered + 400
        for offset in range(first, last + 1):
            one.client.begin(one.commit_request(offset), COMMIT)
        for _ in range(100):
            reply = one.client.receive()
            answer = read_response(reply, OffsetCommitRequest.api_key, COMMIT)[1]
            assert isinstance(answer, OffsetCommitResponse)
            assert answer.topics[0].partitions[0].error_code == Code.NONE
            answered += 1
        scene.fail_over(one, two)
        found = scene.committed()
        assert answered <= found <= last
        assert (one.heartbeat(), two.heartbeat()) == (Code.NONE, Code.NONE)
        assert one.commit(found) == Code.NONE
        answered = found


def test_it_dies_in_a_group_of_the_new_protocol(start_broker: StartBroker) -> None:
    """Members go on with their epochs and their partitions; who is new comes in without harm."""
    broker = start_broker(OPTIONS)
    with RawClient(broker.host, broker.port) as client:
        assert client.create_topic("t", 4) == 0
        client.call(FindCoordinatorRequest(coordinator_keys=["g"]), 4, FindCoordinatorResponse)

    def heartbeat(
        client: RawClient, member: str, epoch: int, *, joins: bool = False
    ) -> ConsumerGroupHeartbeatResponse:
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=member,
            member_epoch=epoch,
            rebalance_timeout_ms=30_000 if joins else -1,
            subscribed_topic_names=["t"] if joins else None,
            topic_partitions=[] if joins else None,
        )
        return client.call(
            request, APIS[request.api_key].max_version, ConsumerGroupHeartbeatResponse
        )

    with RawClient(broker.host, broker.port) as client:
        told = [heartbeat(client, "one", 0, joins=True)]

        def has_its_share() -> bool:
            """The first target may take a moment to be worked out."""
            assert told[-1].error_code == Code.NONE
            share = told[-1].assignment
            if share is not None and share.topic_partitions:
                assert [each.partitions for each in share.topic_partitions] == [[0, 1, 2, 3]]
                return True
            told.append(heartbeat(client, "one", told[-1].member_epoch))
            return False

        until(has_its_share, lambda: told[-1])
        joined = told[-1]
    broker.kill()
    broker.start()
    with RawClient(broker.host, broker.port) as client:

        def again() -> ConsumerGroupHeartbeatResponse:
            return heartbeat(client, "one", joined.member_epoch)

        until(lambda: again().error_code != LOADING, again)
        answer = again()
        assert (answer.error_code, answer.member_epoch) == (Code.NONE, joined.member_epoch)
        stranger = heartbeat(client, "two", joined.member_epoch)
        assert stranger.error_code == Code.UNKNOWN_MEMBER_ID
        other = heartbeat(client, "two", 0, joins=True)
        assert other.error_code == Code.NONE
        assert other.member_epoch >= joined.member_epoch
        assert other.assignment is not None
        # One has not let go of anything yet: two owners there never are.
        assert [each.partitions for each in other.assignment.topic_partitions] in ([], [[]])
    broker.check_log()

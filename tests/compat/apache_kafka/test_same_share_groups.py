"""A life of a share group, told to Apache Kafka and to us: the same codes and partitions."""

import shutil
import time
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.model.errors import Code
from barnabas.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from barnabas.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.wire.messages.delete_groups import DeleteGroupsRequest
from barnabas.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from barnabas.wire.messages.describe_groups import DescribeGroupsRequest
from barnabas.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.wire.messages.list_groups import ListGroupsRequest
from barnabas.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from barnabas.wire.messages.share_group_describe import ShareGroupDescribeRequest
from barnabas.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.group_requests import commit_request
from tests.process import BrokerProcess, running_broker
from tests.support.caller import Caller
from tests.support.kafka import KafkaBroker, kafka_for_tests
from tests.waiting import WAIT_S

OPTIONS = {
    "group.share.assignment.interval.ms": "0",
    "group.share.max.size": "3",
    "group.share.session.timeout.ms": "60000",  # no member may be lost while a script runs
}
ALONE = {
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
GROUP = "queue"


@pytest.fixture(scope="module")
def us(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("broker")
    with running_broker(directory, OPTIONS) as running:
        yield running
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="module")
def them(kafka_lib: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    directory = tmp_path_factory.mktemp("kafka")
    with kafka_for_tests(directory, OPTIONS | ALONE) as running:
        yield running
    shutil.rmtree(directory, ignore_errors=True)


class ShareScript:
    """What is said, and what was answered, in terms that do not depend on the broker."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.said: list[Any] = []
        self.epochs: dict[str, int] = {}
        caller.create("t", 2)
        for group in (GROUP, "other", "classic"):
            self._find_coordinator(group)

    def _find_coordinator(self, group: str) -> None:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
        deadline = time.monotonic() + WAIT_S
        while True:
            found: Any = self.caller.ask(request, 4)
            described: Any = self.caller.ask(DescribeGroupsRequest(groups=[group]), 5)
            if {found.coordinators[0].error_code, described.groups[0].error_code} == {0}:
                return
            assert time.monotonic() < deadline, "no coordinator"
            time.sleep(0.1)

    def beat(self, member: str, epoch: int, topics: list[str] | None = None, **more: Any) -> Any:
        request = ShareGroupHeartbeatRequest(
            group_id=more.get("group_id", GROUP),
            member_id=member,
            member_epoch=epoch,
            rack_id=more.get("rack_id"),
            subscribed_topic_names=topics,
        )
        return self.caller.ask(request, 1)

    def say(self, member: str, epoch: int, topics: list[str] | None = None, **more: Any) -> None:
        answer = self.beat(member, epoch, topics, **more)
        self.said.append(("beat", member[:10], epoch, answer.error_code))

    def join(self, member: str) -> None:
        """Until it has partitions."""
        answer = self.beat(member, 0, ["t"])
        codes = [answer.error_code]
        has: list[int] = []
        deadline = time.monotonic() + WAIT_S
        while not codes[-1] and time.monotonic() < deadline:
            if answer.assignment is not None:
                has = [n for t in answer.assignment.topic_partitions for n in t.partitions]
            if has:
                break
            time.sleep(0.05)
            answer = self.beat(member, answer.member_epoch)
            codes.append(answer.error_code)
        self.epochs[member] = answer.member_epoch
        self.said.append(("join", member, codes[-1], len(has)))

    def settle(self, *members: str) -> None:
        """Heartbeats until nothing changes; then how many members a partition has."""
        count: dict[str, list[int]] = {}
        for _ in range(4):
            for member in members:
                answer = self.beat(member, self.epochs[member], ["t"])
                assert not answer.error_code, answer
                self.epochs[member] = answer.member_epoch
                given = answer.assignment.topic_partitions
                count[member] = sorted(n for t in given for n in t.partitions)
        holders = sorted(sum(n in has for has in count.values()) for n in range(2))
        self.said.append(("settled", holders, all(count.values())))

    def describe(self, *groups: str) -> None:
        request = ShareGroupDescribeRequest(
            group_ids=list(groups), include_authorized_operations=False
        )
        answer: Any = self.caller.ask(request, 1)
        for group in sorted(answer.groups, key=lambda each: str(each.group_id)):
            self.said.append(
                (
                    group.group_id,
                    group.error_code,
                    group.group_state,
                    group.assignor_name,
                    sorted(member.member_id for member in group.members),
                )
            )

    def alter(self, starts: dict[int, int], topic: str = "t", group: str = GROUP) -> None:
        partitions = [
            AlterShareGroupOffsetsRequestPartition(partition_index=n, start_offset=start)
            for n, start in starts.items()
        ]
        request = AlterShareGroupOffsetsRequest(
            group_id=group,
            topics=[AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=partitions)],
        )
        answer: Any = self.caller.ask(request, 0)
        found = {
            (t.topic_name, p.partition_index): p.error_code
            for t in answer.responses
            for p in t.partitions
        }
        self.said.append(("alter", answer.error_code, found))

    def offsets(
        self, topics: list[DescribeShareGroupOffsetsRequestTopic] | None, group: str = GROUP
    ) -> None:
        request = DescribeShareGroupOffsetsRequest(
            groups=[DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=topics)]
        )
        answer: Any = self.caller.ask(request, 1)
        (found,) = answer.groups
        places = sorted(
            (t.topic_name, p.partition_index, p.error_code, p.start_offset)
            for t in found.topics
            for p in t.partitions
        )
        self.said.append(("offsets", found.error_code, places))

    def delete_offsets(self, *topics: str, group: str = GROUP) -> None:
        request = DeleteShareGroupOffsetsRequest(
            group_id=group,
            topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics],
        )
        answer: Any = self.caller.ask(request, 0)
        found = {topic.topic_name: topic.error_code for topic in answer.responses}
        self.said.append(("delete offsets", answer.error_code, found))

    def delete(self, group: str) -> None:
        answer: Any = self.caller.ask(DeleteGroupsRequest(groups_names=[group]), 2)
        self.said.append(("delete", group, answer.results[0].error_code))

    def other_protocols(self) -> None:
        """Requests of other protocols to the share group."""
        answer: Any = self.caller.ask(commit_request(GROUP, {0: 5}), 9)
        self.said.append(("commit", answer.topics[0].partitions[0].error_code))
        asked = OffsetFetchRequestGroup(group_id=GROUP, topics=None)
        answer = self.caller.ask(OffsetFetchRequest(groups=[asked]), 9)
        self.said.append(("fetch", answer.groups[0].error_code))
        answer = self.caller.ask(
            ConsumerGroupHeartbeatRequest(
                group_id=GROUP,
                member_id="c",
                member_epoch=0,
                rebalance_timeout_ms=1_000,
                subscribed_topic_names=["t"],
                topic_partitions=[],
            ),
            1,
        )
        self.said.append(("consumer", answer.error_code))
        answer = self.caller.ask(
            JoinGroupRequest(
                group_id=GROUP,
                session_timeout_ms=10_000,
                rebalance_timeout_ms=10_000,
                member_id="",
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
            ),
            9,
        )
        self.said.append(("join", answer.error_code))

    def list(self) -> None:
        answer: Any = self.caller.ask(ListGroupsRequest(types_filter=["share"]), 5)
        self.said.append([(g.group_id, g.group_type, g.protocol_type) for g in answer.groups])


def life(script: ShareScript) -> list[Any]:
    script.say("", 0, ["t"])
    script.say("m" * 36, 0, ["t"], group_id="long")
    script.say("m" * 37, 0, ["t"], group_id="long")
    script.say("a", 0, ["t"], group_id="")
    script.say("a", 0, ["t"], rack_id="")
    script.say("a", 0, [])
    script.say("a", 0)
    script.say("a", -2, ["t"])
    script.say("a", 1)
    script.say("a", -1)
    script.join("a")
    script.say("a", 99)
    script.say("b", 3)
    script.join("b")
    script.settle("a", "b")
    script.join("c")
    script.settle("a", "b", "c")
    script.say("d", 0, ["t"])
    script.describe(GROUP, "nothing", "")
    script.list()
    script.other_protocols()
    script.alter({0: 1})
    script.delete_offsets("t")
    script.delete(GROUP)
    script.offsets(None, "nothing")
    script.offsets([DescribeShareGroupOffsetsRequestTopic(topic_name="u", partitions=[0])])
    for member in "abc":
        script.say(member, -1)
    script.describe(GROUP)
    script.alter({0: 1, 9: 1})
    script.alter({0: 1}, topic="missing")
    script.alter({0: 3}, group="")
    topics = [DescribeShareGroupOffsetsRequestTopic(topic_name="t", partitions=[0])]
    script.offsets(topics)
    script.delete_offsets("t", "missing")
    script.delete_offsets("t")
    script.delete_offsets("t", group="nothing")
    script.delete_offsets("t", group="")
    script.alter({1: 2}, group="other")
    script.describe("other")
    script.delete(GROUP)
    script.delete(GROUP)
    script.delete("other")
    script.describe(GROUP, "other")
    return script.said


def told(broker: BrokerProcess | KafkaBroker) -> list[Any]:
    caller = Caller(broker)
    try:
        return life(ShareScript(caller))
    finally:
        caller.close()


def test_a_share_group_gets_the_same_answers(us: BrokerProcess, them: KafkaBroker) -> None:
    ours, theirs = told(us), told(them)
    differences = [(m, t) for m, t in zip(ours, theirs, strict=True) if m != t]
    assert differences == [], "ours, and Kafka's"
    assert any(Code.NON_EMPTY_GROUP in said for said in ours)

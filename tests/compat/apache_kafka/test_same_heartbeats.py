"""A life of a group of the new protocol, told to Apache Kafka and to us: the same answers."""

import shutil
import time
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from barnabas.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from barnabas.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from barnabas.wire.messages.delete_groups import DeleteGroupsRequest
from barnabas.wire.messages.describe_groups import DescribeGroupsRequest
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.list_groups import ListGroupsRequest
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.group_requests import commit_request
from tests.process import BrokerProcess, running_broker
from tests.support.caller import Caller
from tests.support.kafka import KafkaBroker, kafka_for_tests
from tests.waiting import WAIT_S

OPTIONS = {
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.session.timeout.ms": "60000",  # no member may be lost while a script runs
}
GROUP = "g"


@pytest.fixture(scope="module")
def us(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("broker")
    with running_broker(directory, OPTIONS) as running:
        yield running
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="module")
def them(kafka_lib: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    directory = tmp_path_factory.mktemp("kafka")
    with kafka_for_tests(directory, OPTIONS) as running:
        yield running
    shutil.rmtree(directory, ignore_errors=True)


class Script:
    """What is said, and what was answered, in terms that do not depend on the broker.

    `base`: the epoch that a group begins at; Kafka's begin at 1."""

    def __init__(self, caller: Caller, base: int) -> None:
        self.caller = caller
        self._base = base
        self.topic: UUID = caller.create("t", 4)
        self.said: list[Any] = []
        self._find_coordinator()

    def _find_coordinator(self) -> None:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP])
        deadline = time.monotonic() + WAIT_S
        while True:
            found: Any = self.caller.ask(request, 4)
            described: Any = self.caller.ask(DescribeGroupsRequest(groups=[GROUP]), 5)
            codes = {found.coordinators[0].error_code, described.groups[0].error_code}
            if codes == {0}:
                return
            assert time.monotonic() < deadline, f"no coordinator: {codes}"
            time.sleep(0.1)

    def _in(self, epoch: int) -> int:
        return epoch + self._base if epoch > 0 else epoch

    def _out(self, epoch: int) -> int:
        return epoch - self._base if epoch > 0 else epoch

    def beat(self, member: str, epoch: int, owned: list[int] | None = None, **more: Any) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id=more.pop("group", GROUP),
            member_id=member,
            member_epoch=self._in(epoch),
            topic_partitions=None
            if owned is None
            else [TopicPartitions(topic_id=self.topic, partitions=owned)]
            if owned
            else [],
            **more,
        )
        answer: Any = self.caller.ask(request, 1)
        given = None
        if answer.assignment is not None:
            given = sorted(p for t in answer.assignment.topic_partitions for p in t.partitions)
        self.said.append((member, epoch, answer.error_code, self._out(answer.member_epoch), given))

    def enter(self, member: str, **more: Any) -> None:
        more = {"subscribed_topic_names": ["t"], "rebalance_timeout_ms": 60_000} | more
        self.beat(member, 0, [], **more)

    def commit(self, member: str, epoch: int, partition: int, version: int = 9) -> None:
        request = commit_request(GROUP, {partition: 5}, member=member, generation=self._in(epoch))
        answer: Any = self.caller.ask(request, version)
        code = answer.topics[0].partitions[0].error_code
        self.said.append(("commit", member, epoch, partition, code))

    def fetch(self, member: str | None, epoch: int, group: str = GROUP) -> None:
        wanted = OffsetFetchRequestTopics(name="t", partition_indexes=[0, 3])
        asked = OffsetFetchRequestGroup(
            group_id=group, member_id=member, member_epoch=self._in(epoch), topics=[wanted]
        )
        answer: Any = self.caller.ask(OffsetFetchRequest(groups=[asked]), 9)
        offsets = [p.committed_offset for t in answer.groups[0].topics for p in t.partitions]
        self.said.append(("fetch", member, epoch, answer.groups[0].error_code, offsets))

    def describe(self) -> None:
        answer: Any = self.caller.ask(
            ConsumerGroupDescribeRequest(
                group_ids=[GROUP, "nothing"], include_authorized_operations=False
            ),
            1,
        )
        for group in sorted(answer.groups, key=lambda group: str(group.group_id)):
            members = sorted(
                (
                    m.member_id,
                    self._out(m.member_epoch),
                    m.member_type,
                    m.subscribed_topic_names,
                    sorted(p for t in m.assignment.topic_partitions for p in t.partitions),
                    sorted(p for t in m.target_assignment.topic_partitions for p in t.partitions),
                )
                for m in group.members
            )
            self.said.append(
                (
                    group.group_id,
                    group.error_code,
                    group.group_state,
                    self._out(group.group_epoch),
                    self._out(group.assignment_epoch),
                    group.assignor_name,
                    members,
                )
            )
        old: Any = self.caller.ask(DescribeGroupsRequest(groups=[GROUP]), 6)
        self.said.append((old.groups[0].error_code, old.groups[0].group_state))
        for types in ([], ["consumer"], ["classic"]):
            listed: Any = self.caller.ask(
                ListGroupsRequest(states_filter=[], types_filter=types), 5
            )
            self.said.append(
                [(g.group_id, g.protocol_type, g.group_state, g.group_type) for g in listed.groups]
            )

    def delete(self) -> None:
        answer: Any = self.caller.ask(DeleteGroupsRequest(groups_names=[GROUP]), 2)
        self.said.append(("delete", answer.results[0].error_code))


def tell(caller: Caller, base: int) -> list[Any]:
    script = Script(caller, base)
    script.beat("a", 3)
    script.enter("", group="")
    script.enter("a", rebalance_timeout_ms=-1)
    script.beat("a", 0, [1], subscribed_topic_names=["t"], rebalance_timeout_ms=9)
    script.beat("a", 0, [], rebalance_timeout_ms=9)
    script.enter("a", server_assignor="magic")
    script.enter("a", subscribed_topic_regex="(")
    script.enter("a", instance_id=" ")
    script.beat("a", -3)
    script.beat("a", -2)
    script.beat("a", -1)
    script.enter("a", server_assignor="range")
    script.describe()
    script.beat("a", 1)
    script.beat("a", 1, [0, 1, 2, 3])
    script.beat("b", 1)
    script.enter("b", server_assignor="range", instance_id="i")
    script.describe()
    script.beat("b", 2, instance_id="i")
    script.beat("a", 1)
    script.beat("a", 1, [2, 3, 1])
    script.describe()
    script.beat("a", 1, [2, 3])
    script.beat("a", 1, [2, 3])
    script.beat("a", 1, [2, 3, 1])
    script.beat("a", 9)
    script.beat("b", 2, instance_id="i")
    script.describe()
    for member, epoch, partition in (
        ("a", 2, 0), ("a", 2, 3), ("a", 1, 0), ("a", 1, 3), ("a", 3, 0), ("b", 1, 0), ("x", 2, 0),
        ("", -1, 0),
    ):  # fmt: skip
        script.commit(member, epoch, partition)
    script.commit("a", 2, 0, version=8)
    for asked, epoch in ((None, -1), ("a", 2), ("a", 1), ("x", 2), ("", -1)):
        script.fetch(asked, epoch)
    script.fetch("a", 2, group="nothing")
    script.enter("c", instance_id="i")
    script.beat("c", 2, instance_id="i")
    script.beat("b", -2, instance_id="i")
    script.describe()
    script.enter("c", instance_id="i")
    script.beat("b", 2, instance_id="i")
    script.describe()
    script.beat("c", 2, subscribed_topic_names=[])
    script.beat("c", 2, [])
    script.delete()
    script.beat("c", -1, instance_id="i")
    script.beat("a", -1)
    script.describe()
    script.delete()
    script.delete()
    return script.said


def test_a_life_of_a_group_is_answered_alike(us: BrokerProcess, them: KafkaBroker) -> None:
    ours, theirs = Caller(us), Caller(them)
    told, expected = tell(ours, 0), tell(theirs, 1)
    ours.close()
    theirs.close()
    for number, (mine, other) in enumerate(zip(told, expected, strict=True)):
        assert mine == other, f"answer {number}"

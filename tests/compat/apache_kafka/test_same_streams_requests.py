"""A life of a streams group, told to Apache Kafka and to us: the same codes, statuses and tasks."""

import shutil
import time
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.model.errors import Code
from barnabas.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.wire.messages.delete_groups import DeleteGroupsRequest
from barnabas.wire.messages.describe_groups import DescribeGroupsRequest
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.wire.messages.list_groups import ListGroupsRequest
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from barnabas.wire.messages.streams_group_describe import StreamsGroupDescribeRequest
from barnabas.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    Topology,
)
from tests.coordinators.groups.streams.streams_world import Held, subtopology, tasks, topology
from tests.process import BrokerProcess, running_broker
from tests.support.caller import Caller
from tests.support.kafka import KafkaBroker, kafka_for_tests
from tests.waiting import WAIT_S

GROUP = "app"
OPTIONS = {
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.max.size": "2",
    "group.streams.session.timeout.ms": "60000",  # no member may be lost while a script runs
}
COUNT = topology(
    subtopology("0", ["t"], sinks=("app-r-repartition",)),
    subtopology("1", [], repartitions={"app-r-repartition": 0}, changelogs=("app-s-changelog",)),
)
REFUSED = {
    "a loop": topology(subtopology("0", [], repartitions={"r": 0}, sinks=("r",))),
    "no writer": topology(subtopology("0", [], repartitions={"r": 0})),
    "a bad name": topology(subtopology("0", ["t", "no/name"])),
    "an internal topic": topology(subtopology("0", ["__consumer_offsets"])),
}


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


class StreamsScript:
    """What is said, and what was answered, in terms that do not depend on the broker."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.said: list[Any] = []
        self.epochs: dict[str, int] = {}
        caller.create("t", 2)
        for group in (GROUP, "waiting", "wrong"):
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

    def beat(
        self,
        member: str,
        epoch: int,
        of: Topology | None = None,
        owned: Held | None = None,
        **more: Any,
    ) -> Any:
        fields: dict[str, Any] = {"group_id": GROUP, "member_id": member, "member_epoch": epoch}
        fields |= {"endpoint_information_epoch": -1, "topology": of}
        if of is not None:
            fields |= {"rebalance_timeout_ms": 60_000, "process_id": f"process {member}"}
        if owned is not None or of is not None:
            fields |= {"active_tasks": tasks(owned or {}), "standby_tasks": [], "warmup_tasks": []}
        return self.caller.ask(StreamsGroupHeartbeatRequest(**(fields | more)), 0)

    def say(self, member: str, epoch: int, of: Topology | None = None, **more: Any) -> Any:
        answer = self.beat(member, epoch, of, **more)
        statuses = sorted(each.status_code for each in answer.status or ())
        # How many epochs there are depends on how often it was asked while topics were created.
        named = "its own" if 0 < epoch == self.epochs.get(member) else epoch
        self.said.append(("beat", member, named, answer.error_code, statuses))
        return answer

    def join(self, member: str) -> None:
        """Until it is at an epoch with tasks, or has reached the group's."""
        answer = self.beat(member, 0, COUNT)
        deadline = time.monotonic() + WAIT_S
        while not answer.error_code and answer.status and time.monotonic() < deadline:
            time.sleep(0.05)
            answer = self.beat(member, answer.member_epoch)
        self.epochs[member] = answer.member_epoch
        self.said.append(("join", member, answer.error_code, answer.status))

    def settle(self, *members: str) -> None:
        """Heartbeats of members that release at once; then how many tasks each has."""
        has: dict[str, Held] = {member: {} for member in members}
        for _ in range(6):
            for member in members:
                answer = self.beat(member, self.epochs[member], owned=has[member])
                assert not answer.error_code, answer
                self.epochs[member] = answer.member_epoch
                if answer.active_tasks is not None:
                    has[member] = {t.subtopology_id: t.partitions for t in answer.active_tasks}
        counts = sorted(sum(map(len, held.values())) for held in has.values())
        every = sorted((id_, n) for held in has.values() for id_, ns in held.items() for n in ns)
        self.said.append(("settled", counts, every))

    def describe(self, *groups: str) -> None:
        request = StreamsGroupDescribeRequest(
            group_ids=list(groups), include_authorized_operations=False
        )
        answer: Any = self.caller.ask(request, 0)
        for group in sorted(answer.groups, key=lambda each: str(each.group_id)):
            parts = [] if group.topology is None else group.topology.subtopologies
            self.said.append(
                (
                    group.group_id,
                    group.error_code,
                    group.group_state,
                    parts,
                    sorted((m.member_id, m.process_id, m.topology_epoch) for m in group.members),
                )
            )

    def commit(self, member: str, epoch: int) -> None:
        part = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=1, committed_metadata=""
        )
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=epoch,
            member_id=member,
            topics=[OffsetCommitRequestTopic(name="t", partitions=[part])],
        )
        for version in (8, 9):
            answer: Any = self.caller.ask(request, version)
            code = answer.topics[0].partitions[0].error_code
            self.said.append(("commit", member, version, code))

    def other_protocols(self) -> None:
        """Requests of other protocols to the streams group."""
        answer: Any = self.caller.ask(
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
        request = ShareGroupHeartbeatRequest(
            group_id=GROUP, member_id="s", member_epoch=0, subscribed_topic_names=["t"]
        )
        answer = self.caller.ask(request, 1)
        self.said.append(("share", answer.error_code))
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
        answer: Any = self.caller.ask(ListGroupsRequest(types_filter=["streams"]), 5)
        self.said.append(
            sorted(
                (g.group_id, g.group_type, g.protocol_type, g.group_state) for g in answer.groups
            )
        )

    def delete(self, group: str) -> None:
        answer: Any = self.caller.ask(DeleteGroupsRequest(groups_names=[group]), 2)
        self.said.append(("delete", group, answer.results[0].error_code))


def life(script: StreamsScript) -> list[Any]:
    say = script.say
    say("", 0, COUNT)
    say("a", 0, COUNT, group_id="")
    say("a", 0, COUNT, rack_id="")
    say("a", 0, COUNT, instance_id="i")
    say("a", 0, COUNT, rebalance_timeout_ms=-1)
    say("a", 0, COUNT, owned={"0": [0]})
    say("a", 0, COUNT, task_offsets=[])
    say("a", 0, COUNT, standby_tasks=None)
    say("a", 0, COUNT, active_tasks=None, standby_tasks=None, warmup_tasks=None)
    say("a", 0)
    say("a", 1, COUNT)
    say("a", -2)
    say("a", -3)
    say("a", 1)
    say("a", -1)
    for part in REFUSED.values():
        say("a", 0, part, group_id="wrong")
    say("w", 0, topology(subtopology("0", ["missing"])), group_id="waiting")
    script.describe("waiting")
    script.join("a")
    say("a", 99)
    say("b", 3)
    script.join("b")
    script.settle("a", "b")
    say("c", 0, COUNT)
    say("a", script.epochs["a"], owned={"0": [9]})
    say("a", script.epochs["a"], owned={"7": [0]})
    script.describe(GROUP, "nothing", "")
    script.list()
    script.other_protocols()
    script.commit("a", script.epochs["a"])
    script.commit("a", 99)
    script.commit("x", 1)
    script.delete(GROUP)
    say("b", -1)
    say("b", 0, topology(subtopology("0", ["t"])))
    say("b", 0, topology(subtopology("0", ["t"]), epoch=1))
    say("a", script.epochs["a"], shutdown_application=True)
    say("a", -1)
    script.describe(GROUP)
    script.delete(GROUP)
    script.delete(GROUP)
    script.describe(GROUP)
    return script.said


def told(broker: BrokerProcess | KafkaBroker) -> list[Any]:
    caller = Caller(broker)
    try:
        return life(StreamsScript(caller))
    finally:
        caller.close()


def test_a_streams_group_gets_the_same_answers(us: BrokerProcess, them: KafkaBroker) -> None:
    ours, theirs = told(us), told(them)
    differences = [(m, t) for m, t in zip(ours, theirs, strict=True) if m != t]
    assert differences == [], "ours, and Kafka's"
    assert any(Code.NON_EMPTY_GROUP in said for said in ours)

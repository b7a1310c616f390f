"""Requests that Apache Kafka refuses or has nothing to do for: we answer them as it does."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.wire.compression import Codec
from barnabas.wire.messages import alter_partition_reassignments as reassignments
from barnabas.wire.messages import create_acls, delete_acls, describe_acls, elect_leaders
from barnabas.wire.messages import list_partition_reassignments as reassigning
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from barnabas.wire.messages.unregister_broker import UnregisterBrokerRequest
from barnabas.wire.records import Record, encode_batch
from tests.support.caller import Caller, named

Case = Callable[[Caller, str], Any]
CASES: dict[str, Case] = {}
FAR_MS = 120_000
BOUNDS: dict[str, Any] = dict.fromkeys(
    ("message_timestamp_before_max_ms", "message_timestamp_after_max_ms"), str(FAR_MS // 2)
)


def case(function: Case) -> Case:
    CASES[function.__name__] = function
    return function


def without_words(value: Any) -> Any:
    """The words for each record are our own."""
    if isinstance(value, dict):
        return {k: without_words(v) for k, v in value.items() if k != "batch_index_error_message"}
    return [without_words(each) for each in value] if isinstance(value, list) else value


@case
def records_refused(caller: Caller, topic: str) -> Any:
    caller.create(f"{topic}-keys", cleanup_policy="compact")
    caller.create(f"{topic}-times", **BOUNDS)
    caller.create(f"{topic}-both", cleanup_policy="compact", **BOUNDS)
    now = time.time_ns() // 1_000_000
    answers = []
    for kind in ("keys", "times", "both"):
        records = [
            Record(
                n,
                now + (FAR_MS if n in (1, 3, 7) else -FAR_MS if n == 0 else 0) * (kind != "keys"),
                None if n in (2, 3, 9) else b"k",
                b"v",
            )
            for n in range(10)
        ]
        for version in (7, 8, 12):
            for codec in (Codec.NONE, Codec.GZIP):
                batch = memoryview(encode_batch(records, codec=codec))
                data = PartitionProduceData(index=0, records=batch)
                request = ProduceRequest(
                    acks=-1,
                    timeout_ms=60_000,
                    topic_data=[TopicProduceData(name=f"{topic}-{kind}", partition_data=[data])],
                )
                answers.append(without_words(caller.answer(request, version)))
    return answers


@case
def acls_refused(caller: Caller, topic: str) -> Any:
    rule = create_acls.AclCreation(
        resource_type=2,
        resource_name=topic,
        principal="User:a",
        host="*",
        operation=3,
        permission_type=3,
    )
    matching = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    rules: Any = delete_acls.DeleteAclsFilter(**matching)  # type: ignore[arg-type]
    every: Any = describe_acls.DescribeAclsRequest(**matching)  # type: ignore[arg-type]
    return [
        caller.answer(request, version)
        for version in (1, 2, 3)
        for request in (
            every,
            create_acls.CreateAclsRequest(creations=[rule, rule]),
            create_acls.CreateAclsRequest(creations=[]),
            delete_acls.DeleteAclsRequest(filters=[rules, rules]),
        )
    ]


@case
def leaders_elected(caller: Caller, topic: str) -> Any:
    caller.create(topic, 2)
    some = [
        elect_leaders.TopicPartitions(topic=topic, partitions=[0, 1, 9, -1]),
        elect_leaders.TopicPartitions(topic=f"{topic}-missing", partitions=[0]),
    ]
    answers = []
    for version, kind in ((0, 0), (1, 0), (1, 1), (1, 7), (2, 0), (2, 1), (2, 7)):
        for asked in (some, [], None):
            request = elect_leaders.ElectLeadersRequest(
                election_type=kind, topic_partitions=asked, timeout_ms=60_000
            )
            answer = caller.answer(request, version)
            if asked is None:  # other topics are not the same on both
                results = answer["replica_election_results"]
                answer["replica_election_results"] = [r for r in results if r["topic"] == topic]
            answers.append(answer)
    return answers


@case
def replicas_reassigned(caller: Caller, topic: str) -> Any:
    caller.create(topic, 2)
    metadata: Any = caller.ask(named(topic), 12)
    (node,) = [broker.node_id for broker in metadata.brokers]
    tries: list[tuple[str, int, list[int] | None]] = [
        (name, index, replicas)
        for name in (topic, f"{topic}-missing")
        for index in (0, 9)
        for replicas in ([node], None, [], [node, node], [node + 98], [node, node + 98], [-1])
    ]
    answers = []
    for version, allow in ((0, True), (1, True), (1, False)):
        for name, index, replicas in tries:
            partition = reassignments.ReassignablePartition(
                partition_index=index, replicas=replicas
            )
            request = reassignments.AlterPartitionReassignmentsRequest(
                timeout_ms=60_000,
                allow_replication_factor_change=allow,
                topics=[reassignments.ReassignableTopic(name=name, partitions=[partition] * 2)],
            )
            answers.append(caller.answer(request, version))
    asked = reassigning.ListPartitionReassignmentsTopics(name=topic, partition_indexes=[0, 9])
    for topics in (None, [], [asked]):
        listing = reassigning.ListPartitionReassignmentsRequest(topics=topics)
        answers.append(caller.answer(listing, 0))
    return answers


@case
def brokers_unregistered(caller: Caller, topic: str) -> Any:
    return [caller.answer(UnregisterBrokerRequest(broker_id=id_), 0) for id_ in (99, -1)]


@pytest.mark.parametrize("name", CASES)
def test_we_refuse_as_kafka_does(us: Caller, them: Caller, name: str, topic: str) -> None:
    topic = topic.replace("_", "-")
    assert CASES[name](us, topic) == CASES[name](them, topic)

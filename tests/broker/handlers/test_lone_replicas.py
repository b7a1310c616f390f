"""Elections, reassignments and ACLs on a lone broker, as a one-node Kafka answers them."""

from typing import Any

import pytest

from barnabas.model.errors import Code
from barnabas.wire.messages import (
    alter_partition_reassignments,
    create_acls,
    delete_acls,
    describe_acls,
    elect_leaders,
    list_partition_reassignments,
    unregister_broker,
)
from tests.broker.running import Running


async def elected(running: Running, kind: int, *names: str) -> list[tuple[str, int, int]]:
    request = elect_leaders.ElectLeadersRequest(
        election_type=kind,
        topic_partitions=[
            elect_leaders.TopicPartitions(topic=name, partitions=[0]) for name in names
        ]
        or None,
    )
    answer = await running.ask(request, elect_leaders.ElectLeadersResponse, 2)
    assert answer.error_code == 0
    return [
        (topic.topic, result.partition_id, result.error_code)
        for topic in answer.replica_election_results
        for result in topic.partition_result
    ]


@pytest.mark.parametrize("kind", [0, 1])
async def test_a_partition_that_is_led_needs_no_election(running: Running, kind: int) -> None:
    await running.create("t")
    assert await elected(running, kind, "t", "u") == [
        ("t", 0, Code.ELECTION_NOT_NEEDED),
        ("u", 0, Code.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert await elected(running, kind) == []


async def test_nobody_can_lead_a_partition_whose_directory_is_offline(running: Running) -> None:
    await running.create("t")
    running.broker.topics.existing("t").partition(0).fail("a test")
    assert await elected(running, 0) == [("t", 0, Code.PREFERRED_LEADER_NOT_AVAILABLE)]
    assert await elected(running, 1, "t") == [("t", 0, Code.ELIGIBLE_LEADERS_NOT_AVAILABLE)]


async def test_replicas_can_only_be_where_they_are(running: Running) -> None:
    await running.create("t")
    own = int(running.broker.id)
    codes = []
    for replicas in ([own], None, [], [own, own], [own + 1], [own, own + 1]):
        partition = alter_partition_reassignments.ReassignablePartition(
            partition_index=0, replicas=replicas
        )
        topic = alter_partition_reassignments.ReassignableTopic(name="t", partitions=[partition])
        answer = await running.ask(
            alter_partition_reassignments.AlterPartitionReassignmentsRequest(topics=[topic]),
            alter_partition_reassignments.AlterPartitionReassignmentsResponse,
            1,
        )
        codes.append(answer.responses[0].partitions[0].error_code)
    refused = [Code.INVALID_REPLICA_ASSIGNMENT] * 4
    assert codes == [Code.NONE, Code.NO_REASSIGNMENT_IN_PROGRESS, *refused]
    listed = await running.ask(
        list_partition_reassignments.ListPartitionReassignmentsRequest(),
        list_partition_reassignments.ListPartitionReassignmentsResponse,
        0,
    )
    assert (listed.error_code, listed.topics) == (0, [])


async def test_the_only_broker_is_not_unregistered(running: Running) -> None:
    own = int(running.broker.id)
    for id_, code in ((own, Code.INVALID_REQUEST), (own + 1, Code.BROKER_ID_NOT_REGISTERED)):
        answer = await running.ask(
            unregister_broker.UnregisterBrokerRequest(broker_id=id_),
            unregister_broker.UnregisterBrokerResponse,
            0,
        )
        assert answer.error_code == code


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_acls_are_refused_because_there_is_no_authorizer(
    running: Running, version: int
) -> None:
    matching: dict[str, Any] = {
        "resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1,
        "principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1,
    }  # fmt: skip
    described = await running.ask(
        describe_acls.DescribeAclsRequest(**matching), describe_acls.DescribeAclsResponse, version
    )
    rule = create_acls.AclCreation(
        resource_type=2, resource_name="t", principal="User:a", host="*", operation=3,
        permission_type=3,
    )  # fmt: skip
    created = await running.ask(
        create_acls.CreateAclsRequest(creations=[rule, rule]),
        create_acls.CreateAclsResponse,
        version,
    )
    deleted = await running.ask(
        delete_acls.DeleteAclsRequest(filters=[delete_acls.DeleteAclsFilter(**matching)]),
        delete_acls.DeleteAclsResponse,
        version,
    )
    assert len(created.results) == 2
    assert len(deleted.filter_results) == 1
    answers: list[Any] = [described, *created.results, *deleted.filter_results]
    for answer in answers:
        assert answer.error_code == Code.SECURITY_DISABLED
        assert "no authorizer" in (answer.error_message or "")

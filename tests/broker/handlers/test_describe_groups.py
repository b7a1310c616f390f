"""DescribeGroups and ConsumerGroupDescribe: why a group cannot be described."""

from barnabas.model.errors import Code
from barnabas.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from barnabas.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.wire.messages.join_group import JoinGroupResponse
from tests.broker.running import Running
from tests.coordinators.world import subscription
from tests.group_requests import join_request


async def why_not(running: Running, group: str) -> list[str | None]:
    """As both requests are answered."""
    classic = await running.ask(DescribeGroupsRequest(groups=[group]), DescribeGroupsResponse, 6)
    described = ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=False)
    consumer = await running.ask(described, ConsumerGroupDescribeResponse, 1)
    (first,), (second,) = classic.groups, consumer.groups
    for each in (first, second):
        assert (each.error_code == Code.GROUP_ID_NOT_FOUND) == bool(each.error_message)
    return [first.error_message, second.error_message]


async def test_the_answer_distinguishes_no_group_from_one_of_the_other_protocol(
    running: Running,
) -> None:
    await running.create("t")
    await running.ask(FindCoordinatorRequest(coordinator_keys=["c"]), FindCoordinatorResponse)
    assert await why_not(running, "nobody") == [
        "there is no group 'nobody'",
        "there is no consumer group 'nobody'",
    ]
    await running.ask(join_request("c", "", subscription(["t"])), JoinGroupResponse)
    joined = ConsumerGroupHeartbeatRequest(
        group_id="n",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    assert not (await running.ask(joined, ConsumerGroupHeartbeatResponse)).error_code
    assert await why_not(running, "c") == [
        None,
        "group 'c' uses the classic protocol; this request is of the consumer protocol",
    ]
    assert await why_not(running, "n") == ["group 'n' does not use the classic protocol", None]

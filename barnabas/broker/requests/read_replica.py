"""Replies for a consumer that should fetch from another broker: the leader, or a nearer replica.

In: partitions that this broker leads, or does not lead. Out: parts of a FetchResponse.
"""

from typing import TYPE_CHECKING

from barnabas.broker.cluster_member import at_listener
from barnabas.broker.topic import Topic
from barnabas.config.broker import BrokerConfig
from barnabas.config.broker_roles import RACK_SELECTOR
from barnabas.model.errors import Code
from barnabas.wire.messages.fetch import (
    FetchableTopicResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

if TYPE_CHECKING:
    from barnabas.broker.cluster.membership import ClusterMembership
    from barnabas.broker.partition import Partition
    from barnabas.broker.replicas.roles import Replicas

_ENDPOINTS_SINCE = 16
_NO_LEADER = LeaderIdAndEpoch()
_OF_LEADERS = (Code.NOT_LEADER_OR_FOLLOWER, Code.FENCED_LEADER_EPOCH)


def failed(index: int, code: Code, topic: Topic | None) -> PartitionData:
    """`topic`: None if the response cannot name the leader."""
    leader = _NO_LEADER
    if code in _OF_LEADERS and topic is not None:  # otherwise the partition does not exist
        partition = topic.partitions[index]
        leader = LeaderIdAndEpoch(leader_id=partition.leader, leader_epoch=partition.leader_epoch)
    return PartitionData(
        partition_index=index,
        error_code=code,
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        current_leader=leader,
        aborted_transactions=[],
        records=b"",
    )


def nearer_replica(
    config: BrokerConfig, replicas: "Replicas", partition: "Partition", offset: int, rack: str
) -> int:
    """An in-sync replica that has the offset, in the consumer's rack; -1: none, or this broker."""
    leading = partition.leading
    if config.replica_selector_class != RACK_SELECTOR or leading is None:
        return -1
    if config.broker_rack == rack:
        return -1
    found, found_end = -1, -1
    for follower, progress in leading.machine.followers.items():
        if (
            follower in leading.machine.isr
            and progress.start <= offset <= progress.end
            and progress.end > found_end
            and replicas.rack_of(follower) == rack
        ):
            found, found_end = follower, progress.end
    return found


def endpoints(
    cluster: "ClusterMembership | None",
    listener: str,
    version: int,
    responses: list[FetchableTopicResponse],
) -> list[NodeEndpoint]:
    """The addresses of the leaders that the response names, for clients of this listener."""
    if cluster is None or version < _ENDPOINTS_SINCE:
        return []
    leaders = {
        partition.current_leader.leader_id for topic in responses for partition in topic.partitions
    }
    return [
        NodeEndpoint(node_id=member.id, host=member.host, port=member.port, rack=member.rack)
        for member in at_listener(cluster.members.values(), listener)
        if member.id in leaders
    ]

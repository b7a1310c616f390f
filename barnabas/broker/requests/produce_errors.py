"""The results of a Produce request for partitions whose records were not accepted.

In: the error of a partition. Out: its part of the response; from version 10 on with the current
leader, if this broker does not lead the partition.
"""

from typing import TYPE_CHECKING

from barnabas.broker.cluster_member import at_listener
from barnabas.model.errors import Code, KafkaError, RecordsRefused
from barnabas.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.cluster.membership import ClusterMembership
    from barnabas.broker.topic import Topics

_NO_LEADER = LeaderIdAndEpoch()


def refusal(
    index: int,
    error: KafkaError,
    *,
    leader: LeaderIdAndEpoch = _NO_LEADER,
    log_start_offset: int = -1,
) -> PartitionProduceResponse:
    """The result for a partition whose records were not accepted, or not committed in time."""
    records = error.records if isinstance(error, RecordsRefused) else ()
    return PartitionProduceResponse(
        index=index,
        error_code=error.code,
        base_offset=-1,
        log_append_time_ms=-1,
        log_start_offset=log_start_offset,
        record_errors=[
            BatchIndexAndErrorMessage(batch_index=number, batch_index_error_message=why)
            for number, why in records
        ],
        error_message=error.detail,
        current_leader=leader,
    )


class CurrentLeaders:
    """Tells a producer that sent to the wrong broker which broker leads, and its address."""

    __slots__ = ("_by_id", "_cluster", "_listener", "_topics")

    def __init__(
        self, topics: "Topics", cluster: "ClusterMembership", listener: str, by_id: bool
    ) -> None:
        """`listener`: of the producer's connection."""
        self._topics = topics
        self._listener = listener
        self._cluster = cluster
        self._by_id = by_id

    def named_in(self, responses: list[TopicProduceResponse]) -> ProduceResponse:
        topics = self._topics
        leaders: dict[int, None] = {}
        for response in responses:
            topic = topics.by_id(response.topic_id) if self._by_id else topics.get(response.name)
            if topic is None:
                continue
            for place, answer in enumerate(response.partition_responses):
                if answer.error_code != Code.NOT_LEADER_OR_FOLLOWER:
                    continue
                known = topic.partitions[answer.index]
                leaders[known.leader] = None
                response.partition_responses[place] = refusal(
                    answer.index,
                    KafkaError(Code.NOT_LEADER_OR_FOLLOWER, answer.error_message or ""),
                    leader=LeaderIdAndEpoch(
                        leader_id=known.leader, leader_epoch=known.leader_epoch
                    ),
                )
        endpoints = [
            NodeEndpoint(node_id=member.id, host=member.host, port=member.port, rack=member.rack)
            for member in at_listener(self._cluster.members.values(), self._listener)
            if member.id in leaders
        ]
        return ProduceResponse(responses=responses, node_endpoints=endpoints)

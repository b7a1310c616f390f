"""Where interactive queries are answered: the partitions that each process has.

In: the members, their endpoints and tasks. Out: what heartbeats tell all members.
"""

from collections.abc import Iterable, Mapping

from barnabas.coordinators.groups.streams.group import StreamsGroup
from barnabas.coordinators.groups.streams.member import StreamsMember, UserEndpoint
from barnabas.wire.messages.streams_group_heartbeat import (
    Endpoint,
    EndpointToPartitions,
    TopicPartition,
)


def partitions_by_endpoint(
    group: StreamsGroup, members: Iterable[StreamsMember]
) -> list[EndpointToPartitions]:
    """Once for each endpoint: Kafka Streams keeps one entry for an endpoint, and several threads
    of a process, each a member, have the same."""
    processes: dict[UserEndpoint, list[StreamsMember]] = {}
    for member in members:
        if member.endpoint is not None:
            processes.setdefault(member.endpoint, []).append(member)
    return [
        EndpointToPartitions(
            user_endpoint=Endpoint(host=host, port=port),
            active_partitions=_partitions(group, [each.assigned.active for each in threads]),
            standby_partitions=_partitions(group, [each.assigned.standby for each in threads]),
        )
        for (host, port), threads in processes.items()
    ]


def _partitions(
    group: StreamsGroup, tasks: Iterable[Mapping[str, Iterable[int]]]
) -> list[TopicPartition]:
    by_topic: dict[str, list[int]] = {}
    for each in tasks:
        for topic, partition in group.read_partitions(each):
            by_topic.setdefault(topic, []).append(partition)
    return [TopicPartition(topic=name, partitions=found) for name, found in by_topic.items()]

"""What an application says about itself: its subtopologies, their topics, and what it stores.

In: the topology in a heartbeat, or in the log. Out: an immutable value; what is wrong with it.
Always: the first topology of a group stays until the group is deleted. Indexes and counts in
a topology that was accepted are valid.
Not here: whether its topics exist (topics.py).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from barnabas.coordinators.groups.streams.records import (
    STREAMS_TOPOLOGY_KEY,
    RecordedCopartition,
    RecordedSubtopology,
    RecordedTopicInfo,
    StreamsGroupRecord,
    StreamsTopologyValue,
    TopicSetting,
)
from barnabas.model.errors import Code, InvalidRequest, KafkaError
from barnabas.model.ids import check_topic_name
from barnabas.wire.messages.streams_group_heartbeat import TopicInfo, Topology

SUBTOPOLOGIES_MAX = 1_000
INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state", "__share_group_state")


@dataclass(frozen=True, slots=True)
class StreamsTopology:
    """Subtopologies by id. `readers`: by topic, the subtopology that reads it."""

    epoch: int
    subtopologies: Mapping[str, RecordedSubtopology]
    readers: Mapping[str, str] = field(compare=False)

    def required_topics(self) -> Iterator[str]:
        """Those that must exist before anything is assigned."""
        for each in self.subtopologies.values():
            yield from each.source_topics
            yield from (topic.name for topic in each.repartition_source_topics)
            yield from (topic.name for topic in each.state_changelog_topics)


def source_topics(each: RecordedSubtopology) -> list[str]:
    """All that it reads."""
    return [*each.source_topics, *(topic.name for topic in each.repartition_source_topics)]


def from_record(value: StreamsTopologyValue) -> StreamsTopology:
    subtopologies = {each.subtopology_id: each for each in value.subtopologies}
    readers = {name: id_ for id_, each in subtopologies.items() for name in source_topics(each)}
    return StreamsTopology(value.epoch, dict(sorted(subtopologies.items())), readers)


def topology_record(group: str, value: StreamsTopologyValue) -> StreamsGroupRecord:
    return StreamsGroupRecord(STREAMS_TOPOLOGY_KEY, group, "", value)


def recorded(topology: Topology) -> StreamsTopologyValue:
    """The topology of a heartbeat, as the log has it."""
    return StreamsTopologyValue(
        epoch=topology.epoch,
        subtopologies=[
            RecordedSubtopology(
                subtopology_id=each.subtopology_id,
                source_topics=each.source_topics,
                source_topic_regex=each.source_topic_regex,
                state_changelog_topics=_topics(each.state_changelog_topics),
                repartition_sink_topics=each.repartition_sink_topics,
                repartition_source_topics=_topics(each.repartition_source_topics),
                copartition_groups=[
                    RecordedCopartition(
                        source_topics=group.source_topics,
                        source_topic_regex=group.source_topic_regex,
                        repartition_source_topics=group.repartition_source_topics,
                    )
                    for group in each.copartition_groups
                ],
            )
            for each in topology.subtopologies
        ],
    )


def _topics(topics: Iterable[TopicInfo]) -> list[RecordedTopicInfo]:
    return [
        RecordedTopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[TopicSetting(key=c.key, value=c.value) for c in topic.topic_configs],
        )
        for topic in topics
    ]


# What may be wrong


def topic_names(topology: Topology) -> list[str]:
    """All topics that it names, each once."""
    return list(
        dict.fromkeys(
            name
            for each in topology.subtopologies
            for name in (
                *each.source_topics,
                *each.repartition_sink_topics,
                *(topic.name for topic in each.repartition_source_topics),
                *(topic.name for topic in each.state_changelog_topics),
            )
        )
    )


def check_names(topology: Topology) -> None:
    """STREAMS_INVALID_TOPOLOGY for names that no topic of an application can have."""
    for name in topic_names(topology):
        if name in INTERNAL_TOPICS:
            raise invalid_topology(f"topic {name} is internal and cannot be part of a topology")
        try:
            check_topic_name(name)
        except KafkaError as error:
            raise invalid_topology(error.detail) from None


def check_topology(topology: Topology, bytes_max: int) -> None:
    """STREAMS_INVALID_TOPOLOGY if no application of Kafka Streams could have sent it."""
    ids = {each.subtopology_id for each in topology.subtopologies}
    if topology.epoch < 0:
        raise invalid_topology(f"topology epoch {topology.epoch} is negative")
    if len(topology.subtopologies) > SUBTOPOLOGIES_MAX:
        raise invalid_topology(
            f"{len(topology.subtopologies)} subtopologies; at most {SUBTOPOLOGIES_MAX} are allowed"
        )
    if len(ids) < len(topology.subtopologies):
        raise invalid_topology("two subtopologies have the same id")
    size = len(recorded(topology).encode(0))
    if size > bytes_max:
        raise invalid_topology(f"the topology has {size} bytes; at most {bytes_max} are allowed")
    check_names(topology)
    _check_read_once(topology)
    for each in topology.subtopologies:
        name = f"subtopology {each.subtopology_id[:100]!r}"
        sources, repartitions = len(each.source_topics), len(each.repartition_source_topics)
        if not sources and not repartitions:
            raise invalid_topology(f"{name} has no source topic")
        for topic in each.state_changelog_topics:
            if topic.partitions != 0:
                raise invalid_topology(
                    f"changelog topic {topic.name}: {topic.partitions} partitions; the number"
                    " follows from the source topics and must be 0"
                )
        for topic in each.repartition_source_topics:
            if topic.partitions < 0:
                raise invalid_topology(
                    f"repartition topic {topic.name}: {topic.partitions} partitions; expected 0"
                    " or more"
                )
        for group in each.copartition_groups:
            inside = all(0 <= index < sources for index in group.source_topics) and all(
                0 <= index < repartitions for index in group.repartition_source_topics
            )
            if not inside:
                raise invalid_topology(
                    f"{name}: a copartition group names a topic that it does not have"
                )


def _check_read_once(topology: Topology) -> None:
    """Kafka Streams puts all that read a topic in one subtopology. A topic that many read would
    make its number of tasks many times."""
    read: set[str] = set()
    for each in topology.subtopologies:
        repartitions = (topic.name for topic in each.repartition_source_topics)
        for name in (*each.source_topics, *repartitions):
            if name in read:
                raise invalid_topology(
                    f"source topic {name} is listed twice; one subtopology may read it, once"
                )
            read.add(name)


def invalid_topology(why: str) -> InvalidRequest:
    return InvalidRequest(Code.STREAMS_INVALID_TOPOLOGY, why)

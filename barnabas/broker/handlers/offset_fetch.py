"""OffsetFetch: how far groups have read.

Always: every partition asked for has its answer, -1 where nothing was committed.
"""

from typing import TYPE_CHECKING

from barnabas.broker.coordination import Reply, coordination
from barnabas.broker.dispatch import Call
from barnabas.model.errors import Code, KafkaError
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

ERROR_SINCE = 2
SEVERAL_SINCE = 8
TOPIC_IDS_SINCE = 10


def handle(broker: "Broker", request: OffsetFetchRequest, call: Call) -> Reply:
    group_ids = [request.group_id]
    if call.version >= SEVERAL_SINCE:
        group_ids = [group.group_id for group in request.groups]
    return coordination(broker).look(lambda: _answer(broker, request, call), group_ids)


def _answer(broker: "Broker", request: OffsetFetchRequest, call: Call) -> OffsetFetchResponse:
    if call.version >= SEVERAL_SINCE:
        by_id = call.version >= TOPIC_IDS_SINCE
        return OffsetFetchResponse(
            groups=[_fetch(broker, group, by_id=by_id) for group in request.groups]
        )
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    group = _fetch(broker, OffsetFetchRequestGroup(group_id=request.group_id, topics=topics))
    if group.error_code and call.version < ERROR_SINCE:
        # Version 1 has no place for the group's error but at each partition.
        group = _everywhere(group, topics or [])
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )


def _fetch(
    broker: "Broker", group: OffsetFetchRequestGroup, *, by_id: bool = False
) -> OffsetFetchResponseGroup:
    try:
        shard = coordination(broker).shard_of(group.group_id)
    except KafkaError as error:
        return OffsetFetchResponseGroup(group_id=group.group_id, topics=[], error_code=error.code)
    code = shard.check_fetch(group.group_id, group.member_id, group.member_epoch)
    if code:
        return OffsetFetchResponseGroup(group_id=group.group_id, topics=[], error_code=code)
    if not by_id:
        return OffsetFetchResponseGroup(
            group_id=group.group_id, topics=shard.fetch(group.group_id, group.topics)
        )
    known: list[OffsetFetchRequestTopics] | None = None
    unknown: list[OffsetFetchResponseTopics] = []
    if group.topics is not None:
        known = []
        for topic in group.topics:
            found = broker.topics.by_id(topic.topic_id)
            if found is None:
                unknown.append(_refused(topic, Code.UNKNOWN_TOPIC_ID))
            else:
                known.append(
                    OffsetFetchRequestTopics(
                        name=found.name,
                        topic_id=topic.topic_id,
                        partition_indexes=topic.partition_indexes,
                    )
                )
    answered = []
    for fetched in shard.fetch(group.group_id, known):
        found = broker.topics.get(fetched.name)
        if found is not None:  # a topic that is gone has no id to answer with
            answered.append(
                OffsetFetchResponseTopics(
                    name=fetched.name, topic_id=found.id, partitions=fetched.partitions
                )
            )
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=answered + unknown)


def _everywhere(
    group: OffsetFetchResponseGroup, topics: list[OffsetFetchRequestTopics]
) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(
        group_id=group.group_id, topics=[_refused(topic, group.error_code) for topic in topics]
    )


def _refused(topic: OffsetFetchRequestTopics, code: int) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=-1, metadata="", error_code=code
            )
            for index in topic.partition_indexes
        ],
    )

"""DescribeShareGroupOffsets: the start offset of a share group in each partition, and its lag.

Lag: the records from the start offset to the end, without those above it that are finished.
"""

import asyncio
from typing import TYPE_CHECKING
from uuid import UUID

from barnabas.broker.groups.coordination import coordination
from barnabas.broker.net.dispatch import Call
from barnabas.broker.role import Role
from barnabas.broker.share.coordination import share_states
from barnabas.coordinators.groups.share.group import ShareGroup
from barnabas.coordinators.share.keys import StateSummary
from barnabas.model.errors import Code, KafkaError, Retriable
from barnabas.model.ids import NO_TOPIC_ID, BrokerId
from barnabas.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from barnabas.wire.messages.list_offsets import (
    LATEST,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from barnabas.broker.context import GroupsContext

UNKNOWN = -1
ANSWER_MS_MAX = 5_000

Ends = dict[tuple[UUID, int], int | KafkaError]


async def handle(
    broker: "GroupsContext", request: DescribeShareGroupOffsetsRequest, call: Call
) -> DescribeShareGroupOffsetsResponse:
    groups = [await _describe(broker, group) for group in request.groups]
    return DescribeShareGroupOffsetsResponse(groups=groups)


async def _describe(
    broker: "GroupsContext", asked: DescribeShareGroupOffsetsRequestGroup
) -> DescribeShareGroupOffsetsResponseGroup:
    try:
        shard = coordination(broker).shard_of(asked.group_id)
    except KafkaError as error:
        return refused(asked.group_id, error.code, error.detail)
    topics: list[tuple[str, UUID, list[int]]] = []
    missing = []
    if asked.topics is None:
        group = shard.group(asked.group_id)
        if isinstance(group, ShareGroup):
            for topic_id, named in group.stored.states.initialized.items():
                topics.append((named.topic, topic_id, sorted(named.partitions)))
    else:
        for topic in asked.topics:
            found = broker.topics.get(topic.topic_name)
            if found is None:
                missing.append(_missing(topic.topic_name, topic.partitions))
            else:
                topics.append((topic.topic_name, found.id, topic.partitions))
    keys = [(topic_id, number) for _, topic_id, numbers in topics for number in numbers]
    summaries: dict[tuple[UUID, int], StateSummary] = {}
    if keys:
        found_states = await share_states(broker).summaries(asked.group_id, keys)
        summaries = {summary.key: summary for summary in found_states}
    ends = await _end_offsets(broker, [key for key in keys if _has_lag(summaries.get(key))])
    return DescribeShareGroupOffsetsResponseGroup(
        group_id=asked.group_id,
        topics=[
            *(
                DescribeShareGroupOffsetsResponseTopic(
                    topic_name=name,
                    topic_id=topic_id,
                    partitions=[
                        _partition(number, summaries.get((topic_id, number)), ends)
                        for number in numbers
                    ],
                )
                for name, topic_id, numbers in topics
            ),
            *missing,
        ],
        error_code=0,
    )


def _has_lag(summary: StateSummary | None) -> bool:
    return (
        summary is not None
        and summary.code is Code.NONE
        and UNKNOWN not in (summary.start_offset, summary.delivery_complete_count)
    )


def _partition(
    number: int, summary: StateSummary | None, ends: Ends
) -> DescribeShareGroupOffsetsResponsePartition:
    """What is not known is -1, not an error."""
    if summary is None or summary.code is not Code.NONE:
        return _unknown(number)
    lag = UNKNOWN
    if _has_lag(summary):
        end = ends[summary.key]
        if isinstance(end, KafkaError):
            return DescribeShareGroupOffsetsResponsePartition(
                partition_index=number,
                start_offset=0,
                leader_epoch=0,
                error_code=end.code,
                error_message=end.detail,
            )
        lag = max(0, end - summary.start_offset - summary.delivery_complete_count)
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=number,
        start_offset=summary.start_offset,
        leader_epoch=max(0, summary.leader_epoch),
        lag=lag,
        error_code=0,
    )


def _unknown(number: int) -> DescribeShareGroupOffsetsResponsePartition:
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=number, start_offset=UNKNOWN, leader_epoch=0, error_code=0
    )


def _missing(name: str, numbers: list[int]) -> DescribeShareGroupOffsetsResponseTopic:
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=name, topic_id=NO_TOPIC_ID, partitions=[_unknown(number) for number in numbers]
    )


def refused(group_id: str, code: Code, why: str | None) -> DescribeShareGroupOffsetsResponseGroup:
    return DescribeShareGroupOffsetsResponseGroup(
        group_id=group_id, topics=[], error_code=code, error_message=why
    )


async def _end_offsets(broker: "GroupsContext", keys: list[tuple[UUID, int]]) -> Ends:
    """From the leaders of the partitions."""
    ends: Ends = {}
    elsewhere: dict[BrokerId, dict[str, list[tuple[UUID, int]]]] = {}
    for key in keys:
        topic = broker.topics.by_id(key[0])
        if topic is None or key[1] >= len(topic.partitions):
            ends[key] = Retriable(Code.UNKNOWN_TOPIC_OR_PARTITION, "the topic was deleted")
            continue
        partition = topic.partitions[key[1]]
        if partition.role is Role.LEADER:
            delay = partition.delay
            try:
                ends[key] = partition.log.high_watermark if delay is None else delay.end()
            except KafkaError as error:
                ends[key] = error
        elif partition.leader < 0 or broker.cluster is None:
            ends[key] = Retriable(Code.LEADER_NOT_AVAILABLE, "the partition has no leader")
        else:
            leader = BrokerId(partition.leader)
            elsewhere.setdefault(leader, {}).setdefault(topic.name, []).append(key)
    calls = [_ask(broker, leader, topics, ends) for leader, topics in elsewhere.items()]
    await asyncio.gather(*calls)
    return ends


async def _ask(
    broker: "GroupsContext", leader: BrokerId, topics: dict[str, list[tuple[UUID, int]]], ends: Ends
) -> None:
    assert broker.cluster is not None
    request = ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsTopic(
                name=name,
                partitions=[
                    ListOffsetsPartition(partition_index=number, timestamp=LATEST)
                    for _, number in keys
                ],
            )
            for name, keys in topics.items()
        ],
    )
    try:
        response = await broker.cluster.peers.call(leader, request, timeout_ms=ANSWER_MS_MAX)
    except KafkaError as error:
        ends.update({key: error for keys in topics.values() for key in keys})
        return
    assert isinstance(response, ListOffsetsResponse)
    found = {
        (topic.name, each.partition_index): each
        for topic in response.topics
        for each in topic.partitions
    }
    for name, keys in topics.items():
        for key in keys:
            answer = found[name, key[1]]
            code = Code.of(answer.error_code)
            ends[key] = answer.offset if code is Code.NONE else Retriable(code)

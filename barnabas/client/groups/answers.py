"""Reads the brokers' responses about groups, and builds the fetch request for one record. No IO."""

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.client.consumer.offset_lookup import Committed
from barnabas.client.errors import check
from barnabas.client.groups.report import MemberReport, StreamsSubtopology
from barnabas.coordinators.groups.subscription import partitions_of, topics_of
from barnabas.model.ids import TopicPartition
from barnabas.model.ports import FileSlice
from barnabas.wire.batch import HEADER, HEADER_SIZE, BatchHeader, time_about
from barnabas.wire.messages import consumer_group_describe, describe_groups, fetch, offset_fetch


class Description(NamedTuple):
    """A group as its coordinator describes it. `epoch` is known for the consumer protocol only."""

    group: str
    state: str
    type: str
    protocol_type: str
    assignor: str
    epoch: int | None
    members: tuple[MemberReport, ...]
    subtopologies: tuple[StreamsSubtopology, ...] = ()


def committed(
    topics: Iterable[
        offset_fetch.OffsetFetchResponseTopics | offset_fetch.OffsetFetchResponseTopic
    ],
    group: str,
) -> dict[TopicPartition, Committed]:
    found: dict[TopicPartition, Committed] = {}
    for topic in topics:
        for each in topic.partitions:
            at = TopicPartition(topic.name, each.partition_index)
            check(each.error_code, about=f"group {group!r}, {at}")
            if each.committed_offset >= 0:
                found[at] = Committed(
                    each.committed_offset, each.committed_leader_epoch, each.metadata or ""
                )
    return found


def new_member(member: consumer_group_describe.Member) -> MemberReport:
    topics = tuple(member.subscribed_topic_names)
    if member.subscribed_topic_regex:
        topics = (*topics, f"/{member.subscribed_topic_regex}/")
    return MemberReport(
        member.member_id,
        member.client_id,
        member.client_host,
        member.instance_id,
        topics,
        tuple(
            TopicPartition(topic.topic_name, partition)
            for topic in member.assignment.topic_partitions
            for partition in topic.partitions
        ),
    )


def classic_member(member: describe_groups.DescribedGroupMember, is_consumer: bool) -> MemberReport:
    """Only the consumer protocol is read: other programs (Kafka Connect) have their own formats."""
    metadata, assignment = bytes(member.member_metadata), bytes(member.member_assignment)
    return MemberReport(
        member.member_id,
        member.client_id,
        member.client_host,
        member.group_instance_id,
        (topics_of(metadata) or ()) if is_consumer else (),
        (partitions_of(assignment) or ()) if is_consumer else (),
    )


def one_batch(at: TopicPartition, offset: int) -> fetch.FetchRequest:
    """A broker returns at least one batch, however small the limit is."""
    return fetch.FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1,
        topics=[
            fetch.FetchTopic(
                topic=at.topic,
                partitions=[
                    fetch.FetchPartition(
                        partition=at.partition, fetch_offset=offset, partition_max_bytes=1
                    )
                ],
            )
        ],
    )


def time_of(response: fetch.FetchResponse, offset: int) -> int | None:
    for topic in response.responses:
        for partition in topic.partitions:
            records = partition.records
            if partition.error_code or records is None or isinstance(records, FileSlice):
                return None
            if len(records) < HEADER_SIZE:
                return None
            header = BatchHeader._make(HEADER.unpack_from(memoryview(records)))
            return time_about(header, offset)
    return None

"""Builds the requests of a transaction that list partitions, and takes their answers apart;
checks the offsets that a user gives.

Not here: when they are sent, and what the codes mean (transactions.py).
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from barnabas.client.group_metadata import GroupMetadata
from barnabas.config.option import invalid
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from barnabas.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

Offset = int | tuple[int, int, str]
"""Of the next record to read; or a `Committed`, which also has a leader epoch and metadata."""
Offsets = Mapping[TopicPartition, Offset] | Mapping[tuple[str, int], Offset]


class Producing(NamedTuple):
    """Who sends it."""

    transactional_id: str
    producer_id: int
    epoch: int


def add_partitions(
    who: Producing, partitions: Iterable[TopicPartition]
) -> AddPartitionsToTxnRequest:
    topics: dict[str, list[int]] = {}
    for at in partitions:
        topics.setdefault(at.topic, []).append(at.partition)
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=who.transactional_id,
        v3_and_below_producer_id=who.producer_id,
        v3_and_below_producer_epoch=who.epoch,
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name=name, partitions=numbers)
            for name, numbers in topics.items()
        ],
    )


def codes_of_partitions(response: AddPartitionsToTxnResponse) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic.name, result.partition_index): result.partition_error_code
        for topic in response.results_by_topic_v3_and_below
        for result in topic.results_by_partition
    }


def commit_offsets(
    who: Producing,
    group: GroupMetadata,
    offsets: Mapping[TopicPartition, tuple[int, int, str]],
) -> TxnOffsetCommitRequest:
    """Of offsets, each with the leader epoch of the record before it, and metadata."""
    topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
    for at, (offset, leader_epoch, metadata) in offsets.items():
        topics.setdefault(at.topic, []).append(
            TxnOffsetCommitRequestPartition(
                partition_index=at.partition,
                committed_offset=offset,
                committed_leader_epoch=leader_epoch,
                committed_metadata=metadata,
            )
        )
    return TxnOffsetCommitRequest(
        transactional_id=who.transactional_id,
        group_id=group.group_id,
        producer_id=who.producer_id,
        producer_epoch=who.epoch,
        generation_id=group.generation,
        member_id=group.member_id,
        group_instance_id=group.instance_id,
        topics=[TxnOffsetCommitRequestTopic(name=n, partitions=p) for n, p in topics.items()],
    )


def codes_of_offsets(response: TxnOffsetCommitResponse) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic.name, answer.partition_index): answer.error_code
        for topic in response.topics
        for answer in topic.partitions
    }


def places_of(offsets: Offsets) -> dict[TopicPartition, tuple[int, int, str]]:
    """Offsets as the user gave them, checked: of the next records to read."""
    if not isinstance(offsets, Mapping):
        raise TypeError(
            "offsets are given as in {('orders', 0): 42}, the offsets of the next records to read,"
            f" not {offsets!r:.100}"
        )
    places: dict[TopicPartition, tuple[int, int, str]] = {}
    given: Mapping[Any, Any] = offsets
    for at, place in given.items():
        whole = place if isinstance(place, tuple) else (place, -1, "")
        if not isinstance(whole[0], int) or whole[0] < 0:
            raise invalid(f"{at}: {place!r:.100} is not the offset of the next record to read")
        places[TopicPartition(*at)] = whole
    return places

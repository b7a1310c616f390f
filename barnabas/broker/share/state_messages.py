"""Requests for the state of share partitions (API keys 83 to 87): built, read and answered.

In: what is asked, as values; or a request of another broker. Out: a request; or a response.
Always: the response names each partition of the request, in its order.
Not here: what the coordinator decides (coordinators/share/state_shard.py).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from barnabas.broker.net.deferred_reply import settled
from barnabas.broker.share.coordination import ShareCoordination, ShareOperation
from barnabas.coordinators.share.keys import (
    SharePartitionKey,
    StateKey,
    StateResult,
    StateSummary,
)
from barnabas.coordinators.share.state_batches import StateBatch
from barnabas.coordinators.share.state_shard import StateAnswer, StateRead, StateWrite
from barnabas.model.errors import Code, KafkaError
from barnabas.wire.messages import delete_share_group_state as deleting
from barnabas.wire.messages import initialize_share_group_state as initializing
from barnabas.wire.messages import read_share_group_state as reading
from barnabas.wire.messages import read_share_group_state_summary as summarising
from barnabas.wire.messages import write_share_group_state as writing

T = TypeVar("T")
_CODES = {int(code): code for code in Code}


def _by_topic(values: Iterable[tuple[UUID, T]]) -> dict[UUID, list[T]]:
    topics: dict[UUID, list[T]] = {}
    for topic_id, value in values:
        topics.setdefault(topic_id, []).append(value)
    return topics


def known_code(code: int) -> Code:
    return _CODES.get(code, Code.UNKNOWN_SERVER_ERROR)


# Requests to another broker


def write_request(group: str, writes: list[StateWrite]) -> writing.WriteShareGroupStateRequest:
    parts = _by_topic(
        (
            write.key.topic_id,
            writing.PartitionData(
                partition=write.key.partition,
                state_epoch=write.state_epoch,
                leader_epoch=write.leader_epoch,
                start_offset=write.start_offset,
                delivery_complete_count=write.complete_count,
                state_batches=[
                    writing.StateBatch(
                        first_offset=batch.first,
                        last_offset=batch.last,
                        delivery_state=batch.state,
                        delivery_count=batch.attempts,
                    )
                    for batch in write.batches
                ],
            ),
        )
        for write in writes
    )
    topics = [writing.WriteStateData(topic_id=id_, partitions=each) for id_, each in parts.items()]
    return writing.WriteShareGroupStateRequest(group_id=group, topics=topics)


def read_request(
    group: str, asked: list[tuple[StateKey, int]]
) -> reading.ReadShareGroupStateRequest:
    parts = _by_topic(
        (key.topic_id, reading.PartitionData(partition=key.partition, leader_epoch=epoch))
        for key, epoch in asked
    )
    topics = [reading.ReadStateData(topic_id=id_, partitions=each) for id_, each in parts.items()]
    return reading.ReadShareGroupStateRequest(group_id=group, topics=topics)


def initialize_request(
    group: str, asked: list[tuple[StateKey, int, int]]
) -> initializing.InitializeShareGroupStateRequest:
    parts = _by_topic(
        (
            key.topic_id,
            initializing.PartitionData(
                partition=key.partition, state_epoch=epoch, start_offset=start
            ),
        )
        for key, epoch, start in asked
    )
    topics = [
        initializing.InitializeStateData(topic_id=id_, partitions=each)
        for id_, each in parts.items()
    ]
    return initializing.InitializeShareGroupStateRequest(group_id=group, topics=topics)


def delete_request(group: str, keys: list[StateKey]) -> deleting.DeleteShareGroupStateRequest:
    parts = _by_topic(
        (key.topic_id, deleting.PartitionData(partition=key.partition)) for key in keys
    )
    topics = [
        deleting.DeleteStateData(topic_id=id_, partitions=each) for id_, each in parts.items()
    ]
    return deleting.DeleteShareGroupStateRequest(group_id=group, topics=topics)


def summary_request(
    group: str, keys: list[StateKey]
) -> summarising.ReadShareGroupStateSummaryRequest:
    parts = _by_topic(
        (key.topic_id, summarising.PartitionData(partition=key.partition, leader_epoch=-1))
        for key in keys
    )
    topics = [
        summarising.ReadStateSummaryData(topic_id=id_, partitions=each)
        for id_, each in parts.items()
    ]
    return summarising.ReadShareGroupStateSummaryRequest(group_id=group, topics=topics)


# Responses of another broker


def _results(response: Any) -> Mapping[SharePartitionKey, StateResult]:
    return {
        (topic.topic_id, each.partition): StateResult(
            (topic.topic_id, each.partition), known_code(each.error_code), each.error_message or ""
        )
        for topic in response.results
        for each in topic.partitions
    }


write_results = initialize_results = delete_results = _results


def read_results(
    response: reading.ReadShareGroupStateResponse,
) -> Mapping[SharePartitionKey, StateRead]:
    return {
        (topic.topic_id, each.partition): StateRead(
            StateKey("", topic.topic_id, each.partition),
            known_code(each.error_code),
            each.state_epoch,
            each.start_offset,
            tuple(
                StateBatch(
                    batch.first_offset,
                    batch.last_offset,
                    batch.delivery_state,
                    batch.delivery_count,
                )
                for batch in each.state_batches
            ),
            each.error_message or "",
        )
        for topic in response.results
        for each in topic.partitions
    }


def summary_results(
    response: summarising.ReadShareGroupStateSummaryResponse,
) -> Mapping[SharePartitionKey, StateSummary]:
    return {
        (topic.topic_id, each.partition): StateSummary(
            (topic.topic_id, each.partition),
            known_code(each.error_code),
            each.state_epoch,
            each.leader_epoch,
            each.start_offset,
            each.delivery_complete_count,
            each.error_message or "",
        )
        for topic in response.results
        for each in topic.partitions
    }


# Requests of other brokers


class PartitionAnswer(NamedTuple):
    """`result` is None where the coordinator of the partition was not asked."""

    key: StateKey
    code: Code
    result: Any

    @property
    def message(self) -> str | None:
        return (self.result and self.result.message) or None


class TopicAnswers(NamedTuple):
    topic_id: UUID
    partitions: list[PartitionAnswer]


async def answered(
    coordination: ShareCoordination,
    request: Any,
    asked: Callable[[StateKey, Any], Any],
    operation: Callable[[list[Any]], ShareOperation],
) -> list[TopicAnswers]:
    """`asked`: from a partition of the request, the value that the operation takes."""
    values = {
        StateKey(request.group_id, topic.topic_id, each.partition): each
        for topic in request.topics
        for each in topic.partitions
    }
    found = await _ask_shards(
        coordination, {key: asked(key, each) for key, each in values.items()}, operation
    )
    return [
        TopicAnswers(
            topic.topic_id,
            [
                PartitionAnswer(key, *found[key])
                for each in topic.partitions
                for key in (StateKey(request.group_id, topic.topic_id, each.partition),)
            ],
        )
        for topic in request.topics
    ]


async def _ask_shards(
    coordination: ShareCoordination,
    keys: dict[StateKey, Any],
    operation: Callable[[list[Any]], ShareOperation],
) -> dict[StateKey, tuple[Code, Any]]:
    """The code and the result of each key; the shards run at once, the replies are awaited."""
    found: dict[StateKey, tuple[Code, Any]] = {}
    replies = []
    by_shard: dict[int, list[StateKey]] = {}
    for key in keys:
        try:
            by_shard.setdefault(coordination.index_of(key), []).append(key)
        except KafkaError as error:
            found[key] = (error.code, None)
    for index, shared in by_shard.items():
        try:
            reply = coordination.run(index, operation([keys[key] for key in shared]))
        except KafkaError as error:
            found.update((key, (error.code, None)) for key in shared)
        else:
            replies.append((shared, reply))
    for shared, reply in replies:
        answer: StateAnswer = await settled(reply)
        results: list[Any] = answer.results or answer.reads or answer.summaries or []
        for key, result in zip(shared, results, strict=True):
            found[key] = (result.code, result)
    return found

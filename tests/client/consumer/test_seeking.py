"""Offsets that a consumer looks up while leaders change."""

import pytest

import barnabas.sync
from barnabas.model.errors import Code
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tests.client.impostor import METADATA, Impostor, Request

LIST_OFFSETS = 2
ENDS = {0: 5, 1: 7}


@pytest.mark.parametrize("by_time", [False, True], ids=["ends", "times"])
def test_offsets_are_complete_although_a_leader_moves_meanwhile(by_time: bool) -> None:
    """A caller that stops at the ends it is told would never stop in a partition left out."""
    asked: list[list[int]] = []
    refusals = {0: 1, 1: 0}  # by partition: how often its broker does not lead it

    def behave(request: Request) -> None:
        if request.key == METADATA:
            request.answer(impostor.metadata(partitions=2))
            return
        assert request.key == LIST_OFFSETS
        (topic,) = request.message.topics
        asked.append([each.partition_index for each in topic.partitions])
        answers = []
        for each in topic.partitions:
            code, offset = Code.NONE, ENDS[each.partition_index]
            if each.timestamp >= 0:
                offset = -1  # no record is as late
            elif refusals[each.partition_index]:
                refusals[each.partition_index] -= 1
                code, offset = Code.NOT_LEADER_OR_FOLLOWER, -1
            answers.append(
                ListOffsetsPartitionResponse(
                    partition_index=each.partition_index, error_code=code, offset=offset
                )
            )
        found = ListOffsetsTopicResponse(name="t", partitions=answers)
        request.answer(ListOffsetsResponse(topics=[found]))

    with Impostor(behave) as impostor:
        partitions = [("t", 0), ("t", 1)]
        with barnabas.sync.PartitionConsumer(
            partitions, bootstrap_servers=impostor.address, retry_backoff_ms=1
        ) as consumer:
            if by_time:
                ends = consumer.offsets_for_times(dict.fromkeys(partitions, 1))
            else:
                ends = consumer.end_offsets()
    assert ends == {TopicPartition("t", number): end for number, end in ENDS.items()}
    assert asked[-1] == [0]

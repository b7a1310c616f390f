"""Replies of `fail`: each can be sent, in every version, and has the error."""

import pytest

from barnabas.broker.net.dispatch import HANDLERS
from barnabas.model.errors import Code
from barnabas.testing.error_replies import READS, error_reply, with_error
from barnabas.wire.apis import APIS
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.testing.any_request import request_of

CHANGES = sorted(
    key for key in HANDLERS if key not in READS and key < 20_000 and key not in (17, 36)
)


@pytest.mark.parametrize("key", CHANGES, ids=lambda key: APIS[key].name)
def test_a_refused_request_has_a_reply_in_every_version(key: int) -> None:
    for version in range(APIS[key].min_version, APIS[key].max_version + 1):
        request = request_of(APIS[key].request)
        reply = error_reply(request, Code.NOT_CONTROLLER, version)
        assert reply is not None
        assert type(reply).decode(reply.encode(version), version) is not None
        assert "error_code=" in repr(reply) or "errors=" in repr(reply)


def test_the_partitions_of_the_request_come_back_with_the_error() -> None:
    request = OffsetCommitRequest(
        group_id="billing",
        member_id="",
        topics=[
            OffsetCommitRequestTopic(
                name="orders",
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=n, committed_offset=7, committed_metadata=None
                    )
                    for n in (0, 2)
                ],
            )
        ],
    )
    reply = error_reply(request, Code.REBALANCE_IN_PROGRESS, 8)
    assert isinstance(reply, OffsetCommitResponse)
    (topic,) = reply.topics
    assert topic.name == "orders"
    assert [(each.partition_index, each.error_code) for each in topic.partitions] == [
        (0, Code.REBALANCE_IN_PROGRESS),
        (2, Code.REBALANCE_IN_PROGRESS),
    ]
    assert with_error(reply, Code.NONE).topics[0].partitions[0].error_code == Code.NONE


def test_a_producer_that_wants_no_reply_gets_none() -> None:
    data = TopicProduceData(
        name="orders", partition_data=[PartitionProduceData(index=0, records=memoryview(b""))]
    )
    request = ProduceRequest(transactional_id=None, acks=0, timeout_ms=1, topic_data=[data])
    assert error_reply(request, Code.INVALID_RECORD, 9) is None

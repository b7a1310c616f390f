"""A broker killed at random moments keeps its word; `make kills RUNS=1000` for more of it."""

import pytest

from barnabas.model.ids import NO_TOPIC_ID
from barnabas.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from barnabas.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from barnabas.wire.records import decode_batch
from tests.conftest import StartBroker
from tests.kill.ledger import Mark, PartitionLedger, Violation
from tests.kill.rounds import run_all
from tests.raw import RawClient, batch_of, records_in
from tests.share import SEED

RUNS = 15


@pytest.mark.timeout(1800)
def test_every_acknowledged_record_is_there_after_a_kill_and_none_twice() -> None:
    done = run_all(RUNS, SEED, say=lambda _: None)
    assert done.acknowledged > RUNS
    assert sum(done.kills.values()) == RUNS


def test_a_topic_created_again_keeps_its_records_whatever_was_trimmed_before(
    start_broker: StartBroker,
) -> None:
    """What the checkpoints say of a deleted log must not be taken for its successor's."""
    broker = start_broker()
    values = [b"%d" % number for number in range(50)]
    with RawClient(broker.host, broker.port) as client:
        assert client.create_topic("t") == 0
        assert client.produce("t", batch_of(*values, *values)).error_code == 0
        _trim(client, "t", 80)
    broker.restart()
    with RawClient(broker.host, broker.port) as client:
        _delete(client, "t")
        assert client.create_topic("t") == 0
        assert client.produce("t", batch_of(*values)).error_code == 0
    broker.kill()
    broker.start()
    with RawClient(broker.host, broker.port) as client:
        found = decode_batch(records_in(client.fetch("t", 0)))
    assert [record.value for record in found] == values


def _trim(client: RawClient, topic: str, offset: int) -> None:
    partition = DeleteRecordsPartition(partition_index=0, offset=offset)
    asked = DeleteRecordsTopic(name=topic, partitions=[partition])
    answer = client.call(
        DeleteRecordsRequest(topics=[asked], timeout_ms=60_000), 2, DeleteRecordsResponse
    )
    assert answer.topics[0].partitions[0].error_code == 0


def _delete(client: RawClient, topic: str) -> None:
    doomed = DeleteTopicState(name=topic, topic_id=NO_TOPIC_ID)
    request = DeleteTopicsRequest(topics=[doomed], timeout_ms=60_000)
    assert client.call(request, 6, DeleteTopicsResponse).responses[0].error_code == 0


def ledger_with(*marks: Mark) -> PartitionLedger:
    ledger = PartitionLedger("t-0")
    for offset, mark in enumerate(marks):
        ledger.found(offset, mark)
    return ledger


def test_the_ledger_sees_a_loss() -> None:
    ledger = ledger_with(Mark("p", 0))
    ledger.acknowledged(1, Mark("p", 1))
    with pytest.raises(Violation, match="not there"):
        ledger.check_read(2)
    with pytest.raises(Violation, match="where 1 was next"):
        ledger_with(Mark("p", 0), Mark("p", 2))


def test_the_ledger_sees_a_record_twice() -> None:
    with pytest.raises(Violation, match="again"):
        ledger_with(Mark("p", 0), Mark("p", 0))


def test_the_ledger_sees_a_hole_and_another_record_in_the_place() -> None:
    with pytest.raises(Violation, match="offset 3 follows 0"):
        ledger_with(Mark("p", 0)).found(3, Mark("p", 1))
    ledger = ledger_with(Mark("p", 0))
    ledger.acknowledged(1, Mark("p", 1))
    with pytest.raises(Violation, match="acknowledged"):
        ledger.found(1, Mark("q", 0))
    with pytest.raises(Violation, match="acknowledged"):
        ledger.acknowledged(0, Mark("q", 0))

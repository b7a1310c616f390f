"""Makes a hanging transaction: open in a partition, and known to no coordinator.

Only a broker that does not ask the coordinator before it appends lets this happen.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import barnabas.sync
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from barnabas.wire.records import Record, encode_batch
from tests.raw import RawClient
from tests.waiting import until

VERIFICATION = "transaction.partition.verification.enable"
UNKNOWN_PRODUCER = 987_654
EPOCH = 1
VERIFIED_UNTIL = 11  # of Produce: later versions add the partition to the transaction


@contextmanager
def unverified(servers: str) -> Iterator[None]:
    """The broker appends to transactions that it has not verified."""
    with barnabas.sync.Admin(bootstrap_servers=servers) as admin:
        admin.alter_broker(None, put={VERIFICATION: "false"})
        try:
            yield
        finally:
            admin.alter_broker(None, reset=[VERIFICATION])


def leave_hanging(servers: str, at: TopicPartition, producer_id: int = UNKNOWN_PRODUCER) -> int:
    """The first offset of the transaction. A broker may need a moment to apply the option."""
    with barnabas.sync.Admin(bootstrap_servers=servers) as admin:
        view = admin.topics()
    leader = view.brokers[view.leader(at)].address
    batch = encode_batch(
        [Record(0, time.time_ns() // 1_000_000, b"k", b"v")],
        producer_id=producer_id,
        producer_epoch=EPOCH,
        base_sequence=0,
        transactional=True,
    )
    data = PartitionProduceData(index=at.partition, records=batch)
    request = ProduceRequest(
        transactional_id="late",
        acks=-1,
        timeout_ms=10_000,
        topic_data=[TopicProduceData(name=at.topic, partition_data=[data])],
    )
    results: list[PartitionProduceResponse] = []
    with RawClient(leader.host, leader.port) as client:

        def appended() -> bool:
            answer = client.call(request, VERIFIED_UNTIL, ProduceResponse)
            results.append(answer.responses[0].partition_responses[0])
            return results[-1].error_code == 0

        until(appended, lambda: f"error code {results[-1].error_code}")
    return results[-1].base_offset

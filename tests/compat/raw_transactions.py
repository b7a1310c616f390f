"""A transactional producer without manners: any id, any epoch, any order of requests.

In: what to ask. Out: the code of the answer. It finds the coordinator; topics are led by the
broker that was named.
"""

from struct import pack
from typing import Any

from barnabas.model.errors import Code
from barnabas.wire.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from barnabas.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from barnabas.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from barnabas.wire.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from barnabas.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from barnabas.wire.records import Record, encode_batch
from tests.compat.conftest import Address
from tests.raw import RawClient
from tests.waiting import until

WAITING = (Code.COORDINATOR_NOT_AVAILABLE, Code.COORDINATOR_LOAD_IN_PROGRESS)


class RawProducer:
    """One transactional id. `producer_id` and `epoch` are those of the last `init`; a test may
    claim others."""

    def __init__(self, broker: Address, id_: str) -> None:
        self.id = id_
        self.producer_id = -1
        self.epoch = -1
        self.sequence = 0
        self.leader = RawClient(broker.host, broker.port)
        self.coordinator = self._find()

    def close(self) -> None:
        self.leader.close()
        self.coordinator.close()

    def _find(self) -> RawClient:
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=[self.id])
        found: list[Any] = []

        def there() -> bool:
            found[:] = self.leader.call(request, 4, FindCoordinatorResponse).coordinators
            return found[0].error_code not in WAITING

        until(there, lambda: found)
        assert found[0].error_code == 0, found
        return RawClient(found[0].host, found[0].port)

    def init(self, *, timeout_ms: int = 60_000, again: bool = True) -> Code:
        request = InitProducerIdRequest(transactional_id=self.id, transaction_timeout_ms=timeout_ms)
        codes: list[Code] = []

        def done() -> bool:
            said = self.coordinator.call(request, 4, InitProducerIdResponse)
            codes.append(Code.of(said.error_code))
            if said.error_code == 0:
                self.producer_id, self.epoch = said.producer_id, said.producer_epoch
                self.sequence = 0
            passing = (*WAITING, Code.CONCURRENT_TRANSACTIONS, Code.NOT_COORDINATOR)
            return not again or codes[-1] not in passing

        until(done, lambda: codes[-1])
        return codes[-1]

    def add(self, topic: str, *partitions: int) -> set[Code]:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))],
        )
        said = self.coordinator.call(request, 3, AddPartitionsToTxnResponse)
        return {
            Code.of(each.partition_error_code)
            for found in said.results_by_topic_v3_and_below
            for each in found.results_by_partition
        }

    def add_offsets(self, group: str) -> Code:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id=group,
        )
        said = self.coordinator.call(request, 3, AddOffsetsToTxnResponse)
        return Code.of(said.error_code)

    def produce(self, topic: str, value: bytes, *, version: int = 11) -> Code:
        """To partition 0."""
        records = encode_batch(
            [Record(0, 1_700_000_000_000, None, value)],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            transactional=True,
        )
        code = self.produce_bytes(topic, records, version=version)
        if code is Code.NONE:
            self.sequence += 1
        return code

    def produce_bytes(self, topic: str, records: bytearray, *, version: int = 11) -> Code:
        data = PartitionProduceData(index=0, records=records)
        request = ProduceRequest(
            transactional_id=self.id,
            acks=-1,
            timeout_ms=60_000,
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        )
        said = self.leader.call(request, version, ProduceResponse)
        return Code.of(said.responses[0].partition_responses[0].error_code)

    def end(self, *, commit: bool, version: int = 3) -> Code:
        """From version 5 on, the producer goes on with the epoch of the answer."""
        request = EndTxnRequest(
            transactional_id=self.id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        said = self.coordinator.call(request, version, EndTxnResponse)
        if version >= 5 and said.error_code == 0:
            self.producer_id, self.epoch = said.producer_id, said.producer_epoch
            self.sequence = 0
        return Code.of(said.error_code)

    def state(self) -> str:
        """The name of its state, or of the error."""
        request = DescribeTransactionsRequest(transactional_ids=[self.id])
        said = self.coordinator.call(request, 0, DescribeTransactionsResponse)
        (found,) = said.transaction_states
        return Code.of(found.error_code).name if found.error_code else found.transaction_state


def control_batch(producer_id: int, epoch: int, *, commit: bool) -> bytearray:
    """A marker, as only coordinators may write it."""
    return encode_batch(
        [Record(0, 1_700_000_000_000, pack(">hh", 0, int(commit)), pack(">hi", 0, 0))],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=-1,
        transactional=True,
        control=True,
    )


def write_marker(
    client: RawClient, topic: str, partition: int, producer_id: int, epoch: int
) -> Code:
    marker = WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])],
        coordinator_epoch=0,
    )
    request = WriteTxnMarkersRequest(markers=[marker])
    said = client.call(request, 1, WriteTxnMarkersResponse)
    return Code.of(said.markers[0].topics[0].partitions[0].error_code)

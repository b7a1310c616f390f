"""Every message at every version, against another implementation where it knows the version."""

import io
from collections.abc import Callable
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_entity_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import LoadableEntityType, api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from barnabas.wire.apis import APIS
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages import (
    describe_share_group_offsets,
    share_acknowledge,
    share_fetch,
    write_share_group_state,
)
from barnabas.wire.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from barnabas.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from tests.wire.samples import CASES, MESSAGES, case_name, few, messages


def kio_name(message: type[ProtocolMessage]) -> tuple[str, LoadableEntityType]:
    """What the other implementation calls it; "" if it has no such API."""
    if message.api_key < 0:
        return f"consumer_protocol_{message.__name__[16:].lower()}", EntityType.data
    name = api_key_map.get(message.api_key, "")
    if message.__name__.endswith("Request"):
        return name, EntityType.request
    return name, EntityType.response


def known_to_kio(message: type[ProtocolMessage], version: int) -> bool:
    """Without loading its class: this is asked of all messages before any test runs."""
    name, kind = kio_name(message)
    return kind in schema_name_map.get(name, {}).get(version, {})


OWN_API_KEYS = 20_000  # and above: APIs that only Barnabas has
KNOWN_TO_KIO = [case for case in CASES if known_to_kio(*case)]


def plain(value: object) -> object:
    """A value of either implementation, in words that both share."""
    if isinstance(value, ErrorCode):
        return int(value.value)
    if isinstance(value, timedelta):
        return value // timedelta(milliseconds=1)
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, memoryview):
        return bytes(value)
    if value == UUID(int=0):
        return None
    return value


def assert_same(ours: Any, theirs: Any) -> None:
    names = {name.removesuffix("_ms"): name for name in type(ours).wire_fields}
    names |= {name: name for name in type(ours).wire_fields}
    for field in fields(theirs):
        mine, other = getattr(ours, names[field.name]), getattr(theirs, field.name)
        if hasattr(other, "__type__"):
            assert_same(mine, other)
        elif isinstance(other, tuple) and other and hasattr(other[0], "__type__"):
            assert len(mine) == len(other)
            for my_item, other_item in zip(mine, other, strict=True):
                assert_same(my_item, other_item)
        elif other is None and mine == -1:
            pass  # a time that is not there
        else:
            assert plain(mine) == plain(other), field.name


def comparison_with_kio(
    message: type[ProtocolMessage], version: int
) -> Callable[[ProtocolMessage, bytes], None]:
    """It reads our bytes as we meant them, and writes the same."""
    name, kind = kio_name(message)
    schema = load_entity_schema(name, version, kind)
    read, write = entity_reader(schema), entity_writer(schema)

    def compare(ours: ProtocolMessage, data: bytes) -> None:
        theirs, size = read(data, 0)
        assert size == len(data)
        assert_same(ours, theirs)
        out = io.BytesIO()
        write(out, theirs)
        assert out.getvalue() == data

    return compare


@pytest.mark.parametrize(("message", "version"), CASES, ids=case_name)
def test_we_and_another_implementation_read_what_we_write(
    message: type[ProtocolMessage], version: int
) -> None:
    """We, from any buffer and position; the other one, where it knows the version."""
    known = known_to_kio(message, version)
    compare = comparison_with_kio(message, version) if known else None

    @few
    @given(messages(message, version), st.sampled_from([bytes, bytearray, memoryview]))
    def check(sent: ProtocolMessage, buffer: Any) -> None:
        data = sent.encode(version)
        assert message.decode(buffer(data), version) == sent
        assert message.decode(buffer(b"front" + data + b"rest"), version, 5) == sent
        if compare is not None:
            compare(sent, data)

    check()


def test_the_other_implementation_covers_most_versions() -> None:
    """Of Kafka's own APIs; else the property above proves little."""
    kafkas = [message for message, _ in CASES if message.api_key < OWN_API_KEYS]
    assert len(KNOWN_TO_KIO) >= 0.9 * len(kafkas)


def test_the_table_and_the_messages_agree_on_versions() -> None:
    for api in APIS.values():
        for message in (api.request, api.response):
            assert message.api_key == api.key
            assert (message.version_min, message.version_max) == (api.min_version, api.max_version)
            assert min(message.flexible_from, 99) == min(api.flexible_from, 99)


def test_every_message_says_what_it_is() -> None:
    assert all(message.__doc__ for message in MESSAGES)


def test_what_the_controller_sends_has_the_bytes_of_kafka_3_9() -> None:
    """No other implementation at hand reads these: bytes written by hand from the schemas."""
    update = UpdateMetadataRequest(
        controller_id=1,
        type=2,
        controller_epoch=3,
        broker_epoch=4,
        topic_states=[
            UpdateMetadataTopicState(
                topic_name="t",
                topic_id=UUID(int=5),
                partition_states=[
                    UpdateMetadataPartitionState(
                        partition_index=6,
                        controller_epoch=3,
                        leader=1,
                        leader_epoch=7,
                        isr=[1],
                        zk_version=8,
                        replicas=[1, 2],
                        offline_replicas=[2],
                    )
                ],
            )
        ],
        live_brokers=[
            UpdateMetadataBroker(
                id=1,
                endpoints=[
                    UpdateMetadataEndpoint(
                        port=9092, host="h", listener="PLAINTEXT", security_protocol=0
                    )
                ],
                rack="r",
            )
        ],
    )
    assert update.encode(8).hex() == (
        "00000001" "00" "00000003" "0000000000000004"
        "02" "0274" "00000000000000000000000000000005"
        "02" "00000006" "00000003" "00000001" "00000007" "0200000001" "00000008"
        "030000000100000002" "0200000002" "00" "00"
        "02" "00000001" "02" "00002384" "0268" "0a504c41494e54455854" "0000" "00" "0272" "00"
        "01" "00" "01" "02"
    )  # fmt: skip
    state = LeaderAndIsrPartitionState(
        partition_index=6,
        controller_epoch=3,
        leader=1,
        leader_epoch=7,
        isr=[1],
        partition_epoch=8,
        replicas=[1, 2],
        adding_replicas=[2],
        removing_replicas=[],
        is_new=True,
        leader_recovery_state=1,
    )
    lead = LeaderAndIsrRequest(
        controller_id=1,
        controller_epoch=3,
        broker_epoch=4,
        type=1,
        topic_states=[
            LeaderAndIsrTopicState(topic_name="t", topic_id=UUID(int=5), partition_states=[state])
        ],
        live_leaders=[LeaderAndIsrLiveLeader(broker_id=1, host_name="h", port=9092)],
    )
    assert lead.encode(7).hex() == (
        "00000001" "00" "00000003" "0000000000000004" "01"
        "02" "0274" "00000000000000000000000000000005"
        "02" "00000006" "00000003" "00000001" "00000007" "0200000001" "00000008"
        "030000000100000002" "0200000002" "01" "01" "01" "00" "00"
        "02" "00000001" "0268" "00002384" "00" "00"
    )  # fmt: skip


def test_a_controller_may_describe_a_cluster_larger_than_any_client_asks_for() -> None:
    state = UpdateMetadataPartitionState(
        partition_index=0,
        controller_epoch=1,
        leader=1,
        leader_epoch=1,
        isr=[1, 2, 3],
        zk_version=1,
        replicas=[1, 2, 3],
    )
    count = 40_000
    topic = UpdateMetadataTopicState(
        topic_name="t", topic_id=UUID(int=1), partition_states=[state] * count
    )
    request = UpdateMetadataRequest(
        controller_id=1, controller_epoch=1, topic_states=[topic], live_brokers=[]
    )
    read = UpdateMetadataRequest.decode(request.encode(8), 8)
    assert len(read.topic_states[0].partition_states) == count


def test_share_messages_that_no_other_implementation_knows_have_the_bytes_of_kafka_4_3() -> None:
    """Written by hand from the schemas."""
    batches = [
        share_fetch.AcknowledgementBatch(first_offset=3, last_offset=4, acknowledge_types=[4])
    ]
    partition = share_fetch.FetchPartition(partition_index=6, acknowledgement_batches=batches)
    fetch = share_fetch.ShareFetchRequest(
        group_id="g",
        member_id="m",
        share_session_epoch=1,
        max_wait_ms=2,
        min_bytes=3,
        max_bytes=4,
        max_records=5,
        batch_size=6,
        share_acquire_mode=1,
        is_renew_ack=True,
        topics=[share_fetch.FetchTopic(topic_id=UUID(int=5), partitions=[partition])],
        forgotten_topics_data=[],
    )
    topics = (
        "02" "00000000000000000000000000000005" "02" "00000006"
        "02" "0000000000000003" "0000000000000004" "0204" "00" "00" "00"
    )  # fmt: skip
    numbers = "00000001" "00000002" "00000003" "00000004" "00000005" "00000006"  # fmt: skip
    assert fetch.encode(2).hex() == f"0267026d{numbers}0101{topics}0100"
    response = share_acknowledge.ShareAcknowledgeResponse(
        error_code=0, acquisition_lock_timeout_ms=7, responses=[], node_endpoints=[]
    )
    assert response.encode(2).hex() == "00000000" "0000" "00" "00000007" "01" "01" "00"  # fmt: skip
    assert response.encode(1).hex() == "00000000" "0000" "00" "01" "01" "00"  # fmt: skip
    write = write_share_group_state.PartitionData(
        partition=1,
        state_epoch=2,
        leader_epoch=3,
        start_offset=4,
        delivery_complete_count=5,
        state_batches=[
            write_share_group_state.StateBatch(
                first_offset=4, last_offset=5, delivery_state=2, delivery_count=1
            )
        ],
    )
    state = write_share_group_state.WriteStateData(topic_id=UUID(int=5), partitions=[write])
    request = write_share_group_state.WriteShareGroupStateRequest(group_id="g", topics=[state])
    assert request.encode(1).hex() == (
        "0267" "02" "00000000000000000000000000000005"
        "02" "00000001" "00000002" "00000003" "0000000000000004" "00000005"
        "02" "0000000000000004" "0000000000000005" "02" "0001" "00" "00" "00" "00"
    )  # fmt: skip
    offsets = describe_share_group_offsets.DescribeShareGroupOffsetsResponsePartition(
        partition_index=1, start_offset=2, leader_epoch=3, lag=4, error_code=0
    )
    topic = describe_share_group_offsets.DescribeShareGroupOffsetsResponseTopic(
        topic_name="t", topic_id=UUID(int=5), partitions=[offsets]
    )
    group = describe_share_group_offsets.DescribeShareGroupOffsetsResponseGroup(
        group_id="g", topics=[topic], error_code=0
    )
    described = describe_share_group_offsets.DescribeShareGroupOffsetsResponse(groups=[group])
    assert described.encode(1).hex() == (
        "00000000" "02" "0267" "02" "0274" "00000000000000000000000000000005"
        "02" "00000001" "0000000000000002" "00000003" "0000000000000004" "0000" "00" "00"
        "00" "0000" "00" "00" "00"
    )  # fmt: skip

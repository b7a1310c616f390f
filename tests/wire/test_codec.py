"""What a definition means: versions, null, defaults, tags, and what instances are like."""

import subprocess
import sys
from uuid import UUID

import pytest

from barnabas.model.errors import Code, InvalidRequest
from barnabas.wire.codec import (
    Int8,
    Int16,
    Int32,
    ProtocolMessage,
    Struct,
    message,
    nullable_since,
    since,
    tagged,
    until,
)
from barnabas.wire.messages.api_versions import ApiVersionsResponse
from barnabas.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.primitives import Malformed


class Thing(Struct):
    size: Int8
    colour: str = since(1, default="red")


@message(versions="0-3", flexible="2+")
class Probe(ProtocolMessage):
    """A message with one of each mark."""

    old: Int16 = until(1, default=7, ignorable=True)
    name: str | None = nullable_since(1)
    things: list[Thing]
    maybe: Thing | None = since(2, default=None)
    late: Int32 = tagged(3, since=2, default=-1)
    early: str | None = tagged(1, since=3, default=None)


def probe(**changes: object) -> Probe:
    return Probe(**({"name": "n", "things": []} | changes))  # type: ignore[arg-type]


def test_a_field_is_on_the_wire_only_in_its_versions() -> None:
    assert probe(things=[Thing(size=2)]).encode(0).hex(" ") == "00 07 00 01 6e 00 00 00 01 02"
    assert probe(things=[Thing(size=2)]).encode(1).endswith(b"\x02\x00\x03red")
    assert probe().encode(2).hex(" ") == "02 6e 01 ff 00"


def test_a_field_that_is_not_there_reads_as_its_default() -> None:
    read = Probe.decode(probe(old=8, things=[Thing(size=1)]).encode(0), 0)
    assert read == probe(old=8, things=[Thing(size=1, colour="red")])
    assert Probe.decode(probe(old=8).encode(2), 2).old == 7


def test_a_value_that_the_version_cannot_carry_is_an_error_unless_it_may_be_dropped() -> None:
    assert probe(old=9).encode(2) == probe().encode(2)
    with pytest.raises(InvalidRequest, match=r"has no things\.colour, which is 'blue'") as caught:
        probe(things=[Thing(size=1, colour="blue")]).encode(0)
    assert caught.value.code is Code.UNSUPPORTED_VERSION
    with pytest.raises(InvalidRequest, match="has no late, which is 5"):
        probe(late=5).encode(1)


def test_null_is_refused_before_the_version_that_allows_it() -> None:
    assert Probe.decode(probe(name=None).encode(1), 1).name is None
    with pytest.raises(InvalidRequest, match="Probe version 0: name"):
        probe(name=None).encode(0)
    with pytest.raises(Malformed, match="name at byte 4: length -1 where null is not allowed"):
        Probe.decode(b"\0\7\xff\xff\0\0\0\0", 0)


def test_tagged_fields_go_out_in_order_of_tag_and_only_when_set() -> None:
    data = probe(late=1, early="x").encode(3)
    assert data.hex(" ") == "02 6e 01 ff 02 01 02 02 78 03 04 00 00 00 01"
    assert Probe.decode(data, 3) == probe(late=1, early="x")
    assert probe(late=-1, early=None).encode(3).endswith(b"\xff\x00")


def test_a_struct_that_may_be_null_is_marked_when_it_is_there() -> None:
    data = probe(maybe=Thing(size=5)).encode(2)
    assert data.hex(" ") == "02 6e 01 01 05 04 72 65 64 00 00"
    assert Probe.decode(data, 2).maybe == Thing(size=5)


@pytest.mark.parametrize(
    "changes",
    [{"old": 1 << 15}, {"old": None}, {"name": "x" * 32768}, {"things": None}, {"things": [1]}],
)
def test_a_value_of_the_wrong_kind_cannot_be_written(changes: dict[str, object]) -> None:
    with pytest.raises(InvalidRequest, match="Probe version 1"):
        probe(**changes).encode(1)


def test_instances_are_frozen_compare_by_value_and_show_their_fields() -> None:
    beat = HeartbeatRequest(group_id="g", generation_id=3, member_id="m")
    assert beat == HeartbeatRequest(group_id="g", generation_id=3, member_id="m")
    assert repr(beat).startswith("HeartbeatRequest(group_id='g', generation_id=3, member_id='m'")
    with pytest.raises(AttributeError):
        beat.group_id = "h"  # type: ignore[misc]
    with pytest.raises(TypeError):
        HeartbeatRequest(group_id="g")  # type: ignore[call-arg]


def test_a_default_array_is_not_shared() -> None:
    one, two = (ApiVersionsResponse(error_code=0, api_keys=[]) for _ in range(2))
    assert one.finalized_features == []
    assert one.finalized_features is not two.finalized_features


def test_records_are_read_in_place() -> None:
    partition = PartitionProduceData(index=0, records=b"batch")
    topic = TopicProduceData(name="t", partition_data=[partition])
    sent = ProduceRequest(acks=1, timeout_ms=5, topic_data=[topic])
    frame = bytearray(sent.encode(9))
    records = ProduceRequest.decode(memoryview(frame), 9).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    frame[frame.index(b"batch")] = ord("c")
    assert bytes(records) == b"catch"


def fetch_response(*payloads: bytes | None) -> FetchResponse:
    partitions = [
        PartitionData(partition_index=index, error_code=0, high_watermark=9, records=records)
        for index, records in enumerate(payloads)
    ]
    topic = FetchableTopicResponse(topic="t", partitions=partitions)
    return FetchResponse(responses=[topic])


def test_empty_records_are_not_null() -> None:
    """librdkafka takes null for an error."""
    read = FetchResponse.decode(fetch_response(b"", None).encode(12), 12)
    first, second = read.responses[0].partitions
    assert first.records == b""
    assert second.records is None


def test_no_topics_and_all_topics_differ_from_version_1_on() -> None:
    assert MetadataRequest(topics=[]).encode(0) == bytes(4)  # means all of them
    assert MetadataRequest(topics=[]).encode(1) == bytes(4)
    assert MetadataRequest(topics=None).encode(1) == b"\xff\xff\xff\xff"
    assert MetadataRequest.decode(b"\xff\xff\xff\xff", 1).topics is None
    with pytest.raises(InvalidRequest):
        MetadataRequest(topics=None).encode(0)


def test_a_topic_asked_for_by_id_has_no_name() -> None:
    topic = MetadataRequestTopic(topic_id=UUID(int=1), name=None)
    read = MetadataRequest.decode(MetadataRequest(topics=[topic]).encode(12), 12)
    assert read.topics == [topic]


def test_a_new_leader_is_sent_only_if_there_is_one() -> None:
    silent = fetch_response(b"").encode(12)
    partition = PartitionData(
        partition_index=0,
        error_code=6,
        high_watermark=9,
        records=b"",
        current_leader=LeaderIdAndEpoch(leader_id=2, leader_epoch=5),
    )
    topic = FetchableTopicResponse(topic="t", partitions=[partition])
    told = FetchResponse(responses=[topic])
    assert len(told.encode(12)) == len(silent) + 11
    assert FetchResponse.decode(told.encode(12), 12) == told


def test_importing_the_wire_imports_no_messages() -> None:
    """They cost start time; each is imported by the module that serves it."""
    code = (
        "import sys, barnabas.wire.frames\n"
        "print([m for m in sys.modules if m.startswith('barnabas.wire.messages')])\n"
        "print('barnabas.wire.decoder' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split("\n")[:2] == ["[]", "False"]

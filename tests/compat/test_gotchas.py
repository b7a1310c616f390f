"""Where brokers that speak Kafka's protocol have broken real clients, one by one, in raw frames.

The numbers are those of a list collected from the issue trackers of clients and brokers.
Not here: 13 and 14, which are about groups.
"""

from collections.abc import Iterator
from struct import pack, unpack_from
from uuid import UUID, uuid4

import pytest

from barnabas.model.errors import Code
from barnabas.wire.apis import API_VERSIONS, APIS
from barnabas.wire.frames import read_response
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from barnabas.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from barnabas.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from barnabas.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from barnabas.wire.records import Record, decode_batch, encode_batch, iter_batches
from tests.compat.conftest import Address
from tests.compat.waiting import until
from tests.raw import RawClient, batch_of, fetch_request, produce_request, records_in

PRODUCE, FETCH, LIST_OFFSETS, METADATA = 0, 1, 2, 3
FETCH_BY_ID = 13
PRODUCE_BY_ID = 13
TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8  # of config resources
EARLIEST, LATEST, MAX_TIMESTAMP = -2, -1, -3


def versions(key: int, since: int = 0) -> list[int]:
    api = APIS[key]
    return list(range(max(since, api.min_version), api.max_version + 1))


@pytest.fixture
def raw(broker: Address) -> Iterator[RawClient]:
    with RawClient(broker.host, broker.port) as connected:
        yield connected


@pytest.fixture
def made(raw: RawClient, topic: str) -> str:
    """A topic of two partitions that is there."""
    assert raw.create_topic(topic, 2) == Code.NONE
    # With us at once; Kafka's brokers hear of a topic a little after its controller.
    until(lambda: not any(raw.fetch(topic, 0, partition=each).error_code for each in (0, 1)))
    return topic


def describe(raw: RawClient, topic: str, version: int = 12) -> MetadataResponseTopic:
    asked = MetadataRequest(
        topics=[MetadataRequestTopic(name=topic)],
        allow_auto_topic_creation=version < 4,
    )
    (found,) = raw.call(asked, version, MetadataResponse).topics
    return found


def id_of(raw: RawClient, topic: str) -> UUID:
    return describe(raw, topic).topic_id


# --- 1: ApiVersions from a client of the future -------------------------------------------------


def test_1_an_unknown_version_of_api_versions_is_answered_in_version_0(raw: RawClient) -> None:
    for version in (5, 99, 0x7FFF):
        raw.send_body(pack(">hhih3sx", API_VERSIONS, version, 4711, 3, b"raw") + b"\x05junk")
        correlation, answer = read_response(raw.receive(), API_VERSIONS, 0)
        assert correlation == 4711
        assert isinstance(answer, ApiVersionsResponse)
        assert answer.error_code == Code.UNSUPPORTED_VERSION
        ranges = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
        assert ranges[API_VERSIONS] == (0, 4)
    # The connection is as good as ever.
    assert raw.call(ApiVersionsRequest(), 0, ApiVersionsResponse).error_code == Code.NONE


@pytest.mark.parametrize("version", versions(API_VERSIONS))
def test_1_the_header_of_api_versions_has_no_tags_in_any_version(
    raw: RawClient, version: int
) -> None:
    asked = ApiVersionsRequest(client_software_name="raw", client_software_version="1.0")
    sent = raw.begin(asked, version)
    frame = raw.receive()
    assert unpack_from(">ih", frame) == (sent, Code.NONE)
    _, answer = read_response(frame, API_VERSIONS, version)
    assert isinstance(answer, ApiVersionsResponse)
    advertised = {each.api_key for each in answer.api_keys}
    assert {PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS} <= advertised


@pytest.mark.parametrize("name", ["-raw", "r a w", "raw.", "", "räw"])
def test_1_a_client_with_an_invalid_name_gets_an_error(raw: RawClient, name: str) -> None:
    asked = ApiVersionsRequest(client_software_name=name, client_software_version="1.0")
    assert raw.call(asked, 3, ApiVersionsResponse).error_code == Code.INVALID_REQUEST


# --- 2: Produce is advertised from 0 ------------------------------------------------------------


def test_2_produce_is_advertised_from_version_0(raw: RawClient) -> None:
    answer = raw.call(ApiVersionsRequest(), 0, ApiVersionsResponse)
    (produce,) = (each for each in answer.api_keys if each.api_key == PRODUCE)
    assert (produce.min_version, produce.max_version) == (0, 13)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_2_the_versions_that_are_only_advertised_are_refused(raw: RawClient, version: int) -> None:
    raw.send_body(pack(">hhih3shii", PRODUCE, version, 1, 3, b"raw", 1, 1000, 0))
    raw.wait_closed()


# --- 3: acks=0 ----------------------------------------------------------------------------------


def test_3_a_produce_without_acks_has_no_answer(raw: RawClient, made: str) -> None:
    raw.begin(produce_request(made, 0, batch_of(b"quiet"), acks=0), 9)
    asked = raw.begin(MetadataRequest(topics=[]), 9)
    correlation, _ = read_response(raw.receive(), METADATA, 9)
    assert correlation == asked
    until(lambda: len(records_in(raw.fetch(made, 0))) > 0)  # other replicas may not have it at once
    ((_, batch),) = iter_batches(records_in(raw.fetch(made, 0)))
    assert [record.value for record in decode_batch(batch)] == [b"quiet"]


def test_3_a_refused_produce_without_acks_closes_the_connection(raw: RawClient, made: str) -> None:
    broken = batch_of(b"broken")
    broken[-1] ^= 0xFF
    raw.begin(produce_request(made, 0, broken, acks=0), 9)
    raw.wait_closed()


# --- 4 and 5: whole batches, and always the first -----------------------------------------------


def test_4_a_fetch_inside_a_batch_gets_the_whole_batch(raw: RawClient, made: str) -> None:
    raw.produce(made, batch_of(b"0", b"1", b"2"))
    raw.produce(made, batch_of(b"3", b"4", b"5"))
    for offset, first in [(0, 0), (1, 0), (2, 0), (3, 3), (4, 3), (5, 3)]:
        found = [
            header.base_offset for header, _ in iter_batches(records_in(raw.fetch(made, offset)))
        ]
        assert found[0] == first, offset


@pytest.mark.parametrize("version", versions(FETCH))
def test_5_the_first_batch_comes_however_small_the_limits(
    raw: RawClient, made: str, version: int
) -> None:
    raw.produce(made, batch_of(b"x" * 10_000))
    raw.produce(made, batch_of(b"y" * 10_000))
    raw.produce(made, batch_of(b"z" * 10_000), partition=1)
    topic_id = id_of(raw, made)
    for limit in (1, 100):
        wanted = [
            FetchPartition(partition=each, fetch_offset=0, partition_max_bytes=limit)
            for each in (0, 1)
        ]
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=limit,
            topics=[FetchTopic(topic=made, topic_id=topic_id, partitions=wanted)],
        )
        answer = raw.call(request, version, FetchResponse)
        first, second = answer.responses[0].partitions
        assert [header.base_offset for header, _ in iter_batches(records_in(first))] == [0]
        assert len(records_in(second)) == 0


# --- 6: records are empty, not null -------------------------------------------------------------


@pytest.mark.parametrize("version", versions(FETCH))
def test_6_a_partition_without_records_has_empty_ones(
    raw: RawClient, made: str, version: int
) -> None:
    topic_id = id_of(raw, made)
    cases = {
        "empty": (made, topic_id, 0, 0, Code.NONE),
        "out of range": (made, topic_id, 0, 5, Code.OFFSET_OUT_OF_RANGE),
        "no partition": (made, topic_id, 7, 0, Code.UNKNOWN_TOPIC_OR_PARTITION),
        "no topic": (
            made + "-not",
            uuid4(),
            0,
            0,
            Code.UNKNOWN_TOPIC_ID if version >= FETCH_BY_ID else Code.UNKNOWN_TOPIC_OR_PARTITION,
        ),
    }
    for case, (topic, id_, partition, offset, code) in cases.items():
        wanted = FetchPartition(
            partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20
        )
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            topics=[FetchTopic(topic=topic, topic_id=id_, partitions=[wanted])],
        )
        answer = raw.call(request, version, FetchResponse)
        (found,) = answer.responses[0].partitions
        assert found.error_code == code, case
        assert found.records is not None, case
        assert len(found.records) == 0, case  # type: ignore[arg-type]


# --- 7: fetch sessions --------------------------------------------------------------------------


class Session:
    """A fetch session, spoken by hand."""

    def __init__(self, raw: RawClient, topic: str) -> None:
        self.raw = raw
        self.topic = topic
        self.id = 0
        self.epoch = 0

    def fetch(self, offsets: dict[int, int], forget: list[int] | None = None) -> dict[int, bytes]:
        """Partition to records, of those the broker had something to say about."""
        wanted = [
            FetchPartition(partition=each, fetch_offset=offset, partition_max_bytes=1 << 20)
            for each, offset in offsets.items()
        ]
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            session_id=self.id,
            session_epoch=self.epoch,
            topics=[FetchTopic(topic=self.topic, partitions=wanted)] if wanted else [],
            forgotten_topics_data=[ForgottenTopic(topic=self.topic, partitions=forget)]
            if forget
            else [],
        )
        answer = self.raw.call(request, 12, FetchResponse)
        if answer.error_code:
            raise ValueError(answer.error_code)
        self.id = answer.session_id
        self.epoch += 1
        return {
            each.partition_index: bytes(records_in(each))
            for topic in answer.responses
            for each in topic.partitions
        }


def test_7_a_session_starts_full_and_goes_on_with_news(raw: RawClient, made: str) -> None:
    session = Session(raw, made)
    assert session.fetch({0: 0, 1: 0}) == {0: b"", 1: b""}, "exactly what was asked for"
    assert session.id != 0
    assert session.fetch({}) == {}, "no news"
    raw.produce(made, batch_of(b"news"), partition=1)
    assert list(session.fetch({})) == [1], "only the one with news"
    assert list(session.fetch({})) == [1], "until the position moves"
    assert list(session.fetch({1: 1})) in ([], [1])
    assert session.fetch({}) == {}


def test_7_a_forgotten_partition_is_not_returned_again(raw: RawClient, made: str) -> None:
    session = Session(raw, made)
    session.fetch({0: 0, 1: 0})
    session.fetch({}, forget=[1])
    raw.produce(made, batch_of(b"a"), partition=0)
    raw.produce(made, batch_of(b"b"), partition=1)
    assert list(session.fetch({})) == [0]
    assert sorted(session.fetch({1: 0})) == [0, 1], "asked for again"


def test_7_a_session_out_of_step_gets_an_error(raw: RawClient, made: str) -> None:
    session = Session(raw, made)
    session.fetch({0: 0})
    session.epoch += 1
    with pytest.raises(ValueError, match=str(int(Code.INVALID_FETCH_SESSION_EPOCH))):
        session.fetch({})
    session.id ^= 1
    with pytest.raises(ValueError, match=str(int(Code.FETCH_SESSION_ID_NOT_FOUND))):
        session.fetch({})


def test_7_a_client_without_a_session_gets_none(raw: RawClient, made: str) -> None:
    request = fetch_request(made, 0, 0)  # epoch -1, as librdkafka sends it
    assert raw.call(request, 12, FetchResponse).session_id == 0


# --- 8: errors that consumers know --------------------------------------------------------------

# What Java's consumer has an answer to; anything else it throws at the user.
KNOWN_TO_CONSUMERS = {
    Code.NONE,
    Code.NOT_LEADER_OR_FOLLOWER,
    Code.REPLICA_NOT_AVAILABLE,
    Code.KAFKA_STORAGE_ERROR,
    Code.FENCED_LEADER_EPOCH,
    Code.OFFSET_NOT_AVAILABLE,
    Code.UNKNOWN_TOPIC_OR_PARTITION,
    Code.UNKNOWN_TOPIC_ID,
    Code.INCONSISTENT_TOPIC_ID,
    Code.OFFSET_OUT_OF_RANGE,
    Code.TOPIC_AUTHORIZATION_FAILED,
    Code.UNKNOWN_LEADER_EPOCH,
    Code.UNKNOWN_SERVER_ERROR,
    Code.CORRUPT_MESSAGE,
}


def fetch_by_id(
    raw: RawClient, topic_id: UUID, *, partition: int = 0, offset: int = 0, epoch: int = -1
) -> PartitionData:
    wanted = FetchPartition(
        partition=partition,
        fetch_offset=offset,
        partition_max_bytes=1 << 20,
        current_leader_epoch=epoch,
    )
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic_id=topic_id, partitions=[wanted])]
    )
    (topic,) = raw.call(request, 17, FetchResponse).responses
    (found,) = topic.partitions
    return found


def test_8_every_error_of_a_partition_is_one_consumers_know(raw: RawClient, made: str) -> None:
    topic_id = id_of(raw, made)
    epoch = describe(raw, made).partitions[0].leader_epoch
    raw.produce(made, batch_of(b"x"))
    found = [
        fetch_by_id(raw, topic_id, offset=-1),
        fetch_by_id(raw, topic_id, offset=-(2**63)),
        fetch_by_id(raw, topic_id, offset=2**63 - 1),
        fetch_by_id(raw, topic_id, partition=-1),
        fetch_by_id(raw, topic_id, partition=2**31 - 1),
        fetch_by_id(raw, topic_id, epoch=epoch + 1),
        fetch_by_id(raw, uuid4()),
        fetch_by_id(raw, UUID(int=0)),
    ]
    assert all(each.error_code for each in found)
    assert {each.error_code for each in found} <= KNOWN_TO_CONSUMERS
    assert found[5].error_code == Code.UNKNOWN_LEADER_EPOCH


# --- 9: offsets by time -------------------------------------------------------------------------


def list_offsets(
    raw: RawClient, topic: str, timestamp: int, version: int = 11, isolation: int = 0
) -> ListOffsetsPartitionResponse:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation if version >= 2 else 0,
        topics=[ListOffsetsTopic(name=topic, partitions=[wanted])],
    )
    (found,) = raw.call(request, version, ListOffsetsResponse).topics[0].partitions
    assert found.error_code == Code.NONE
    return found


@pytest.mark.parametrize("version", versions(LIST_OFFSETS))
def test_9_offsets_by_time_are_exact_and_say_the_time(
    raw: RawClient, made: str, version: int
) -> None:
    base = 1_700_000_000_000
    times = [base, base + 10, base + 20, base + 20, base + 5]
    for start in (0, 3):
        records = [
            Record(offset, time, None, b"x") for offset, time in enumerate(times[start : start + 3])
        ]
        assert raw.produce(made, encode_batch(records)).error_code == Code.NONE
    assert list_offsets(raw, made, EARLIEST, version).offset == 0
    for isolation in (0, 1):
        assert list_offsets(raw, made, LATEST, version, isolation).offset == 5
    for asked, offset, time in [
        (base - 1, 0, base),
        (base + 1, 1, base + 10),
        (base + 10, 1, base + 10),
        (base + 11, 2, base + 20),
        (base + 20, 2, base + 20),
        (base + 21, -1, -1),
    ]:
        found = list_offsets(raw, made, asked, version)
        assert (found.offset, found.timestamp) == (offset, time), asked - base
    if version >= 7:
        found = list_offsets(raw, made, MAX_TIMESTAMP, version)
        assert (found.offset, found.timestamp) == (2, base + 20)


def test_9_the_latest_time_of_an_empty_partition_is_none(raw: RawClient, made: str) -> None:
    found = list_offsets(raw, made, MAX_TIMESTAMP)
    assert (found.offset, found.timestamp) == (-1, -1)


# --- 10: read committed -------------------------------------------------------------------------


def test_10_aborted_transactions_are_for_those_who_read_committed(
    raw: RawClient, made: str
) -> None:
    raw.produce(made, batch_of(b"x"))
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    for isolation in (0, 1):
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            isolation_level=isolation,
            topics=[FetchTopic(topic=made, partitions=[wanted])],
        )
        (found,) = raw.call(request, 12, FetchResponse).responses[0].partitions
        assert found.aborted_transactions == ([] if isolation else None)
        assert found.last_stable_offset == found.high_watermark == 1
        assert len(records_in(found)) > 0


# --- 11: Metadata -------------------------------------------------------------------------------


@pytest.mark.parametrize("version", versions(METADATA))
def test_11_none_means_all_and_empty_means_none_but_in_version_0(
    raw: RawClient, made: str, version: int
) -> None:
    empty = raw.call(MetadataRequest(topics=[]), version, MetadataResponse)
    everything = empty
    if version > 0:
        assert empty.topics == []
        everything = raw.call(MetadataRequest(topics=None), version, MetadataResponse)
    assert made in [each.name for each in everything.topics]
    assert [each.node_id for each in empty.brokers]


@pytest.mark.parametrize("version", versions(METADATA, since=4))
def test_11_a_topic_is_created_only_for_those_who_allow_it(
    raw: RawClient, topic: str, version: int
) -> None:
    name = [MetadataRequestTopic(name=f"{topic}-{version}")]
    asked = MetadataRequest(topics=name, allow_auto_topic_creation=False)
    for _ in range(2):
        (found,) = raw.call(asked, version, MetadataResponse).topics
        assert found.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
    asked = MetadataRequest(topics=name, allow_auto_topic_creation=True)
    (found,) = raw.call(asked, version, MetadataResponse).topics
    # Kafka's own answer, while its topic is on the way, is the second or third of these.
    assert found.error_code in (
        Code.NONE,
        Code.LEADER_NOT_AVAILABLE,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
    )


@pytest.mark.parametrize("name", ["../x", "a/b", ".", "..", "", "x" * 250, "sp ace"])
@pytest.mark.parametrize("version", [1, 5, 9, 13])
def test_11_a_bad_name_is_an_error_and_never_created(
    raw: RawClient, name: str, version: int
) -> None:
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
    (found,) = raw.call(asked, version, MetadataResponse).topics
    assert found.error_code == Code.INVALID_TOPIC_EXCEPTION
    assert found.name == name


def test_11_a_topic_is_found_by_its_id(raw: RawClient, made: str) -> None:
    topic_id = id_of(raw, made)
    asked = MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic_id, name=None)])
    (found,) = raw.call(asked, 12, MetadataResponse).topics
    assert (found.error_code, found.name, len(found.partitions)) == (Code.NONE, made, 2)
    asked = MetadataRequest(topics=[MetadataRequestTopic(topic_id=uuid4(), name=None)])
    (found,) = raw.call(asked, 12, MetadataResponse).topics
    assert found.error_code == Code.UNKNOWN_TOPIC_ID


# --- 12: leader epochs --------------------------------------------------------------------------


def test_12_leader_epochs_are_real_wherever_they_stand(raw: RawClient, made: str) -> None:
    raw.produce(made, batch_of(b"x"))
    for version in versions(METADATA, since=7):
        for partition in describe(raw, made, version).partitions:
            assert partition.leader_epoch >= 0, version
    epoch = describe(raw, made).partitions[0].leader_epoch
    for version in versions(LIST_OFFSETS, since=4):
        for timestamp in (EARLIEST, LATEST, 0):
            assert list_offsets(raw, made, timestamp, version).leader_epoch == epoch, version
    ((header, _),) = iter_batches(records_in(raw.fetch(made, 0)))
    assert header.leader_epoch == epoch
    for version in versions(23):
        wanted = OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=epoch)
        request = OffsetForLeaderEpochRequest(
            topics=[OffsetForLeaderTopic(topic=made, partitions=[wanted])]
        )
        answer = raw.call(request, version, OffsetForLeaderEpochResponse)
        (found,) = answer.topics[0].partitions
        assert (found.error_code, found.leader_epoch, found.end_offset) == (Code.NONE, epoch, 1)


# --- 15: DescribeConfigs ------------------------------------------------------------------------


def describe_configs(
    raw: RawClient, version: int, *resources: tuple[int, str, list[str] | None]
) -> list[DescribeConfigsResult]:
    asked = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
            for kind, name, keys in resources
        ],
        include_synonyms=True,
        include_documentation=version >= 3,
    )
    return raw.call(asked, version, DescribeConfigsResponse).results


@pytest.mark.parametrize("version", versions(32))
def test_15_every_option_has_a_value_a_source_and_synonyms(
    raw: RawClient, broker: Address, made: str, version: int
) -> None:
    node = raw.metadata().brokers[0].node_id
    topic, itself = describe_configs(raw, version, (TOPIC, made, None), (BROKER, str(node), None))
    (one,) = describe_configs(raw, version, (TOPIC, made, ["retention.ms"]))
    assert topic.error_code == itself.error_code == one.error_code == Code.NONE
    assert len(topic.configs) >= 22
    assert len(itself.configs) >= 40
    assert [each.name for each in one.configs] == ["retention.ms"]
    retention = one.configs[0]
    assert retention.value == "604800000"
    assert retention.config_source == 5  # a default
    for each in (*topic.configs, *itself.configs):
        assert each.config_source > 0, each.name
        if version >= 3:
            assert each.config_type > 0, each.name
    hours = {each.name: each for each in itself.configs}["log.retention.hours"]
    assert [each.name for each in hours.synonyms] == ["log.retention.hours"]


def test_15_a_resource_that_is_none_is_an_error_and_nothing_worse(raw: RawClient) -> None:
    for kind, name in [(99, "x"), (0, ""), (TOPIC, "no-such"), (BROKER, "77"), (TOPIC, "../x")]:
        (result,) = describe_configs(raw, 4, (kind, name, None))
        assert result.error_code != Code.NONE, (kind, name)
        assert result.error_code != Code.UNKNOWN_SERVER_ERROR, (kind, name)


# --- and more -----------------------------------------------------------------------------------


def test_a_batch_over_max_message_bytes_is_refused_as_too_large(raw: RawClient, topic: str) -> None:
    raw.create_topic(topic, configs=[("max.message.bytes", "1000")])
    assert raw.produce(topic, batch_of(b"x" * 1001)).error_code == Code.MESSAGE_TOO_LARGE
    assert raw.produce(topic, batch_of(b"x" * 900)).error_code == Code.NONE


def test_the_advertised_address_is_one_that_answers(raw: RawClient, broker: Address) -> None:
    nodes = raw.metadata().brokers
    assert [f"{node.host}:{node.port}" for node in nodes] == broker.bootstrap_servers.split(",")
    for node in nodes:
        with RawClient(node.host, node.port) as other:
            assert other.metadata().brokers == nodes


@pytest.mark.parametrize("version", versions(PRODUCE))
def test_every_version_of_produce_appends(raw: RawClient, made: str, version: int) -> None:
    data = PartitionProduceData(index=0, records=batch_of(b"%d" % version))
    topic = TopicProduceData(name=made, topic_id=id_of(raw, made), partition_data=[data])
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic])
    answer = raw.call(request, version, ProduceResponse)
    (found,) = answer.responses[0].partition_responses
    assert (found.error_code, found.base_offset) == (Code.NONE, 0)
    if version >= PRODUCE_BY_ID:
        assert answer.responses[0].topic_id == topic.topic_id
    else:
        assert answer.responses[0].name == made


@pytest.mark.parametrize("version", versions(FETCH))
def test_every_version_of_fetch_reads(raw: RawClient, made: str, version: int) -> None:
    raw.produce(made, batch_of(b"value"))
    topic_id = id_of(raw, made)
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        topics=[FetchTopic(topic=made, topic_id=topic_id, partitions=[wanted])],
    )
    (topic,) = raw.call(request, version, FetchResponse).responses
    assert (topic.topic_id == topic_id) if version >= FETCH_BY_ID else (topic.topic == made)
    ((_, batch),) = iter_batches(records_in(topic.partitions[0]))
    assert [record.value for record in decode_batch(batch)] == [b"value"]

"""Records of consumer groups, byte for byte as Kafka 4.3's own classes write them."""

from uuid import UUID

import pytest

from barnabas.coordinators.groups.consumer.member import (
    ClassicSide,
    ConsumerMember,
    target_record,
)
from barnabas.coordinators.groups.consumer.records import (
    EPOCH_KEY,
    PARTITIONS_KEY,
    REGEX_KEY,
    TARGET_EPOCH_KEY,
    ConsumerRecord,
    EpochValue,
    PartitionsValue,
    RecordedTopic,
    RegexValue,
    TargetEpochValue,
)
from barnabas.coordinators.groups.consumer.states import MemberState
from barnabas.coordinators.groups.consumer.stored import StoredConsumerGroup
from barnabas.coordinators.groups.records import decode, encode
from barnabas.model.errors import Corrupt

TOPIC = UUID(int=7)
WALL_MS = 1_700_000_000_000
MEMBER = ConsumerMember(
    "m",
    epoch=5,
    previous_epoch=4,
    state=MemberState.UNREVOKED,
    instance_id="i",
    rebalance_timeout_ms=60_000,
    client_id="c",
    client_host="/h",
    topics=("t", "u"),
    regex="x.*",
    assignor="range",
    assigned={TOPIC: {0: 3}},
    revoking={TOPIC: {2: 4}},
)
CLASSIC = ConsumerMember(
    "m",
    rack="r",
    rebalance_timeout_ms=60_000,
    client_id="c",
    client_host="/h",
    topics=("t",),
    classic=ClassicSide(45_000, (("range", b"xy"),)),
)
PARTITIONS = PartitionsValue(
    topics=[RecordedTopic(topic_id=TOPIC, topic_name="t", num_partitions=3, partition_metadata=[])]
)

RECORDS = [
    (
        ConsumerRecord(EPOCH_KEY, "g", "", EpochValue(epoch=5, metadata_hash=-9)),
        "0003000167",
        "000000000005010008fffffffffffffff7",
    ),
    (
        MEMBER.metadata_record("g"),
        "000500016700016d",
        "00000269000263032f68030274027504782e2a0000ea600672616e676501000100",
    ),
    (
        CLASSIC.metadata_record("g"),
        "000500016700016d",
        "00000002720263032f68020274010000ea6000010011010000afc8020672616e67650378790000",
    ),
    (
        ConsumerRecord(
            TARGET_EPOCH_KEY,
            "g",
            "",
            TargetEpochValue(assignment_epoch=5, assignment_timestamp=WALL_MS),
        ),
        "0006000167",
        "0000000000050100080000018bcfe56800",
    ),
    (
        target_record("g", "m", {TOPIC: (0, 2)}),
        "000700016700016d",
        "000002000000000000000000000000000000070300000000000000020000",
    ),
    (
        MEMBER.assignment_record("g"),
        "000800016700016d",
        "000000000005000000040102000000000000000000000000000000070200000000010005020000000302"
        "000000000000000000000000000000070200000002010005020000000400",
    ),
    (
        ConsumerRecord(
            REGEX_KEY, "g", "x.*", RegexValue(topics=["x1", "x2"], version=0, timestamp=WALL_MS)
        ),
        "00100001670003782e2a",
        "00000303783103783200000000000000000000018bcfe5680000",
    ),
    (
        ConsumerRecord(PARTITIONS_KEY, "g", "", PARTITIONS),
        "0004000167",
        "00000200000000000000000000000000000007027400000003010000",
    ),
]


@pytest.mark.parametrize(("record", "key", "value"), RECORDS)
def test_a_record_is_written_as_kafka_writes_it(
    record: ConsumerRecord, key: str, value: str
) -> None:
    if record.key != PARTITIONS_KEY:  # which is only ever read
        assert encode([record]) == [(bytes.fromhex(key), bytes.fromhex(value))]
    assert decode(bytes.fromhex(key), bytes.fromhex(value)) == record
    assert decode(bytes.fromhex(key), None) == record._replace(value=None)


@pytest.mark.parametrize(("record", "key", "value"), RECORDS)
def test_a_record_that_is_cut_off_is_corrupt(record: ConsumerRecord, key: str, value: str) -> None:
    for size in range(2, len(value) // 2):
        with pytest.raises(Corrupt):
            decode(bytes.fromhex(key), bytes.fromhex(value)[:size])


def test_a_member_comes_back_from_its_records_in_either_order() -> None:
    """Compaction keeps the last of each, wherever it stands."""
    for records in (
        [MEMBER.metadata_record("g"), MEMBER.assignment_record("g")],
        [MEMBER.assignment_record("g"), MEMBER.metadata_record("g")],
    ):
        kept = StoredConsumerGroup("g")
        for record in records:
            kept.replay(record)
        assert kept.members == {"m": MEMBER}
        assert kept.owners == {(TOPIC, 0): "m", (TOPIC, 2): "m"}


def test_epochs_that_older_brokers_did_not_keep_count_from_the_member_s() -> None:
    value = bytes.fromhex(
        "00000000000500000004000200000000000000000000000000000007020000000000"  # no epochs
        "0100"
    )
    record = decode(bytes.fromhex("000800016700016d"), value)
    kept = StoredConsumerGroup("g")
    assert isinstance(record, ConsumerRecord)
    kept.replay(record)
    assert kept.members["m"].assigned == {TOPIC: {0: 5}}


def test_tombstones_of_what_is_not_there_do_nothing() -> None:
    kept = StoredConsumerGroup("g")
    for record, _, _ in RECORDS:
        kept.replay(record._replace(value=None))
    assert kept.members == {}
    assert kept.targets == {}

"""The records of streams groups, byte for byte as the schemas of Kafka 4.3 have them."""

import pytest

from barnabas.coordinators.groups.records import decode, encode
from barnabas.coordinators.groups.streams.records import (
    STREAMS_CURRENT_KEY,
    STREAMS_EPOCH_KEY,
    STREAMS_MEMBER_KEY,
    STREAMS_TARGET_EPOCH_KEY,
    STREAMS_TARGET_KEY,
    STREAMS_TOPOLOGY_KEY,
    AssignmentSetting,
    ClientTag,
    CurrentTasks,
    RecordedCopartition,
    RecordedEndpoint,
    RecordedSubtopology,
    RecordedTopicInfo,
    StreamsCurrentValue,
    StreamsEpochValue,
    StreamsGroupRecord,
    StreamsMemberValue,
    StreamsTargetEpochValue,
    StreamsTargetValue,
    StreamsTopologyValue,
    TargetTasks,
    TopicSetting,
)

CASES = [
    (
        StreamsGroupRecord(
            STREAMS_EPOCH_KEY,
            "g",
            "",
            StreamsEpochValue(
                epoch=3,
                metadata_hash=4,
                validated_topology_epoch=0,
                last_assignment_configs=[AssignmentSetting(key="n", value="1")],
            ),
        ),
        "0011" "000167",
        "0000" "00000003" "0000000000000004" "02" "000400000000" "0106" "02" "026e" "0231" "00",
    ),
    (
        StreamsGroupRecord(
            STREAMS_MEMBER_KEY,
            "g",
            "m",
            StreamsMemberValue(
                instance_id=None,
                rack_id=None,
                client_id="c",
                client_host="h",
                rebalance_timeout_ms=7,
                topology_epoch=1,
                process_id="p",
                user_endpoint=RecordedEndpoint(host="e", port=0xFFFF),
                client_tags=[ClientTag(key="k", value="v")],
            ),
        ),
        "0013" "000167" "00016d",
        "0000" "00" "00" "0263" "0268" "00000007" "00000001" "0270"
        "01" "0265" "ffff" "00" "02" "026b" "0276" "00" "00",
    ),
    (
        StreamsGroupRecord(
            STREAMS_TARGET_EPOCH_KEY,
            "g",
            "",
            StreamsTargetEpochValue(assignment_epoch=3, assignment_timestamp=7),
        ),
        "0014" "000167",
        "0000" "00000003" "01" "00" "08" "0000000000000007",
    ),
    (
        StreamsGroupRecord(
            STREAMS_TARGET_KEY,
            "g",
            "m",
            StreamsTargetValue(
                active_tasks=[TargetTasks(subtopology_id="0", partitions=[1, 2])],
                standby_tasks=[],
                warmup_tasks=[],
            ),
        ),
        "0015" "000167" "00016d",
        "0000" "02" "0230" "03" "00000001" "00000002" "00" "01" "01" "00",
    ),
    (
        StreamsGroupRecord(
            STREAMS_CURRENT_KEY,
            "g",
            "m",
            StreamsCurrentValue(
                member_epoch=5,
                previous_member_epoch=4,
                state=2,
                active_tasks=[
                    CurrentTasks(subtopology_id="0", partitions=[1], assignment_epochs=[5])
                ],
                standby_tasks=[CurrentTasks(subtopology_id="0", partitions=[2])],
                warmup_tasks=[],
                active_tasks_pending_revocation=[],
                standby_tasks_pending_revocation=[],
                warmup_tasks_pending_revocation=[],
            ),
        ),
        "0016" "000167" "00016d",
        "0000" "00000005" "00000004" "02"
        "02" "0230" "02" "00000001" "01" "00" "05" "02" "00000005"
        "02" "0230" "02" "00000002" "00" "01" "01" "01" "01" "00",
    ),
    (
        StreamsGroupRecord(
            STREAMS_TOPOLOGY_KEY,
            "g",
            "",
            StreamsTopologyValue(
                epoch=1,
                subtopologies=[
                    RecordedSubtopology(
                        subtopology_id="0",
                        source_topics=["t"],
                        source_topic_regex=[],
                        state_changelog_topics=[
                            RecordedTopicInfo(
                                name="l",
                                partitions=0,
                                replication_factor=3,
                                topic_configs=[TopicSetting(key="k", value="v")],
                            )
                        ],
                        repartition_sink_topics=["r"],
                        repartition_source_topics=[],
                        copartition_groups=[
                            RecordedCopartition(
                                source_topics=[0],
                                source_topic_regex=[],
                                repartition_source_topics=[],
                            )
                        ],
                    )
                ],
            ),
        ),
        "0017" "000167",
        "0000" "00000001" "02" "0230" "02" "0274" "01"
        "02" "026c" "00000000" "0003" "02" "026b" "0276" "00" "00"
        "02" "0272" "01" "02" "02" "0000" "01" "01" "00" "00" "00",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("record", "key", "value"), CASES, ids=lambda case: str(case)[:24])
def test_a_record_is_written_and_read_as_in_kafka(
    record: StreamsGroupRecord, key: str, value: str
) -> None:
    (encoded,) = encode([record])
    assert encoded[0].hex() == key
    assert encoded[1] is not None
    assert encoded[1].hex() == value
    assert decode(*encoded) == record


@pytest.mark.parametrize("record", [case[0] for case in CASES], ids=lambda record: str(record.key))
def test_a_record_without_a_value_deletes(record: StreamsGroupRecord) -> None:
    gone = record._replace(value=None)
    ((key, value),) = encode([gone])
    assert value is None
    assert decode(key, None) == gone

"""The records of share groups, byte for byte as the schemas of Kafka 4.3 have them."""

from uuid import UUID

import pytest

from barnabas.coordinators.groups.records import decode, encode
from barnabas.coordinators.groups.share.records import (
    SHARE_CURRENT_KEY,
    SHARE_EPOCH_KEY,
    SHARE_MEMBER_KEY,
    SHARE_STATE_KEY,
    SHARE_TARGET_EPOCH_KEY,
    SHARE_TARGET_KEY,
    ShareCurrentValue,
    SharedPartitions,
    ShareEpochValue,
    ShareGroupRecord,
    ShareMemberValue,
    ShareStateValue,
    ShareTargetEpochValue,
    ShareTargetValue,
    StatePartitions,
    StateTopic,
)

ID = UUID(int=5)
HEX = "00000000000000000000000000000005"
PARTITIONS = [SharedPartitions(topic_id=ID, partitions=[1, 2])]
HELD = f"02{HEX}03000000010000000200"

CASES = [
    (
        ShareGroupRecord(
            SHARE_MEMBER_KEY,
            "g",
            "m",
            ShareMemberValue(
                rack_id=None, client_id="c", client_host="h", subscribed_topic_names=["t"]
            ),
        ),
        "000a" "000167" "00016d",
        "0000" "00" "0263" "0268" "020274" "00",
    ),
    (
        ShareGroupRecord(SHARE_EPOCH_KEY, "g", "", ShareEpochValue(epoch=3, metadata_hash=4)),
        "000b" "000167",
        "0000" "00000003" "0000000000000004" "00",
    ),
    (
        ShareGroupRecord(
            SHARE_TARGET_EPOCH_KEY,
            "g",
            "",
            ShareTargetEpochValue(assignment_epoch=3, assignment_timestamp=7),
        ),
        "000c" "000167",
        "0000" "00000003" "01" "00" "08" "0000000000000007",
    ),
    (
        ShareGroupRecord(
            SHARE_TARGET_KEY, "g", "m", ShareTargetValue(topic_partitions=PARTITIONS)
        ),
        "000d" "000167" "00016d",
        f"0000{HELD}00",
    ),
    (
        ShareGroupRecord(
            SHARE_CURRENT_KEY,
            "g",
            "m",
            ShareCurrentValue(
                member_epoch=3, previous_member_epoch=2, state=0, assigned_partitions=PARTITIONS
            ),
        ),
        "000e" "000167" "00016d",
        f"0000" f"00000003" f"00000002" f"00{HELD}00",
    ),
    (
        ShareGroupRecord(
            SHARE_STATE_KEY,
            "g",
            "",
            ShareStateValue(
                initializing_topics=[],
                initialized_topics=[StatePartitions(topic_id=ID, topic_name="t", partitions=[1])],
                deleting_topics=[StateTopic(topic_id=ID, topic_name="u")],
            ),
        ),
        "000f" "000167",
        f"0000" f"01" f"02{HEX}0274020000000100" f"02{HEX}027500" f"00",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("record", "key", "value"), CASES, ids=lambda case: str(case)[:20])
def test_a_record_has_kafkas_bytes(record: ShareGroupRecord, key: str, value: str) -> None:
    ((found_key, found_value),) = encode([record])
    assert (found_key.hex(), (found_value or b"").hex()) == (key, value)
    assert decode(found_key, found_value) == record


@pytest.mark.parametrize(("record", "key", "value"), CASES, ids=lambda case: str(case)[:20])
def test_a_tombstone_is_read(record: ShareGroupRecord, key: str, value: str) -> None:
    gone = record._replace(value=None)
    assert encode([gone]) == [(bytes.fromhex(key), None)]
    assert decode(bytes.fromhex(key), None) == gone

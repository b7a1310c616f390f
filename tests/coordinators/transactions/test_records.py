"""The records of __transaction_state: the bytes of Apache Kafka 4.3.0, and bytes that are not."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from barnabas.coordinators.transactions.records import (
    TransactionRecord,
    _value_of,
    decode,
    encode,
)
from barnabas.coordinators.transactions.states import TransactionState
from barnabas.coordinators.transactions.transaction import Transaction
from barnabas.model.errors import Corrupt

KEY = bytes.fromhex("0000000574782dc3a9")
ID = "tx-é"
EMPTY = Transaction(
    producer_id=4000,
    producer_epoch=0,
    timeout_ms=60_000,
    state=TransactionState.EMPTY,
    partitions={},
    updated_ms=1_700_000_000_123,
)
ONGOING = replace(
    EMPTY,
    producer_epoch=3,
    state=TransactionState.ONGOING,
    partitions={"t": frozenset((1,))},
    started_ms=1_700_000_000_100,
)
PREPARED = replace(
    ONGOING,
    producer_epoch=32_767,
    state=TransactionState.PREPARE_COMMIT,
    previous_producer_id=4000,
    next_producer_id=5000,
    client_version=2,
)
COMPLETED = replace(
    PREPARED,
    producer_id=5000,
    producer_epoch=0,
    state=TransactionState.COMPLETE_COMMIT,
    partitions={},
    next_producer_id=-1,
)
WRITTEN_BY_KAFKA = [
    (EMPTY, 0, "00000000000000000fa000000000ea6000ffffffff0000018bcfe5687bffffffffffffffff"),
    (
        ONGOING,
        0,
        "00000000000000000fa000030000ea60010000000100017400000001000000010000018bcfe5687b"
        "0000018bcfe56864",
    ),
    (
        PREPARED,
        2,
        "00010000000000000fa07fff0000ea60020202740200000001000000018bcfe5687b0000018bcfe56864"
        "0300080000000000000fa00108000000000000138802020002",
    ),
    (
        COMPLETED,
        2,
        "0001000000000000138800000000ea6004010000018bcfe5687b0000018bcfe568640200080000000000"
        "000fa002020002",
    ),
]


@pytest.mark.parametrize(("transaction", "version", "written"), WRITTEN_BY_KAFKA)
def test_records_have_the_bytes_that_kafka_writes(
    transaction: Transaction, version: int, written: str
) -> None:
    record = TransactionRecord(ID, transaction)
    assert encode(record, version) == (KEY, bytes.fromhex(written))
    assert decode(KEY, bytes.fromhex(written)) == record


@given(
    st.sampled_from([state for state in TransactionState if state <= 5]),
    st.dictionaries(st.text(max_size=200), st.frozensets(st.integers(0, 2**31 - 1)), max_size=5),
    st.tuples(*[st.integers(-1, 2**63 - 1)] * 2),
    st.integers(0, 2),
)
def test_the_bytes_are_those_of_the_message(
    state: TransactionState,
    partitions: dict[str, frozenset[int]],
    ids: tuple[int, int],
    client_version: int,
) -> None:
    """Values of version 1 are packed by hand."""
    found = replace(
        ONGOING,
        state=state,
        partitions=partitions if state is not TransactionState.EMPTY else {},
        previous_producer_id=ids[0],
        next_producer_id=ids[1],
        client_version=client_version,
    )
    key, value = encode(TransactionRecord(ID, found), 2)
    assert key == KEY
    assert value == b"\0\1" + _value_of(found).encode(1)
    decoded = decode(key, value)
    assert decoded is not None
    assert decoded.transaction == found


def test_an_expired_id_is_a_tombstone() -> None:
    assert encode(TransactionRecord(ID, None), 0) == (KEY, None)
    assert decode(KEY, None) == TransactionRecord(ID, None)


def test_what_a_client_of_version_2_needs_is_kept_in_a_cluster_of_version_0() -> None:
    key, value = encode(TransactionRecord(ID, PREPARED), 0)
    assert decode(key, value) == TransactionRecord(ID, PREPARED)


def test_records_of_unknown_versions_are_skipped() -> None:
    """They may be left over from a newer broker."""
    assert decode(b"\0\x01" + KEY[2:], None) is None
    assert decode(KEY, b"\0\x02rest") is None
    assert decode(KEY, b"\xff\xff") is None


@pytest.mark.parametrize("status", [6, 7, 8, -1])
def test_a_state_that_is_never_in_the_log_is_corrupt(status: int) -> None:
    value = bytearray.fromhex(WRITTEN_BY_KAFKA[0][2])
    value[16] = status & 0xFF
    with pytest.raises(Corrupt, match=f"state {status}"):
        decode(KEY, bytes(value))


@pytest.mark.parametrize(
    ("position", "what"), [(2, "producer id"), (10, "epoch"), (28, "negative partition")]
)
def test_negative_numbers_are_corrupt(position: int, what: str) -> None:
    value = bytearray.fromhex(WRITTEN_BY_KAFKA[1][2])
    value[position] = 0xFF
    with pytest.raises(Corrupt, match=what):
        decode(KEY, bytes(value))


def test_an_open_transaction_without_partitions_is_corrupt() -> None:
    value = bytearray.fromhex(WRITTEN_BY_KAFKA[0][2])
    value[16] = TransactionState.ONGOING
    with pytest.raises(Corrupt, match="without partitions"):
        decode(KEY, bytes(value))


@given(st.binary(max_size=60), st.one_of(st.none(), st.binary(max_size=120)))
def test_hostile_bytes_are_skipped_or_corrupt(key: bytes, value: bytes | None) -> None:
    for each in (key, KEY, b"\0\0" + key):
        with suppress(Corrupt):
            decode(each, value)


@given(st.data())
def test_a_record_cut_anywhere_is_corrupt(data: st.DataObject) -> None:
    _, _, written = data.draw(st.sampled_from(WRITTEN_BY_KAFKA))
    whole = bytes.fromhex(written)
    with pytest.raises(Corrupt):
        decode(KEY, whole[: data.draw(st.integers(0, len(whole) - 1))])

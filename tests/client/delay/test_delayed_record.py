"""Headers of records in a holding topic, and records of the ledger: bad ones have a cause."""

import pytest

from barnabas.client.delay.delay_ledger import (
    DelayOutcome,
    LedgerRecord,
    MovedOffsets,
    ledger_record,
    read_ledger_record,
)
from barnabas.client.delay.delayed_record import (
    Cancellation,
    DelayedRecord,
    HoldingRules,
    UnusableRecord,
    delivered_headers,
    entry_of,
)
from barnabas.wire.record_loops import Headers

RULES = HoldingRules(frozenset({"later", "later.ledger", "later.dlq"}), delay_ms_max=1_000)
NOW = 10_000
ID = "5929dd3f-5333-4126-b60b-994fe0927d5b"


def test_a_record_has_a_time_and_a_topic() -> None:
    headers: Headers = (("deliver-at", b"10500"), ("a", b"b"), ("deliver-to", b"orders"))
    assert entry_of(7, headers, 50, RULES, NOW) == DelayedRecord(10_500, 7, "orders", 50)
    assert delivered_headers(headers, "later:0:7") == (
        ("a", b"b"),
        ("barnabas.delivered-from", b"later:0:7"),
    )


def test_a_time_that_has_passed_is_a_time() -> None:
    headers: Headers = (("deliver-at", b"0"), ("deliver-to", b"orders"))
    assert entry_of(7, headers, 50, RULES, NOW) == DelayedRecord(0, 7, "orders", 50)


def test_a_cancellation_names_an_offset() -> None:
    assert entry_of(9, (("deliver-cancel", b"7"),), 50, RULES, NOW) == Cancellation(9, 7)


@pytest.mark.parametrize(
    ("at", "to", "cause"),
    [
        (None, b"orders", "deliver-at = null is not a time"),
        (b"", b"orders", "deliver-at = '' is not a time"),
        (b"-1", b"orders", "is not a time"),
        (b"1_0", b"orders", "is not a time"),
        (b" 10", b"orders", "is not a time"),
        ("\u0661\u0660".encode(), b"orders", "is not a time"),
        (b"9223372036854775808", b"orders", "is not a time"),
        (b"1" * 1_000_000, b"orders", "is not a time"),
        (b"2026-05-04", b"orders", "is not a time"),
        (b"11001", b"orders", "ahead"),
        (b"10", None, "no header deliver-to"),
        (b"10", b"", "is not the name of a topic"),
        (b"10", b"\xff", "is not the name of a topic"),
        (b"10", b"a/b", "is not the name of a topic"),
        (b"10", b"later", "is a topic of the delayer"),
        (b"10", b"later.ledger", "is a topic of the delayer"),
        (b"10", b"__transaction_state", "is an internal topic"),
    ],
)
def test_a_bad_header_is_a_cause(at: bytes | None, to: bytes | None, cause: str) -> None:
    entry = entry_of(7, (("deliver-at", at), ("deliver-to", to)), 50, RULES, NOW)
    assert isinstance(entry, UnusableRecord)
    assert cause in entry.cause
    assert len(entry.cause) < 200


def test_a_cancellation_without_an_offset_is_a_cause() -> None:
    entry = entry_of(9, (("deliver-cancel", b"last"),), 50, RULES, NOW)
    assert isinstance(entry, UnusableRecord)
    assert "deliver-cancel = 'last' is not an offset" in entry.cause


def test_a_ledger_record_is_read_as_it_was_written() -> None:
    moved = [
        (9, DelayOutcome.DELIVERED),
        (7, DelayOutcome.DELIVERED),
        (8, DelayOutcome.DELIVERED),
        (12, DelayOutcome.CANCELLED),
        (3, DelayOutcome.DEAD_LETTER),
    ]
    record = read_ledger_record(ledger_record(ID, 5, moved), ID)
    assert record == LedgerRecord(1, ID, 5, [7, 3], [12, 1], [3, 1])
    assert record.outcome(8) is DelayOutcome.DELIVERED
    assert record.outcome(12) is DelayOutcome.CANCELLED
    assert record.outcome(3) is DelayOutcome.DEAD_LETTER
    assert record.outcome(10) is None


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"not json",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        b'{"barnabas": 2, "topic_id": "%s", "low": 0}' % ID.encode(),
        b'{"barnabas": 1, "topic_id": "another", "low": 0}',
        b'{"barnabas": 1, "topic_id": "%s", "low": -1}' % ID.encode(),
        b'{"barnabas": 1, "topic_id": "%s", "low": 0, "delivered": [1]}' % ID.encode(),
        b'{"barnabas": 1, "topic_id": "%s", "low": 0, "dead": [1, -1]}' % ID.encode(),
    ],
)
def test_what_others_write_into_a_ledger_is_ignored(value: bytes | None) -> None:
    assert read_ledger_record(value, ID) is None


def test_moved_offsets_are_those_of_all_records_and_all_before_the_lowest_undecided() -> None:
    records = [
        LedgerRecord(1, ID, 0, [5, 2]),
        LedgerRecord(1, ID, 3, [7, 1], [12, 1]),
        LedgerRecord(1, ID, 3, [], [], [9, 2]),
    ]
    moved = MovedOffsets(records)
    assert [offset for offset in range(15) if offset in moved] == [0, 1, 2, 5, 6, 7, 9, 10, 12]
    assert (moved.low, moved.end) == (3, 13)
    assert MovedOffsets().end == 0

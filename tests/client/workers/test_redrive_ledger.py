"""Receipts of redriven letters, read in any company."""

import pytest

from barnabas.client.workers import redrive_ledger
from barnabas.client.workers.dead_letter_headers import LetterTrail, Origin
from barnabas.client.workers.dead_letters import Filter, Letter
from barnabas.client.workers.prefix import FinishedPrefix
from barnabas.client.workers.redrive_ledger import LetterPartition, RedriveLedger
from barnabas.client.workers.window.outbox import LetterProducer, offsets_of, runs_of
from barnabas.model.ids import TopicPartition
from tests.client.workers.broker import Record

AT = LetterPartition("orders.dlq", "id-1", 1)
ORDERS = TopicPartition("orders", 0)


def intent(token: str, *offsets: int) -> bytes:
    places = dict.fromkeys(offsets, ORDERS)
    return redrive_ledger.encoded(redrive_ledger.intent(token, AT, places, LetterProducer(7, 0)))


def test_a_letter_is_taken_by_the_first_that_names_it() -> None:
    read = RedriveLedger()
    read.read(intent("mine", 3, 4, 9))
    read.read(intent("other", 9, 10))
    assert read.won("mine")
    assert not read.won("other")
    assert read.taken(AT) == {3, 4, 9}


def test_a_topic_created_again_has_other_letters() -> None:
    read = RedriveLedger()
    read.read(intent("mine", 3))
    assert read.taken(AT._replace(topic_id="id-2")) == frozenset()


def test_what_was_begun_stays_open_until_its_end() -> None:
    read = RedriveLedger()
    read.read(intent("mine", 3))
    read.read(intent("mine", 3))  # written twice, after an answer that never came
    assert [one.token for one in read.open("orders.dlq", "id-1")] == ["mine"]
    read.read(redrive_ledger.encoded(redrive_ledger.end("mine")))
    assert read.open("orders.dlq", "id-1") == []
    assert read.taken(AT) == {3}


def test_numbers_follow_from_the_receipt_alone() -> None:
    other = TopicPartition("orders", 1)
    receipt = redrive_ledger.intent("t", AT, {3: ORDERS, 4: other, 9: ORDERS}, LetterProducer(7, 0))
    assert receipt.numbered() == {3: (ORDERS, 0), 4: (other, 0), 9: (ORDERS, 1)}


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"hello",
        b'{"kind":"intent"}',
        b'{"kind":"end","barnabas":9,"token":"x"}',
        b'{"kind":"intent","barnabas":1,"token":"t","topic":"a","topic_id":"","partition":0,"start":0,'
        b'"runs":[0,99999999999],"producer_id":1,"epoch":0,"places":[["a",0]]}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_receipt_is_passed_over(value: bytes | None) -> None:
    read = RedriveLedger()
    read.read(value)
    assert read.taken(LetterPartition("a", "", 0)) == frozenset()


def test_runs_expand_to_offsets() -> None:
    offsets = [5, 6, 7, 10, 12, 13]
    assert runs_of(offsets, 4) == [1, 3, 2, 1, 1, 2]
    assert offsets_of([1, 3, 2, 1, 1, 2], 4) == offsets
    assert runs_of([], 4) == []


def test_a_finished_prefix_grows_when_its_gap_closes() -> None:
    prefix = FinishedPrefix(10)
    assert not prefix.finish(20, 30)
    assert prefix.end == 10
    assert prefix.finish(10, 20)
    assert prefix.end == 30


TRAIL = LetterTrail("billing", Origin("orders", 2, 41), 5, "ValueError: No Money", 3, 1, 900)


@pytest.mark.parametrize(
    ("wanted", "takes"),
    [
        (Filter(), True),
        (Filter(partitions=(1,)), True),
        (Filter(partitions=(0, 2)), False),
        (Filter(offset=8), True),
        (Filter(offset=9), False),
        (Filter(origin="orders"), True),
        (Filter(origin="orders:2"), True),
        (Filter(origin="orders:2:41"), True),
        (Filter(origin="orders:2:4"), False),
        (Filter(origin="order"), False),
        (Filter(group="billing", cause="no money"), True),
        (Filter(group="shipping"), False),
        (Filter(since_ms=900, until_ms=901), True),
        (Filter(since_ms=901), False),
        (Filter(until_ms=900), False),
    ],
)
def test_a_filter_takes_what_it_names(wanted: Filter, takes: bool) -> None:
    message = Record("orders.dlq", 1, 8, 77, b"k", b"v")
    assert wanted.takes(Letter(message, TRAIL, False)) is takes  # type: ignore[arg-type]

"""The last stable offset, against a search through all transactions."""

from random import Random

import pytest

from barnabas.log.transactions.open_transactions import OpenTransactions


def test_without_transactions_all_below_the_high_watermark_is_stable() -> None:
    assert OpenTransactions().last_stable_offset(42, 0) == 42


def test_the_first_open_transaction_holds_readers_back() -> None:
    found = OpenTransactions()
    found.begin(1, 10)
    found.begin(2, 20)
    found.begin(1, 30)  # more of the same transaction
    assert found.last_stable_offset(100, 0) == 10
    assert found.last_stable_offset(5, 0) == 5
    assert found.end(1, 40) == 10
    assert found.last_stable_offset(41, 0) == 20


def test_a_marker_counts_when_it_is_below_the_high_watermark() -> None:
    found = OpenTransactions()
    found.begin(1, 10)
    found.end(1, 40)
    assert found.last_stable_offset(40, 0) == 10
    assert found.last_stable_offset(41, 0) == 41


def test_a_marker_without_transaction_changes_nothing() -> None:
    found = OpenTransactions()
    found.begin(1, 10)
    assert found.end(2, 40) is None
    assert found.last_stable_offset(100, 0) == 10


def test_readers_are_never_sent_below_the_start_of_the_log() -> None:
    found = OpenTransactions()
    found.begin(1, 10)
    assert found.last_stable_offset(100, 50) == 50
    assert found.end(1, 60) == 10


def test_what_a_snapshot_says_is_taken_in_the_order_of_offsets() -> None:
    found = OpenTransactions([(1, 30), (2, 10), (3, 20)])
    assert found.first_open() == 10
    assert found.first_open(but=2) == 20
    assert len(found) == 3


@pytest.mark.parametrize("seed", range(50))
def test_no_undecided_record_is_ever_below_the_last_stable_offset(seed: int) -> None:
    rng = Random(seed)
    found = OpenTransactions()
    running: dict[int, int] = {}
    decided: list[tuple[int, int]] = []
    offset = high_watermark = 0
    for _ in range(300):
        producer = rng.randrange(5)
        if rng.random() < 0.6:
            running.setdefault(producer, offset)
            found.begin(producer, offset)
        else:
            first = running.pop(producer, None)
            assert found.end(producer, offset) == first
            if first is not None:
                decided.append((first, offset))
        offset += rng.randint(1, 3)
        if rng.random() < 0.5:
            high_watermark = rng.randint(high_watermark, offset)
        unstable = [*running.values(), *(f for f, marker in decided if marker >= high_watermark)]
        expected = min([high_watermark, *unstable])
        assert found.last_stable_offset(high_watermark, 0) == expected

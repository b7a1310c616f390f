"""Batches that must come again before later ones are appended."""

from barnabas.log.producers.refused import AGE_MS_MAX, PRODUCERS_MAX, RefusedBatches
from barnabas.log.producers.state import SEQUENCE_MASK, ProducerStates

NONE = ProducerStates()


def test_later_batches_wait_until_the_refused_one_has_come_again() -> None:
    refused = RefusedBatches()
    refused.add(7, 0, 10, 0)
    refused.add(7, 0, 11, 1)  # in flight with it
    assert not refused.arrived(NONE, 7, 0, 12, 2)
    assert not refused.arrived(NONE, 7, 0, 11, 3)
    assert refused.arrived(NONE, 7, 0, 10, 4)
    ten = ProducerStates()
    ten.record(7, 0, 10, 110, 110, 0)
    assert refused.arrived(ten, 7, 0, 11, 5)
    assert not refused


def test_another_producer_or_epoch_waits_for_nothing() -> None:
    refused = RefusedBatches()
    refused.add(7, 0, 10, 0)
    assert refused.arrived(NONE, 8, 0, 12, 1)
    assert refused.arrived(NONE, 7, 1, 0, 1)
    assert not refused


def test_what_was_in_flight_before_the_refused_one_is_no_later_batch() -> None:
    refused = RefusedBatches()
    refused.add(7, 0, 10, 0)
    refused.add(7, 0, 9, 1)
    assert not refused.arrived(NONE, 7, 0, 10, 2)
    assert refused.arrived(NONE, 7, 0, 9, 3)
    nine = ProducerStates()
    nine.record(7, 0, 9, 109, 109, 0)
    assert refused.arrived(nine, 7, 0, 10, 4)
    assert not refused


def test_sequences_wrap() -> None:
    refused = RefusedBatches()
    refused.add(7, 0, SEQUENCE_MASK, 0)
    assert not refused.arrived(NONE, 7, 0, 0, 1)
    assert refused.arrived(NONE, 7, 0, SEQUENCE_MASK, 2)


def test_a_producer_that_gave_the_batch_up_is_not_held_for_ever() -> None:
    refused = RefusedBatches()
    refused.add(7, 0, 10, 0)
    assert not refused.arrived(NONE, 7, 0, 11, AGE_MS_MAX)
    assert refused.arrived(NONE, 7, 0, 11, AGE_MS_MAX + 1)
    refused.add(7, 0, 10, 5_000)
    assert refused.arrived(NONE, 7, 0, 11, 4_000)  # the clock was set back


def test_memory_is_bounded() -> None:
    refused = RefusedBatches()
    for producer in range(10 * PRODUCERS_MAX):
        refused.add(producer, 0, 0, 0)
    assert len(refused) == PRODUCERS_MAX


def test_nothing_waits_for_a_batch_that_another_leader_appended() -> None:
    refused = RefusedBatches()
    refused.add(7, 0, 10, 0)
    replicated = ProducerStates()
    replicated.record(7, 0, 9, 109, 109, 0)
    assert not refused.arrived(replicated, 7, 0, 11, 1)
    replicated.record(7, 0, 10, 110, 110, 0)
    assert refused.arrived(replicated, 7, 0, 11, 1)
    assert not refused


def test_of_several_refused_batches_those_that_no_leader_appended_must_still_come() -> None:
    refused = RefusedBatches()
    for sequence in (10, 11, 12):
        refused.add(7, 0, sequence, 0)
    replicated = ProducerStates()
    replicated.record(7, 0, 10, 110, 110, 0)
    assert not refused.arrived(replicated, 7, 0, 13, 1)
    assert not refused.arrived(replicated, 7, 0, 12, 1)
    assert refused.arrived(replicated, 7, 0, 11, 1)
    replicated.record(7, 0, 11, 111, 111, 0)
    assert not refused.arrived(replicated, 7, 0, 13, 1)
    assert refused.arrived(replicated, 7, 0, 12, 1)
    assert not refused


def test_a_repeat_of_what_is_written_does_not_let_later_batches_pass() -> None:
    refused = RefusedBatches()
    refused.add(7, 0, 10, 0)
    written = ProducerStates()
    written.record(7, 0, 9, 109, 109, 0)
    assert refused.arrived(written, 7, 0, 9, 1)
    assert not refused.arrived(written, 7, 0, 11, 1)


def test_nothing_waits_for_a_batch_of_a_fenced_epoch() -> None:
    refused = RefusedBatches()
    refused.add(7, 0, 10, 0)
    fenced = ProducerStates()
    fenced.record(7, 1, 0, 100, 100, 0)
    assert refused.arrived(fenced, 7, 0, 11, 1)

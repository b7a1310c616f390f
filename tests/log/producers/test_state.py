"""New, repeated, out of order, fenced: what a producer's batch is."""

from collections.abc import Callable

import pytest

from barnabas.log.config import LogConfig
from barnabas.log.log import Appended, Log
from barnabas.log.producers.state import PRODUCERS_MAX, ProducerStates
from barnabas.model.errors import Code, KafkaError
from tests.log.batches import NOW, batch, new_log
from tests.simulator.disk import SimulatedDisk

Send = Callable[..., Appended]


@pytest.fixture
def log() -> Log:
    return new_log(SimulatedDisk())[1]


@pytest.fixture
def send(log: Log) -> Send:
    def send_batch(sequence: int, count: int = 1, epoch: int = 0, producer: int = 7) -> Appended:
        data = batch(count, producer=producer, epoch=epoch, sequence=sequence)
        return log.append(data, 0, NOW)

    return send_batch


def code_of(call: Callable[[], object]) -> Code:
    with pytest.raises(KafkaError) as error:
        call()
    return error.value.code


def test_each_of_the_last_five_batches_is_answered_with_its_old_offset(
    send: Send, log: Log
) -> None:
    for number in range(6):
        send(number * 3, 3)
    end = log.end_offset
    for number in range(1, 6):
        again = send(number * 3, 3)
        assert (again.base_offset, again.last_offset) == (number * 3, number * 3 + 2)
        assert again.duplicate
    assert log.end_offset == end
    assert code_of(lambda: send(0, 3)) == Code.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_repeat_must_be_the_same_batch_whole(send: Send) -> None:
    send(0, 3)
    assert code_of(lambda: send(0, 2)) == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert code_of(lambda: send(1, 2)) == Code.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_gap_is_refused_and_names_what_is_missing(send: Send) -> None:
    send(0)
    with pytest.raises(KafkaError, match="got sequence 2, expected 1"):
        send(2)


def test_an_older_epoch_is_fenced(send: Send) -> None:
    send(0, epoch=4)
    assert code_of(lambda: send(1, epoch=3)) == Code.INVALID_PRODUCER_EPOCH


def test_a_new_epoch_starts_at_sequence_zero(send: Send) -> None:
    send(0)
    send(1)
    assert code_of(lambda: send(2, epoch=1)) == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert not send(0, epoch=1).duplicate
    assert send(0, epoch=1).duplicate


def test_an_unknown_producer_may_start_anywhere(send: Send) -> None:
    """Its earlier batches may be gone with retention; Kafka accepts it too."""
    assert not send(41).duplicate
    assert not send(42).duplicate
    assert code_of(lambda: send(44)) == Code.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_wrap_after_the_largest_int(send: Send) -> None:
    largest = 2**31 - 1
    send(largest - 1, 2)
    assert not send(0, 2).duplicate
    assert send(largest - 1, 2).duplicate
    send(2)


def test_a_batch_may_span_the_wrap(send: Send) -> None:
    largest = 2**31 - 1
    send(largest, 3)
    assert send(largest, 3).duplicate
    assert not send(2).duplicate


def test_producers_do_not_disturb_each_other(send: Send) -> None:
    for sequence in range(3):
        for producer in (1, 2, 3):
            assert not send(sequence, producer=producer).duplicate


def test_batches_without_a_producer_leave_no_state(log: Log) -> None:
    log.append(batch(), 0, NOW)
    assert len(log.producers) == 0


def test_a_silent_producer_is_forgotten(send: Send, log: Log) -> None:
    send(0, producer=1)
    expiration = LogConfig().producer_id_expiration_ms
    assert log.producers.expire(NOW + expiration - 1, expiration) == []
    assert log.producers.expire(NOW + expiration, expiration) == [1]
    assert not send(7, producer=1).duplicate


def test_producers_can_be_described(send: Send, log: Log) -> None:
    send(0, 3, epoch=2)
    (state,) = log.producers.describe()
    assert (state.producer_id, state.epoch, state.last_sequence) == (7, 2, 2)
    assert (state.last_timestamp, state.last_offset) == (NOW, 2)
    assert (state.coordinator_epoch, state.transaction_start) == (-1, -1)


def test_beyond_a_number_of_producers_those_that_wrote_longest_ago_are_forgotten() -> None:
    states = ProducerStates()
    for producer in range(PRODUCERS_MAX + 5):
        states.record(producer, 0, 0, producer, producer, NOW)
        states.record(0, 0, producer + 1, producer, producer, NOW)  # writes all the time
    assert len(states) <= PRODUCERS_MAX
    assert 0 in states.entries
    assert 1 not in states.entries
    assert PRODUCERS_MAX + 4 in states.entries
    assert states.check(1, 0, 7, 1) is None  # as a new one

"""Order kept, nothing lost, nothing doubled: whatever becomes of requests and answers.

`HISTORIES` says how many; the suite runs a share.
"""

import os

import pytest

from barnabas.client.producer.batches import Delivery
from barnabas.model.errors import Code, Retriable
from barnabas.wire.messages.produce import PartitionProduceResponse
from tests.client.producer_histories import PARTITIONS, TOPIC, History
from tests.share import IN_FULL

COUNT = int(os.environ.get("HISTORIES", "300" if IN_FULL else "75"))


def check(history: History) -> None:
    for number in range(PARTITIONS):
        sent = [(value, delivery) for at, value, delivery in history.sent if at == number]
        values = [value for value, _ in sent]
        assert history.logs[number].values == values
        for value, delivery in sent:
            offset = delivery.metadata().offset
            # -1: written, but so long before the answer that the broker no longer knew where.
            assert offset == -1 or history.logs[number].values[offset] == value
    assert history.accumulator.used == 0


def test_an_idempotent_producer_writes_each_record_once_and_in_order() -> None:
    for seed in range(COUNT):
        history = History(seed)
        try:
            history.run(200)
            check(history)
        except BaseException as problem:
            problem.add_note(f"seed {seed}")
            raise


def test_records_that_are_given_up_leave_the_others_in_order_and_single() -> None:
    """A record that was given up may be in the log or not; the rest must be, once."""
    for seed in range(COUNT):
        history = History(seed, delivery_timeout_ms=60)
        try:
            history.run(200)
            for number in range(PARTITIONS):
                kept = [
                    value
                    for at, value, delivery in history.sent
                    if at == number and delivery.exception() is None
                ]
                log = history.logs[number].values
                # A batch may be written, given up for want of an answer, and the producer start
                # a new epoch: what was acknowledged stands once for all that.
                assert [value for value in log if value in set(kept)] == kept
        except BaseException as problem:
            problem.add_note(f"seed {seed}")
            raise
        assert history.accumulator.used == 0


def test_without_idempotence_nothing_acknowledged_is_lost() -> None:
    for seed in range(COUNT // 3):
        history = History(seed, idempotent=False, acks=1)
        history.run(200)
        for number in range(PARTITIONS):
            values = {value for at, value, _ in history.sent if at == number}
            assert set(history.logs[number].values) == values


def test_what_is_acknowledged_is_written_also_when_the_topic_is_recreated() -> None:
    """Sequence numbers belong to a topic id: no log of another topic says what this one holds."""
    for seed in range(COUNT * 3):
        history = History(seed, recreated=True)
        try:
            history.run(200)
            for number in range(PARTITIONS):
                logs = [each[number].values for each in (*history.deleted_logs, history.logs)]
                for at, value, delivery in history.sent:
                    if at != number:
                        continue
                    offset = delivery.metadata().offset
                    if offset == -1:
                        assert any(value in log for log in logs)
                    else:
                        assert any(log[offset : offset + 1] == [value] for log in logs)
                # A request that names the topic may reach another than the one it was made for.
                assert not history.by_id or all(log == sorted(set(log), key=int) for log in logs)
        except BaseException as problem:
            problem.add_note(f"seed {seed}")
            raise
        assert history.accumulator.used == 0


def test_a_lost_epoch_is_left_behind() -> None:
    """The broker has forgotten the producer: numbers start again in a new epoch."""
    history = History(1, linger_ms=0, in_flight_max=5)
    history.calm, history.size_max = True, 1 << 20
    for _ in range(3):
        history.send()
    history.poll()
    history.arrive()
    history.answer()
    for log in history.logs:
        log._epoch, log._next = 0, 1_000
        log._recent.clear()
    for _ in range(3):
        history.send()
    history.run(0)
    check(history)
    assert max(log._epoch for log in history.logs) == 1


def test_a_batch_is_tried_as_often_as_retries_say() -> None:
    history = History(1, retries_max=2, linger_ms=0)
    history.calm = True
    history.send()
    tries = 0
    while not history.sent[0][2].done():
        history.now += 100
        history.poll()
        for flights in history.connections.values():
            while flights:
                tries += 1
                flight = flights.popleft()
                why = Retriable(Code.NETWORK_EXCEPTION, "cut")
                history.outbox.unanswered(flight.outgoing, why, history.now)
    assert tries == 3
    with pytest.raises(Retriable):
        history.sent[0][2].metadata()


def refuse(history: History, code: Code) -> None:
    """Answer every request under way with this error."""
    for flights in history.connections.values():
        while flights:
            flight = flights.popleft()
            numbers = [batch.queue.partition for batch in flight.outgoing.batches if batch.queue]
            answers = {
                (TOPIC, number): PartitionProduceResponse(
                    index=number, error_code=int(code), base_offset=-1
                )
                for number in numbers
            }
            history.outbox.answered(flight.outgoing, answers, history.now)
    history.now += 100


def test_a_duplicate_sequence_number_is_no_success_for_a_batch_that_nobody_took() -> None:
    history = History(1, linger_ms=0)
    history.calm, history.size_max = True, 1 << 20
    history.send()
    history.poll()
    refuse(history, Code.DUPLICATE_SEQUENCE_NUMBER)
    assert not history.sent[0][2].done()
    history.run(0)
    check(history)


def test_a_number_that_is_too_old_is_success_only_once_metadata_shows_the_same_topic() -> None:
    history = History(1, linger_ms=0)
    history.calm = True
    history.send()
    history.poll()
    refuse(history, Code.NOT_LEADER_OR_FOLLOWER)  # and perhaps it was written
    for _ in range(2):
        history.poll()
        refuse(history, Code.DUPLICATE_SEQUENCE_NUMBER)
        assert history.outbox.metadata_refresh.stale
        assert not history.sent[0][2].done()
        history.learn()
    history.poll()
    refuse(history, Code.DUPLICATE_SEQUENCE_NUMBER)
    assert history.sent[0][2].metadata().offset == -1


def test_a_number_that_is_too_old_is_no_success_in_a_recreated_topic() -> None:
    history = History(1, linger_ms=0)
    history.calm, history.size_max = True, 1 << 20
    history.send()
    history.poll()
    refuse(history, Code.NOT_LEADER_OR_FOLLOWER)
    history.recreate()
    history.recreate()
    for _ in range(4):
        history.learn()
        history.poll()
        refuse(history, Code.DUPLICATE_SEQUENCE_NUMBER)
        assert not history.sent[0][2].done()
    history.run(0)
    check(history)


def test_a_batch_that_the_deleted_topic_refused_is_written_though_the_new_topic_took_the_next() -> (
    None
):
    """Both requests name the topic, and metadata shows the new one only later."""
    history = History(1, linger_ms=0, in_flight_max=5)
    history.calm, history.size_max = True, 1 << 20

    def send() -> Delivery:
        value = b"%d" % len(history.sent)
        delivery = history.accumulator.add(TOPIC, value, None, (), 0, None, None)
        history.sent.append((0, value, delivery))
        history.poll()
        return delivery

    send()
    history.arrive()
    history.answer()
    refused, taken = send(), send()
    history.recreate()
    history.arrive()
    history.recreate()
    history.arrive()
    for _ in range(2):
        history.answer()
    assert (refused.done(), taken.metadata().offset) == (False, 0)
    history.now += 100
    history.poll()
    history.arrive()
    history.answer()
    assert not refused.done()
    history.run(0)
    assert history.logs[0].values == [b"2", b"1"]
    assert refused.metadata().offset == 1

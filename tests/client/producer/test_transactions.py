"""The states of a producer's transactions, without a broker."""

import pytest

from barnabas.client.group_metadata import GroupMetadata
from barnabas.client.producer.accumulator import Accumulator
from barnabas.client.producer.outbox import Outbox, Outgoing
from barnabas.client.producer.settings import ProducerSettings
from barnabas.client.producer.transaction_errors import (
    ADD_OFFSETS,
    ADD_PARTITIONS,
    END_TXN,
    INIT_PRODUCER_ID,
    PRODUCE,
    TXN_OFFSET_COMMIT,
    Meaning,
    meaning_of,
)
from barnabas.client.producer.transaction_states import TRANSITIONS, State
from barnabas.client.producer.transactions import Transactions
from barnabas.model.errors import (
    Abortable,
    Code,
    Failed,
    Fenced,
    InvalidRequest,
    KafkaError,
    Retriable,
)
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from barnabas.wire.messages.end_txn import EndTxnResponse
from barnabas.wire.messages.init_producer_id import InitProducerIdResponse
from barnabas.wire.messages.produce import PartitionProduceResponse
from barnabas.wire.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tests.client.transaction_histories import Coordinator, History
from tests.share import examples

AT = TopicPartition("t", 0)
TIMED_OUT = Retriable(Code.REQUEST_TIMED_OUT, "t-0: not written within delivery.timeout.ms")


def ready(protocol: int = 2) -> Transactions:
    machine = Transactions("id", 60_000)
    machine.initialize()
    machine.offered = protocol
    assert machine.initialized(given(5, 3)) is None
    return machine


def opened(protocol: int = 2) -> Transactions:
    machine = ready(protocol)
    machine.begin()
    return machine


def given(producer_id: int, epoch: int, code: int = 0) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=producer_id, producer_epoch=epoch)


def ended(code: int = 0, producer_id: int = 5, epoch: int = 4) -> EndTxnResponse:
    return EndTxnResponse(error_code=code, producer_id=producer_id, producer_epoch=epoch)


def added(*codes: int) -> AddPartitionsToTxnResponse:
    results = [
        AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=code)
        for number, code in enumerate(codes)
    ]
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnTopicResult(name="t", results_by_partition=results)
        ]
    )


def offsets_taken(code: int) -> TxnOffsetCommitResponse:
    partition = TxnOffsetCommitResponsePartition(partition_index=0, error_code=code)
    return TxnOffsetCommitResponse(
        topics=[TxnOffsetCommitResponseTopic(name="t", partitions=[partition])]
    )


# --- per state ---


def test_before_init_transactions_nothing_else_is_possible() -> None:
    machine = Transactions("id", 60_000)
    for call in (machine.begin, machine.commit, machine.abort):
        with pytest.raises(InvalidRequest, match=r"call init_transactions\(\) first"):
            call()
    assert "call init_transactions() first" in str(machine.refusal())
    assert machine.state is State.UNINITIALIZED


def test_initializing_is_repeated_until_it_is_answered() -> None:
    machine = Transactions("id", 60_000)
    machine.initialize()
    machine.initialize()  # the first had no answer
    again = machine.initialized(given(-1, -1, Code.CONCURRENT_TRANSACTIONS))
    assert again is not None
    assert again.soon
    again = machine.initialized(given(-1, -1, Code.NOT_COORDINATOR))
    assert again is not None
    assert again.moved
    assert machine.state is State.INITIALIZING
    assert machine.initialized(given(5, 3)) is None
    assert (machine.state, machine.producer_id, machine.epoch) == (State.READY, 5, 3)
    with pytest.raises(InvalidRequest, match="was called already"):
        machine.initialize()


def test_outside_a_transaction_no_record_is_accepted() -> None:
    machine = ready()
    assert not machine.accepting
    assert "call begin_transaction() first" in str(machine.refusal())
    with pytest.raises(InvalidRequest, match=r"call begin_transaction\(\) first"):
        machine.commit()


def test_a_transaction_is_not_begun_within_another() -> None:
    machine = opened()
    assert machine.accepting
    assert machine.sending
    with pytest.raises(InvalidRequest, match="commit or abort it first"):
        machine.begin()


def test_a_transaction_without_records_is_not_the_coordinators_business() -> None:
    machine = opened()
    machine.commit()
    assert not machine.ends_at_coordinator
    machine.finish()
    assert machine.state is State.READY


def test_while_committing_batches_leave_but_no_record_comes_in() -> None:
    machine = opened()
    machine.leaves()
    machine.commit()
    assert machine.sending
    assert not machine.accepting
    with pytest.raises(InvalidRequest, match=r"call commit_transaction\(\) again"):
        machine.abort()
    with pytest.raises(InvalidRequest, match=r"call commit_transaction\(\) again"):
        machine.begin()


def test_an_end_without_an_answer_is_repeated_as_it_was() -> None:
    machine = opened()
    machine.leaves()
    machine.commit()
    first = machine.end_request()
    assert first.committed
    assert not machine.sending  # nothing may follow it
    machine.unanswered(END_TXN)
    machine.commit()  # the user calls again
    assert machine.end_request() == first
    assert machine.ended(ended(Code.CONCURRENT_TRANSACTIONS)) is not None
    assert machine.end_request() == first
    assert machine.ended(ended()) is None
    machine.finish()
    assert (machine.state, machine.epoch, machine.needs_epoch) == (State.READY, 4, False)


def test_protocol_2_goes_on_as_the_end_says_also_with_another_producer_id() -> None:
    machine = opened()
    machine.leaves()
    machine.abort()
    assert machine.ended(ended(producer_id=9, epoch=0)) is None
    machine.finish()
    assert (machine.producer_id, machine.epoch) == (9, 0)


def test_protocol_1_takes_a_new_epoch_after_an_abort_and_after_a_lost_answer() -> None:
    machine = opened(1)
    machine.may_leave(AT)
    assert machine.partitions_added(added(0)) is None
    machine.abort()
    assert machine.needs_epoch
    assert machine.ended(ended()) is None
    assert (machine.init_request().producer_id, machine.init_request().producer_epoch) == (5, 3)
    assert machine.initialized(given(5, 4)) is None
    machine.finish()
    assert (machine.state, machine.epoch, machine.needs_epoch) == (State.READY, 4, False)
    machine.begin()
    machine.may_leave(AT)
    assert machine.partitions_added(added(0)) is None
    machine.commit()
    machine.unanswered(END_TXN)
    assert machine.ended(ended()) is None
    machine.finish()
    assert machine.needs_epoch  # the first of the two may still arrive


def test_protocol_1_commits_without_a_new_epoch() -> None:
    machine = opened(1)
    machine.may_leave(AT)
    assert machine.partitions_added(added(0)) is None
    machine.commit()
    assert machine.ended(ended(epoch=-1)) is None
    machine.finish()
    assert (machine.epoch, machine.needs_epoch) == (3, False)


def test_with_protocol_1_a_batch_waits_until_its_partition_is_added() -> None:
    machine = opened(1)
    assert not machine.may_leave(AT)
    assert machine.adding
    assert machine.add_request().v3_and_below_topics[0].partitions == [0]
    assert machine.partitions_added(added(Code.UNKNOWN_TOPIC_OR_PARTITION)) is not None
    assert not machine.may_leave(AT)
    assert not machine.ends_at_coordinator
    assert machine.partitions_added(added(0)) is None
    assert machine.may_leave(AT)
    assert not machine.adding
    assert machine.ends_at_coordinator


def test_with_protocol_2_a_batch_leaves_at_once_and_needs_an_end() -> None:
    machine = opened(2)
    assert machine.may_leave(AT)
    assert not machine.adding
    assert not machine.ends_at_coordinator
    machine.leaves()
    assert machine.ends_at_coordinator


@pytest.mark.parametrize(
    ("protocol", "versions"),
    [
        (1, {PRODUCE: 11, ADD_PARTITIONS: 3, END_TXN: 4, TXN_OFFSET_COMMIT: 4, ADD_OFFSETS: None}),
        (2, {PRODUCE: None, END_TXN: None, TXN_OFFSET_COMMIT: None}),
    ],
)
def test_the_version_of_a_request_says_which_protocol_is_spoken(
    protocol: int, versions: dict[int, int | None]
) -> None:
    machine = opened(protocol)
    assert {key: machine.version_max(key) for key in versions} == versions


def test_the_protocol_changes_only_between_transactions_and_with_a_new_epoch() -> None:
    machine = opened(1)
    machine.offered = 2
    assert not machine.may_leave(AT)
    machine.commit()
    machine.finish()
    assert (machine.protocol, machine.needs_epoch) == (1, True)
    machine.initialize()
    assert machine.initialized(given(5, 4)) is None
    assert (machine.protocol, machine.needs_epoch) == (2, False)


def test_a_transaction_without_one_of_its_records_can_only_be_aborted() -> None:
    machine = opened()
    machine.leaves()
    told = machine.batch_failed(TIMED_OUT)
    assert isinstance(told, Abortable)
    assert "delivery.timeout.ms" in told.detail
    assert "abort_transaction()" in told.detail
    assert machine.state is State.ABORTABLE_ERROR
    assert not machine.sending
    for call in (machine.begin, machine.commit, lambda: machine.check_open("x")):
        with pytest.raises(Abortable, match=r"delivery\.timeout\.ms"):
            call()
    assert isinstance(machine.refusal(), Abortable)
    machine.abort()
    assert machine.ended(ended()) is None
    machine.finish()
    assert (machine.state, machine.error) == (State.READY, None)


def test_a_record_that_fails_while_committing_hinders_the_commit() -> None:
    machine = opened()
    machine.leaves()
    machine.commit()
    machine.batch_failed(TIMED_OUT)
    with pytest.raises(Abortable):
        machine.commit()


@pytest.mark.parametrize(("protocol", "ends"), [(1, False), (2, True)])
def test_after_a_timeout_of_the_coordinator_the_producer_goes_on(protocol: int, ends: bool) -> None:
    """With protocol 1 the coordinator would refuse an EndTxn: the new epoch is asked for."""
    machine = opened(protocol)
    machine.leaves()
    told = machine.batch_failed(Fenced(Code.INVALID_PRODUCER_EPOCH, "t-0"))
    assert isinstance(told, Abortable)
    assert "transaction.timeout.ms" in told.detail
    machine.abort()
    assert machine.ends_at_coordinator is ends
    assert machine.needs_epoch is not ends


def test_a_commit_after_the_coordinator_has_aborted_is_aborted() -> None:
    """Only protocol 2 tells it apart from a producer that was fenced."""
    machine = opened(2)
    machine.leaves()
    machine.commit()
    machine.end_request()
    with pytest.raises(Abortable, match=r"longer than transaction\.timeout\.ms"):
        machine.ended(ended(Code.INVALID_TXN_STATE))
    machine.abort()
    assert not machine.end_request().committed
    assert machine.ended(ended()) is None


def test_a_fenced_producer_can_only_be_closed() -> None:
    machine = opened()
    machine.leaves()
    machine.commit()
    with pytest.raises(Fenced, match="another producer has started with this id"):
        machine.ended(ended(Code.PRODUCER_FENCED))
    assert machine.state is State.FATAL_ERROR
    for call in (machine.initialize, machine.begin, machine.commit, machine.abort):
        with pytest.raises(Fenced):
            call()
    assert isinstance(machine.refusal(), Fenced)


def test_an_abort_that_finds_the_producer_fenced_meanwhile_says_so() -> None:
    """An answer about partitions comes while the abort waits for it; there is nothing to end."""
    machine = opened(protocol=1)
    assert not machine.may_leave(AT)
    machine.abort()
    machine.raise_fatal()
    with pytest.raises(Fenced):
        machine.partitions_added(added(Code.PRODUCER_FENCED))
    assert not machine.ends_at_coordinator
    with pytest.raises(Fenced):
        machine.raise_fatal()


def test_an_abort_that_must_be_aborted_ends_the_producer() -> None:
    machine = opened()
    machine.leaves()
    machine.abort()
    with pytest.raises(Failed):
        machine.ended(ended(Code.TRANSACTION_ABORTABLE))
    assert machine.state is State.FATAL_ERROR


def test_offsets_of_a_group_that_has_moved_on_abort_the_transaction() -> None:
    machine = opened(1)
    assert not machine.has_group("g")
    again = machine.offsets_added("g", AddOffsetsToTxnResponse(error_code=51))
    assert again is not None
    assert machine.offsets_added("g", AddOffsetsToTxnResponse(error_code=0)) is None
    assert machine.has_group("g")
    request = machine.offsets_request(GroupMetadata("g", 4, "m", None), {AT: (42, 1, "")})
    assert (request.generation_id, request.member_id, request.producer_epoch) == (4, "m", 3)
    assert machine.offsets_committed("g", offsets_taken(Code.NOT_COORDINATOR)) is not None
    with pytest.raises(Abortable, match="given the partitions to another member"):
        machine.offsets_committed("g", offsets_taken(Code.ILLEGAL_GENERATION))
    assert machine.state is State.ABORTABLE_ERROR


# --- tables ---


def test_every_state_says_what_to_do_and_ends_somewhere() -> None:
    assert set(TRANSITIONS) == set(State)
    assert TRANSITIONS[State.FATAL_ERROR] == frozenset()
    reached = {State.UNINITIALIZED}
    while more := set().union(*(TRANSITIONS[state] for state in reached)) - reached:
        reached |= more
    assert reached == set(State)


@pytest.mark.parametrize(
    ("api_key", "code", "meaning"),
    [
        (INIT_PRODUCER_ID, Code.CONCURRENT_TRANSACTIONS, Meaning.RETRY),
        (INIT_PRODUCER_ID, Code.PRODUCER_FENCED, Meaning.FATAL),
        (INIT_PRODUCER_ID, Code.INVALID_TRANSACTION_TIMEOUT, Meaning.FATAL),
        (ADD_PARTITIONS, Code.UNKNOWN_TOPIC_OR_PARTITION, Meaning.RETRY),
        (ADD_PARTITIONS, Code.TOPIC_AUTHORIZATION_FAILED, Meaning.ABORT),
        (ADD_PARTITIONS, Code.INVALID_PRODUCER_EPOCH, Meaning.FATAL),
        (ADD_OFFSETS, Code.GROUP_AUTHORIZATION_FAILED, Meaning.ABORT),
        (ADD_OFFSETS, Code.INVALID_PRODUCER_ID_MAPPING, Meaning.FATAL),
        (TXN_OFFSET_COMMIT, Code.COORDINATOR_LOAD_IN_PROGRESS, Meaning.RETRY),
        (TXN_OFFSET_COMMIT, Code.UNKNOWN_MEMBER_ID, Meaning.ABORT),
        (TXN_OFFSET_COMMIT, Code.FENCED_INSTANCE_ID, Meaning.ABORT),
        (END_TXN, Code.REQUEST_TIMED_OUT, Meaning.RETRY),
        (END_TXN, Code.TRANSACTION_ABORTABLE, Meaning.ABORT),
        (END_TXN, Code.INVALID_TXN_STATE, Meaning.FATAL),
        (PRODUCE, Code.OUT_OF_ORDER_SEQUENCE_NUMBER, Meaning.ABORT),
        (PRODUCE, Code.INVALID_PRODUCER_EPOCH, Meaning.ABORT),
        (PRODUCE, Code.INVALID_TXN_STATE, Meaning.ABORT),
        (PRODUCE, Code.PRODUCER_FENCED, Meaning.FATAL),
        (PRODUCE, Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, Meaning.FATAL),
    ],
)
def test_an_error_means_retry_abort_or_the_end(api_key: int, code: Code, meaning: Meaning) -> None:
    assert meaning_of(api_key, code) is meaning


# --- histories ---


@pytest.mark.parametrize("protocol", [1, 2])
def test_what_was_committed_is_seen_once_and_nothing_else(protocol: int) -> None:
    """Lost requests, lost answers, and requests that arrive in a later transaction."""
    for seed in range(examples(300)):
        history = History(seed, protocol)
        history.run(transactions=12)
        check(history, seed)


@pytest.mark.parametrize("protocol", [1, 2])
def test_a_coordinator_that_ends_transactions_by_itself_loses_none_that_was_committed(
    protocol: int,
) -> None:
    fenced = 0
    for seed in range(examples(300)):
        history = History(seed, protocol, timeouts=True)
        try:
            history.run(transactions=12)
        except Fenced:
            # A commit after the timeout: the coordinator takes it for a producer of the past.
            fenced += 1
        check(history, seed)
    assert not fenced or protocol == 1  # protocol 2 tells the two apart


def check(history: History, seed: int) -> None:
    seen = history.seen()
    assert len(seen) == len(set(seen)), seed
    assert set(seen) == set().union(*history.committed), seed


def test_an_error_that_ends_the_producer_keeps_its_own_class() -> None:
    machine = opened()
    machine.leaves()
    refused = InvalidRequest(Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "t-0")
    told: KafkaError = machine.batch_failed(refused)
    assert isinstance(told, InvalidRequest)
    assert machine.state is State.FATAL_ERROR


def test_a_batch_behind_one_that_was_refused_for_now_is_sent_again() -> None:
    """The broker has not lost anything: the transaction can be committed."""
    accumulator = Accumulator(
        batch_size_max=1,  # each record is a batch of its own
        buffer_size_max=1 << 20,
        record_size_max=1 << 20,
        clock=lambda: 0.0,
        wall=lambda: 0.0,
        chance=lambda: 0.5,
        wake=lambda: None,
    )
    machine = opened()
    outbox = Outbox(accumulator, ProducerSettings(transactional_id="id"), lambda: 0.5, machine)
    accumulator.topic_known("t", {0: 1})
    shard = Coordinator()
    shard.epoch = machine.epoch
    log = shard.logs[0]

    def answer(outgoing: Outgoing, code: int, now: int) -> None:
        response = PartitionProduceResponse(index=0, error_code=code, base_offset=0)
        outbox.answered(outgoing, {("t", 0): response}, now)

    def taken(outgoing: Outgoing) -> int:
        return log.append(bytes(outgoing.batches[0].data or b""), protocol=2)

    def polled(now: int) -> list[Outgoing]:
        return list(outbox.poll(now, lambda node: True))

    for number in range(3):
        accumulator.add("t", b"%d" % number, None, (), 0, None, None)
    (first,) = polled(0)  # alone: the leader does not know the producer yet
    answer(first, taken(first), 0)
    (second,) = polled(0)
    (third,) = polled(0)
    answer(second, Code.NOT_ENOUGH_REPLICAS, 0)
    refused = taken(third)
    assert refused == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    answer(third, refused, 0)
    assert machine.state is State.IN_TRANSACTION
    for now in (1_000, 2_000, 3_000):
        for outgoing in polled(now):
            answer(outgoing, taken(outgoing), now)
    assert accumulator.used == 0
    assert log.entries == [b"0", b"1", b"2"]

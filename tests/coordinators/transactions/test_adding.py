"""Partitions and groups that join a transaction, and the question whether they have."""

import pytest

from barnabas.coordinators.transactions.decision import Identity
from barnabas.model.errors import Code, Failed
from tests.coordinators.transactions.world import ID, SHARD, World, codes


def test_the_first_partition_opens_the_transaction() -> None:
    world = World(ms=500)
    producer = world.new()
    world.advance(100)
    assert world.add_code(producer, {"t": [0, 1], "u": [0]}) is Code.NONE
    opened = world.transaction()
    assert world.state() == "Ongoing"
    assert opened.started_ms == world.now.wall_ms
    world.advance(100)
    assert world.add_code(producer, {"t": [2]}) is Code.NONE
    assert world.transaction().partitions == {"t": {0, 1, 2}, "u": {0}}
    assert world.transaction().started_ms == opened.started_ms


def test_partitions_that_are_in_already_are_not_written_again() -> None:
    world = World()
    producer = world.new()
    world.add(producer, {"t": [0, 1]})
    end = world.journal.end
    assert world.add_code(producer, {"t": [1]}) is Code.NONE
    assert world.journal.end == end


def test_only_the_current_producer_adds() -> None:
    world = World()
    producer = world.new()
    assert world.add_code(producer, id_="other") is Code.INVALID_PRODUCER_ID_MAPPING
    assert world.add_code(Identity(7, 0)) is Code.INVALID_PRODUCER_ID_MAPPING
    assert world.add_code(Identity(1000, 1)) is Code.PRODUCER_FENCED
    assert world.add_code(producer, id_="") is Code.INVALID_REQUEST
    assert world.add_code(Identity(1000, 1), version=1) is Code.INVALID_PRODUCER_EPOCH


def test_nothing_is_added_until_the_transaction_before_is_complete() -> None:
    world = World()
    producer = world.new()
    world.add(producer)
    world.end(producer)
    assert world.add_code(producer) is Code.CONCURRENT_TRANSACTIONS
    world.written()
    assert world.state() == "CompleteCommit"
    assert world.add_code(producer, {"u": [5]}) is Code.NONE
    assert world.transaction().partitions == {"u": {5}}


def test_a_group_joins_with_the_partition_that_keeps_it() -> None:
    world = World()
    producer = world.new()
    assert world.add_offsets(producer).code is Code.NONE
    assert world.transaction().partitions == {"__consumer_offsets": {3}}
    assert world.add_offsets(Identity(1000, 9)).code is Code.PRODUCER_FENCED
    assert world.add_offsets(Identity(1000, 9), version=1).code is Code.INVALID_PRODUCER_EPOCH


def test_leaders_learn_which_partitions_are_in_the_transaction() -> None:
    world = World()
    producer = world.new()
    world.add(producer, {"t": [0]})
    end = world.journal.end
    assert world.verify(producer, {"t": [0, 1], "u": [0]}) == {
        ("t", 0): Code.NONE,
        ("t", 1): Code.TRANSACTION_ABORTABLE,
        ("u", 0): Code.TRANSACTION_ABORTABLE,
    }
    assert world.journal.end == end


def test_nothing_is_in_a_transaction_that_is_over() -> None:
    """A late Produce must find its transaction closed, not open one that nobody ends."""
    world = World()
    producer = world.new()
    world.add(producer)
    world.end(producer, commit=False)
    assert world.verify(producer) == {("t", 0): Code.CONCURRENT_TRANSACTIONS}
    world.written()
    assert world.verify(producer) == {("t", 0): Code.TRANSACTION_ABORTABLE}
    world.new()
    assert world.verify(producer) == {("t", 0): Code.PRODUCER_FENCED}


def test_verification_of_a_stranger_fails() -> None:
    world = World()
    producer = world.new()
    assert world.verify(producer, id_="x") == {("t", 0): Code.INVALID_PRODUCER_ID_MAPPING}
    assert world.verify(producer, id_="") == {("t", 0): Code.INVALID_REQUEST}


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        (Code.NOT_ENOUGH_REPLICAS, Code.COORDINATOR_NOT_AVAILABLE),
        (Code.REQUEST_TIMED_OUT, Code.COORDINATOR_NOT_AVAILABLE),
        (Code.NOT_LEADER_OR_FOLLOWER, Code.NOT_COORDINATOR),
        (Code.KAFKA_STORAGE_ERROR, Code.NOT_COORDINATOR),
        (Code.MESSAGE_TOO_LARGE, Code.UNKNOWN_SERVER_ERROR),
    ],
)
def test_what_the_log_refuses_has_not_happened(refusal: Code, told: Code) -> None:
    world = World()
    producer = world.new()
    world.journal.error = Failed(refusal)
    for version in (3, 4):
        assert set(codes(world.add(producer, {"t": [0, 1]}, version=version)).values()) == {told}
    assert world.join(producer).code is told
    assert world.add_offsets(producer).code is told
    world.journal.error = None
    assert world.state() == "Empty"
    assert world.verify(producer) == {("t", 0): Code.TRANSACTION_ABORTABLE}


def test_several_leaders_may_add_before_the_first_addition_is_committed() -> None:
    """In version 2 each leader adds its own partitions: none has to wait for another."""
    world = World()
    producer = world.new()
    world.journal.lagging = True
    first = world.add(producer, {"t": [0]}, version=5)
    second = world.add(producer, {"t": [1]}, version=5)
    assert first.waits
    assert second.waits
    world.commit_log(world.journal.end - 1)
    assert not first.waits
    assert second.waits
    world.commit_log()
    assert set(codes(second).values()) == {Code.NONE}


def test_who_waits_is_sent_away_when_another_broker_coordinates() -> None:
    world = World()
    producer = world.new()
    world.journal.lagging = True
    calls = [world.add(producer, version=version) for version in (3, 5)]
    calls += [world.end(producer), world.add_offsets(producer)]
    world.deliver(world.runtime.unload(7))
    assert set(codes(calls[0]).values()) == {Code.NOT_COORDINATOR}
    assert set(codes(calls[1]).values()) == {Code.NOT_COORDINATOR}


def test_a_transaction_over_ten_thousand_partitions_is_kept_whole() -> None:
    world = World()
    producer = world.new()
    assert world.add_code(producer, {f"t{i}": range(100) for i in range(100)}) is Code.NONE
    world.start()
    assert sum(map(len, world.transaction().partitions.values())) == 10_000
    assert not world.markers


def test_a_leader_on_the_same_broker_gets_the_answers_that_others_get() -> None:
    world = World()
    producer = world.new()
    assert world.join(producer, {"t": [0, 1]}).code is Code.NONE
    assert world.state() == "Ongoing"
    assert world.transaction().client_version == 2
    asked = {"t": frozenset((1, 2))}
    shard = world.runtime.shard(SHARD)
    for each in (producer, Identity(7, 0), Identity(producer.producer_id, 5)):
        assert shard.verified(ID, each, asked) == world.verify(each, {"t": [1, 2]})
        assert world.join(each, {"t": [0]}).code is world.add_code(each, {"t": [0]}, version=4)

"""Transactions that are open for too long, and ids that nobody uses any more."""

import pytest
from msgspec.structs import replace

from barnabas.coordinators.transactions.causes import AbortedBy
from barnabas.coordinators.transactions.limits import TransactionLimits
from barnabas.coordinators.transactions.records import TransactionRecord
from barnabas.coordinators.transactions.shard import TWO_PHASE_TIMEOUT_MS
from barnabas.model.errors import Code, Retriable
from tests.coordinators.transactions.world import ID, SHARD, World

WEEK_MS = 7 * 24 * 3_600_000


@pytest.mark.parametrize("version", [0, 2])
def test_a_transaction_open_for_too_long_is_aborted_and_its_producer_fenced(version: int) -> None:
    world = World(TransactionLimits(version=version))
    producer = world.new(timeout=30_000)
    world.add(producer)
    world.advance(30_000)
    assert world.state() == "Ongoing"
    world.advance(10_001)
    assert world.state() == "PrepareAbort"
    assert (world.markers[0].commit, world.markers[0].producer_epoch) == (False, 1)
    assert world.end(producer).code is Code.PRODUCER_FENCED
    assert world.add_code(producer) is Code.PRODUCER_FENCED
    assert world.shard.table.causes[ID].kind is AbortedBy.TIMEOUT
    world.written()
    assert world.init(producer=producer).code in (Code.PRODUCER_FENCED, Code.NONE)


def test_the_time_counts_from_the_first_addition() -> None:
    world = World()
    producer = world.new(timeout=30_000)
    world.advance(100_000)
    world.add(producer)
    world.advance(20_000)
    world.add(producer, {"t": [1]})
    world.advance(9_000)
    assert world.state() == "Ongoing"
    world.advance(20_000)
    assert world.state() == "PrepareAbort"


def test_the_time_counts_on_with_another_coordinator() -> None:
    world = World()
    producer = world.new(timeout=30_000)
    world.add(producer)
    world.advance(25_000)
    world.start()
    world.advance(20_000)
    assert world.state() == "PrepareAbort"


@pytest.mark.parametrize("failover", [False, True])
def test_a_clock_that_is_set_back_keeps_no_transaction_open(failover: bool) -> None:
    """Its start is in the future: by the wall clock it would time out in a week."""
    world = World(wall_off_ms=WEEK_MS)
    producer = world.new(timeout=30_000)
    world.add(producer)
    world.wall_off_ms = 0
    if failover:
        world.start()
    world.advance(30_000)
    assert world.state() == "Ongoing"
    world.advance(10_001)
    assert world.state() == "PrepareAbort"


def test_a_clock_that_is_set_forward_aborts_no_transaction() -> None:
    world = World()
    producer = world.new(timeout=30_000)
    world.add(producer)
    world.wall_off_ms = WEEK_MS
    world.advance(29_000)
    assert world.state() == "Ongoing"
    world.advance(11_001)
    assert world.state() == "PrepareAbort"


def test_a_timeout_that_the_log_refuses_comes_again() -> None:
    world = World()
    producer = world.new(timeout=1_000)
    world.add(producer)
    world.journal.error = Retriable(Code.NOT_ENOUGH_REPLICAS)
    world.advance(60_000)
    assert world.transaction().producer_epoch == producer.epoch
    world.journal.error = None
    world.advance(10_000)
    assert world.state() == "PrepareAbort"
    assert world.transaction().producer_epoch == producer.epoch + 1


def test_many_transactions_are_aborted_in_slices() -> None:
    world = World()
    for number in range(1_200):
        id_ = f"tx-{number}"
        world.add(world.new(id_, timeout=1_000), id_=id_)
    batches = len(world.journal.batches)
    world.advance(11_000)
    assert {found.state.title for found in world.shard.table.transactions.values()} == {
        "PrepareAbort"
    }
    assert len(world.journal.batches) - batches >= 3


def test_a_two_phase_transaction_never_times_out() -> None:
    """None can be made here, but one may be in a log of Kafka's."""
    world = World()
    producer = world.new()
    world.add(producer)
    then = replace(world.transaction(), timeout_ms=TWO_PHASE_TIMEOUT_MS)
    world.runtime.write(SHARD, (TransactionRecord(ID, then),), world.now)
    world.ms += TWO_PHASE_TIMEOUT_MS  # at once: to pass each deadline on the way takes a second
    world.advance(1_000_000)
    assert world.state() == "Ongoing"


def test_an_id_that_nobody_uses_is_forgotten() -> None:
    world = World()
    world.new("idle")
    done = world.new("done")
    world.add(done, id_="done")
    world.end(done, id_="done")
    world.written()
    world.advance(WEEK_MS - 1)
    used = world.new("used")
    assert set(world.shard.table.transactions) == {"idle", "done", "used"}
    world.advance(3_600_001)
    assert set(world.shard.table.transactions) == {"used"}
    assert world.limits.room.used == sum(map(len, ["used"])) + 1_000
    world.start()
    assert set(world.shard.table.transactions) == {"used"}
    assert world.add_code(used, id_="used") is Code.NONE
    assert world.init("idle").identity.epoch == 0


def test_a_transaction_without_its_markers_is_not_forgotten() -> None:
    world = World()
    producer = world.new()
    world.add(producer)
    world.end(producer)
    world.advance(2 * WEEK_MS)
    assert world.state() == "PrepareCommit"
    world.written()
    assert world.state() == "CompleteCommit"


def test_an_idle_coordinator_has_nothing_to_wake_for() -> None:
    world = World()
    world.new()
    world.advance(2 * WEEK_MS)
    assert not world.shard.table.transactions
    assert world.runtime.next_deadline() is None

"""How transactions end is counted once, and the last aborts are remembered with their causes."""

from barnabas.coordinators.transactions.causes import AbortedBy, cause_text
from barnabas.coordinators.transactions.statistics import (
    TOLD_MAX,
    UNLOGGED_MAX,
    TransactionStatistics,
)
from barnabas.coordinators.transactions.transaction import created, joined, prepared
from tests.coordinators.transactions.world import ID, WALL_MS, World


def ended(world: World, *, commit: bool) -> None:
    producer = world.new()
    world.add(producer)
    world.end(producer, commit=commit)
    world.written()


def test_ends_are_counted_by_cause_and_not_again_after_a_reload() -> None:
    world = World()
    ended(world, commit=True)
    ended(world, commit=False)
    world.add(world.new())
    world.init(client="rival")
    world.written()
    world.add(world.new())
    world.advance(80_000)
    expected = {
        AbortedBy.CLIENT: 1,
        AbortedBy.FENCED: 1,
        AbortedBy.TIMEOUT: 1,
        AbortedBy.GROUP: 0,
        AbortedBy.UNKNOWN: 0,
    }
    assert (world.statistics.commits, world.statistics.aborts) == (1, expected)
    world.start()
    assert (world.statistics.commits, world.statistics.aborts) == (1, expected)


def test_the_last_aborts_of_an_id_are_kept_with_their_causes() -> None:
    world = World()
    ended(world, commit=False)
    world.add(world.new(), {"t": [0, 1]})
    world.ms += 500
    world.init(client="rival")
    fenced, aborted = world.statistics.last_aborts([ID])[ID]
    assert (fenced.cause.kind, fenced.open_ms, fenced.partitions) == (AbortedBy.FENCED, 500, 2)
    assert cause_text(fenced.cause) == (
        "another producer initialised the same transactional id (client 'rival' at 10.0.0.1)"
    )
    assert aborted.cause.kind is AbortedBy.CLIENT
    assert world.statistics.last_aborts(["other"]) == {"other": []}


def test_only_aborts_that_the_producer_did_not_ask_for_are_logged() -> None:
    world = World()
    ended(world, commit=False)
    assert world.statistics.take_unlogged() == ([], 0)
    world.add(world.new())
    world.advance(80_000)
    (timed_out,), left_out = world.statistics.take_unlogged()
    assert (timed_out.cause.kind, left_out) == (AbortedBy.TIMEOUT, 0)
    assert world.statistics.take_unlogged() == ([], 0)


def test_memory_is_bounded_whatever_is_aborted() -> None:
    statistics = TransactionStatistics(bytes_max=50_000)
    opened = joined(created(1, 60_000, WALL_MS), {"t": frozenset([0])}, 0, WALL_MS)
    abort = prepared(opened, commit=False, version=0, next_producer_id=-1, wall_ms=WALL_MS)
    for number in range(1_000):
        statistics.changed(f"{number % 3}" + "x" * 1_000, abort, None)
    assert statistics.bytes <= 50_000
    assert statistics.aborts[AbortedBy.UNKNOWN] == 1_000
    id_ = "0" + "x" * 1_000
    assert len(statistics.last_aborts([id_])[id_]) == TOLD_MAX


def test_many_timeouts_at_once_are_not_all_kept_for_the_log() -> None:
    world = World()
    for number in range(UNLOGGED_MAX + 5):
        world.add(world.new(f"{number}"), id_=f"{number}")
    world.advance(80_000)
    taken, left_out = world.statistics.take_unlogged()
    assert (len(taken), left_out) == (UNLOGGED_MAX, 5)


def test_a_long_client_id_is_cut() -> None:
    world = World()
    world.init(client="x" * 30_000)
    assert len(world.shard.table.owners[ID].client_id) == 200

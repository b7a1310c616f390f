"""ListTransactions and DescribeTransactions."""

import re

from barnabas.coordinators.transactions.describing import described, listed, unknown_states
from barnabas.model.errors import Code
from barnabas.wire.messages.list_transactions import ListTransactionsRequest
from tests.coordinators.transactions.world import World


def ids(
    world: World,
    pattern: str | None = None,
    states: list[str] | None = None,
    producers: list[int] | None = None,
    duration: int = -1,
) -> set[str]:
    request = ListTransactionsRequest(
        state_filters=states or [],
        producer_id_filters=producers or [],
        duration_filter=duration,
        transactional_id_pattern=pattern,
    )
    matches = None if pattern is None else re.compile(pattern).fullmatch
    found = listed(world.shard.table, request, matches, world.now.wall_ms)
    return {each.transactional_id for each in found}


def three(world: World) -> None:
    world.new("idle")
    world.add(world.new("open"), id_="open")
    world.advance(100)
    producer = world.new("decided")
    world.add(producer, {"t": [0, 1]}, id_="decided")
    world.end(producer, id_="decided")


def test_ids_are_listed_by_state_producer_duration_and_pattern() -> None:
    world = World()
    three(world)
    assert ids(world) == {"idle", "open", "decided"}
    assert ids(world, states=["Ongoing", "PrepareCommit"]) == {"open", "decided"}
    assert ids(world, states=["Dead"]) == set()
    assert ids(world, producers=[1001]) == {"open"}
    assert ids(world, duration=99) == {"open", "idle"}
    assert ids(world, pattern="i.*") == {"idle"}
    assert ids(world, pattern="i") == set()


def test_unknown_states_match_nothing_and_are_returned() -> None:
    world = World()
    three(world)
    request = ListTransactionsRequest(state_filters=["Dead", "Nope"], producer_id_filters=[])
    assert unknown_states(request) == ["Nope"]
    assert ids(world, states=["Nope"]) == set()


def test_a_description_has_the_partitions_still_without_marker() -> None:
    world = World()
    three(world)
    world.written(only=1)
    found = described(world.shard.table, "decided")
    assert found.transaction_state == "PrepareCommit"
    assert [(topic.topic, topic.partitions) for topic in found.topics] == [("t", [1])]
    assert found.transaction_start_time_ms == world.now.wall_ms
    assert (found.producer_id, found.producer_epoch) == (1002, 0)
    missing = described(world.shard.table, "nobody")
    assert missing.error_code == Code.TRANSACTIONAL_ID_NOT_FOUND

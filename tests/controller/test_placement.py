"""Where replicas are put: as Kafka's own code puts them.

placements.txt was written by Kafka's AdminUtils: brokers with their racks; partitions; replicas;
where it began; the first partition; and what came out.
"""

from collections import Counter
from pathlib import Path

import pytest

from barnabas.controller.placement import alternated, place
from barnabas.model.errors import Code, KafkaError
from barnabas.model.ids import BrokerId

LINES = (Path(__file__).parent / "placements.txt").read_text().splitlines()


@pytest.mark.parametrize("line", LINES)
def test_replicas_are_where_kafka_puts_them(line: str) -> None:
    brokers, partitions, factor, start, first, expected = line.split(";")
    racks = {
        BrokerId(int(id_)): rack or None
        for id_, _, rack in (each.partition(":") for each in brokers.split(","))
    }
    assert place(
        racks, int(partitions), int(factor), start=int(start), shift=int(start), first=int(first)
    ) == [tuple(map(int, each.split(","))) for each in expected.split("|")]


def test_followers_of_one_leader_are_spread_by_the_shift() -> None:
    placed = place(_brokers(5), 20, 3, start=0, shift=0)
    assert {follower for leader, *rest in placed if leader == 0 for follower in rest} == {
        1,
        2,
        3,
        4,
    }
    assert Counter(leader for leader, *_ in placed) == dict.fromkeys(range(5), 4)


def test_a_broker_of_each_rack_comes_in_turn() -> None:
    racks = {BrokerId(i): rack for i, rack in enumerate(["a", "c", "c", "b", "b", "a"])}
    assert alternated(racks) == [0, 3, 1, 5, 4, 2]


def test_replicas_are_in_different_racks_while_there_are_any() -> None:
    racks: dict[BrokerId, str | None] = {BrokerId(i): "abc"[i % 3] for i in range(7)}
    for replicas in place(racks, 50, 3, start=2, shift=5):
        assert len({racks[each] for each in replicas}) == 3


def test_racks_that_not_every_broker_has_are_not_looked_at() -> None:
    some: dict[BrokerId, str | None] = {**_brokers(3), BrokerId(0): "a"}
    assert place(some, 6, 2, start=1, shift=0) == place(_brokers(3), 6, 2, start=1, shift=0)


@pytest.mark.parametrize("factor", [0, 4])
def test_more_replicas_than_brokers_or_none_are_refused(factor: int) -> None:
    with pytest.raises(KafkaError) as refused:
        place(_brokers(3), 1, factor, start=0, shift=0)
    assert refused.value.code is Code.INVALID_REPLICATION_FACTOR


def _brokers(count: int) -> dict[BrokerId, str | None]:
    return {BrokerId(id_): None for id_ in range(count)}

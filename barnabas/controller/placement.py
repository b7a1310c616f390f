"""Places replicas on brokers as Kafka's AdminUtils does.

In: brokers with their racks, counts, where to begin. Out: the brokers of each partition, the
preferred leader first.
Always: replicas of one partition are on different brokers; leaders rotate over all brokers, and
the followers of one leader over all others; if every broker has a rack, replicas are in as many
racks as there are, or as there are replicas.
Why not random: the placement would be unpredictable, and some brokers would get too many replicas.
"""

from collections.abc import Mapping, Sequence

from barnabas.model.errors import Code, InvalidRequest
from barnabas.model.ids import BrokerId


def place_on_all(
    up: Mapping[BrokerId, str | None],
    down: Mapping[BrokerId, str | None],
    partitions: int,
    factor: int,
    *,
    start: int,
    shift: int,
    first: int = 0,
) -> list[tuple[BrokerId, ...]]:
    """On brokers that are up. If these are too few, each partition is on all of them, and its last
    replicas are on brokers that are down."""
    if factor <= len(up) or factor < 1:
        return place(up, partitions, factor, start=start, shift=shift, first=first)
    if factor > len(up) + len(down):
        raise InvalidRequest(
            Code.INVALID_REPLICATION_FACTOR,
            f"replication factor {factor}: {len(up) + len(down)} brokers are registered, {len(up)}"
            " of them are up",
        )
    if not up:
        return place(down, partitions, factor, start=start, shift=shift, first=first)
    placed = place(up, partitions, len(up), start=start, shift=shift, first=first)
    racks = set(up.values())
    return [
        (*replicas, *_filled(down, racks, factor - len(up), first + number))
        for number, replicas in enumerate(placed)
    ]


def _filled(
    down: Mapping[BrokerId, str | None], used: set[str | None], count: int, turn: int
) -> list[BrokerId]:
    """Each partition begins with another broker; brokers in racks without a replica come first."""
    brokers = sorted(down)
    turned = brokers[turn % len(brokers) :] + brokers[: turn % len(brokers)]
    return sorted(turned, key=lambda each: down[each] in used)[:count]


def place(
    racks: Mapping[BrokerId, str | None],
    partitions: int,
    factor: int,
    *,
    start: int,
    shift: int,
    first: int = 0,
) -> list[tuple[BrokerId, ...]]:
    """For partitions from number `first` on."""
    if factor < 1:
        raise InvalidRequest(
            Code.INVALID_REPLICATION_FACTOR, f"replication factor {factor}: must be above 0"
        )
    if factor > len(racks):
        raise InvalidRequest(
            Code.INVALID_REPLICATION_FACTOR,
            f"replication factor {factor}: {len(racks)} brokers are registered",
        )
    known = {broker: rack for broker, rack in sorted(racks.items()) if rack is not None}
    if len(known) < len(racks):  # some brokers have no rack, so racks cannot be considered
        brokers, known = sorted(racks), {}
    else:
        brokers = alternated(known)
    placed = []
    for number in range(first, first + partitions):
        if number > 0 and number % len(brokers) == 0:
            shift += 1
        leader = (number + start) % len(brokers)
        placed.append(
            _across_racks(brokers, known, leader, shift, factor)
            if known
            else _around(brokers, leader, shift, factor)
        )
    return placed


def alternated(racks: Mapping[BrokerId, str]) -> list[BrokerId]:
    """One broker of each rack in turn, until all brokers are used."""
    by_rack: dict[str, list[BrokerId]] = {}
    for broker, rack in sorted(racks.items(), key=lambda each: (each[1], each[0])):
        by_rack.setdefault(rack, []).append(broker)
    longest = max(map(len, by_rack.values()))
    return [
        brokers[turn]
        for turn in range(longest)
        for brokers in by_rack.values()
        if turn < len(brokers)
    ]


def _around(
    brokers: Sequence[BrokerId], leader: int, shift: int, factor: int
) -> tuple[BrokerId, ...]:
    rest = (brokers[_follower(leader, shift, turn, len(brokers))] for turn in range(factor - 1))
    return (brokers[leader], *rest)


def _across_racks(
    brokers: Sequence[BrokerId],
    racks: Mapping[BrokerId, str],
    leader: int,
    shift: int,
    factor: int,
) -> tuple[BrokerId, ...]:
    every_rack = len(set(racks.values()))
    chosen = [brokers[leader]]
    used = {racks[brokers[leader]]}
    turn = 0
    while len(chosen) < factor:
        broker = brokers[_follower(leader, shift * every_rack, turn, len(brokers))]
        turn += 1
        new_rack = racks[broker] not in used or len(used) == every_rack
        if new_rack and broker not in chosen:
            chosen.append(broker)
            used.add(racks[broker])
    return tuple(chosen)


def _follower(leader: int, shift: int, turn: int, brokers: int) -> int:
    return (leader + 1 + (shift + turn) % (brokers - 1)) % brokers

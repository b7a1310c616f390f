"""What a group may never do: lose a commit, give one partition to two, go back unasked."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from barnabas.client.consumer.offset_lookup import Committed
from barnabas.coordinators.groups.records import OffsetRecord, decode
from barnabas.model.ids import TopicPartition
from tests.simulator.truth import Keyed, Violation

BY_HAND = "desk"  # how groups are called whose offsets are moved by hand, and may go back
Offsets = dict[tuple[str, str, int], int]


class Acknowledged:
    """Sees what a commit was acknowledged for: nothing, where there was nothing to ask for."""

    def __init__(self) -> None:
        self.places: dict[TopicPartition, int] = {}

    def on_consume(self, messages: list[Any]) -> list[Any]:
        return messages

    def on_commit(self, offsets: Mapping[TopicPartition, Committed]) -> None:
        self.places |= {at: committed.offset for at, committed in offsets.items()}


class Groups:
    """All groups of a world, as their members and the log of their offsets see them."""

    def __init__(self) -> None:
        self._owners: dict[tuple[str, TopicPartition, int], str] = {}
        self._logged: dict[tuple[str, TopicPartition], int] = {}
        self._acked: dict[tuple[str, TopicPartition], int] = {}
        self._floors: dict[tuple[str, TopicPartition, str], int] = {}
        self._seated: dict[tuple[str, str], tuple[str, int]] = {}  # who came last, and when
        self._replays: dict[TopicPartition, Replay] = {}  # of what was committed
        self.read: dict[tuple[str, TopicPartition], set[int]] = defaultdict(set)
        self.holding: dict[tuple[str, TopicPartition], dict[str, None]] = defaultdict(dict)

    def assigned(
        self,
        group: str,
        at: TopicPartition,
        generation: int,
        member: str,
        name: str,
        classic: bool,
        now_us: int,
    ) -> None:
        """`name`: as which the group knows it; its instance id, where it has one."""
        self.holding[group, at][member] = None
        self._seated[group, name] = member, now_us
        known = (self._acked.get((group, at), 0), self._logged.get((group, at), 0))
        self._floors[group, at, member] = max(known)
        if not classic:
            return
        owner = self._owners.setdefault((group, at, generation), name)
        if owner != name:
            raise Violation(
                f"group {group}: {at} belongs to {owner} and to {name} in generation {generation}"
            )

    def revoked(self, group: str, at: TopicPartition, member: str) -> None:
        self.holding[group, at].pop(member, None)

    def begins(self, group: str, at: TopicPartition, offset: int, member: str) -> None:
        """A member reads on from what was committed when it was given the partition."""
        known = self._floors[group, at, member]
        if offset < known:
            raise Violation(
                f"group {group}: {member} begins {at} at offset {offset}, though {known} was"
                " committed"
            )

    def committed(
        self,
        group: str,
        member: str,
        name: str,
        places: Mapping[TopicPartition, int],
        sent_us: int,
    ) -> None:
        """Acknowledged to a member, whose place no twin may have taken before it asked.

        `places`: what it was acknowledged for; one that had no place yet asked nobody."""
        holder, since_us = self._seated.get((group, name), (member, 0))
        if places and holder != member and since_us < sent_us:
            raise Violation(
                f"group {group}: {member} committed as {name}, whose place {holder} had taken"
            )
        for at, offset in places.items():
            self._acked[group, at] = max(offset, self._acked.get((group, at), 0))

    def was_read(self, group: str, at: TopicPartition, offset: int) -> None:
        self.read[group, at].add(offset)

    def logged(self, partition: TopicPartition, record: Keyed, who: str) -> None:
        """A record of __consumer_offsets is committed."""
        for where, offset in self._replays.setdefault(partition, Replay()).add(record):
            group, topic, number = where
            if offset is None or group.startswith(BY_HAND):
                continue
            at = TopicPartition(topic, number)
            before = self._logged.get((group, at), 0)
            if offset < before:
                raise Violation(
                    f"group {group}: the committed offset of {at} went back from {before} to"
                    f" {offset}, on {who}"
                )
            self._logged[group, at] = offset


class Replay:
    """What is committed, where the records that were added are all that a coordinator has read.

    Offsets of a transaction count with the marker that commits it, unless a later record of the
    same partition has counted before."""

    def __init__(self) -> None:
        self.offsets: Offsets = {}
        self.pending: dict[int, dict[tuple[str, str, int], Keyed]] = {}  # by producer
        self._since: dict[tuple[str, str, int], int] = {}  # offset of the record that counts

    def add(self, record: Keyed) -> list[tuple[tuple[str, str, int], int | None]]:
        """Out: what has changed."""
        if record.ends is not None:
            ended = self.pending.pop(record.producer, {})
            kept = [
                each for where, each in ended.items() if each.offset > self._since.get(where, -1)
            ]
            return [change for each in kept for change in self._count(each)] if record.ends else []
        known = None if record.key is None else decode(record.key, record.value)
        if not isinstance(known, OffsetRecord):
            return []
        if record.producer >= 0:
            where = (known.group, known.topic, known.partition)
            self.pending.setdefault(record.producer, {})[where] = record
            return []
        return self._count(record)

    def _count(self, record: Keyed) -> list[tuple[tuple[str, str, int], int | None]]:
        assert record.key is not None
        known = decode(record.key, record.value)
        assert isinstance(known, OffsetRecord)
        where = (known.group, known.topic, known.partition)
        self._since[where] = record.offset
        if known.value is None:
            self.offsets.pop(where, None)
            for pending in self.pending.values():
                pending.pop(where, None)
            return [(where, None)]
        self.offsets[where] = known.value.offset
        return [(where, known.value.offset)]

    def is_pending(self) -> dict[tuple[str, str, int], None]:
        """Offsets that a transaction may still change."""
        return dict.fromkeys(where for pending in self.pending.values() for where in pending)


def replayed(records: Iterable[Keyed]) -> Replay:
    replay = Replay()
    for record in records:
        replay.add(record)
    return replay


def difference(found: Offsets, expected: Offsets) -> str:
    """The first place where they differ; empty if there is none."""
    for where in sorted(found.keys() | expected.keys()):
        if found.get(where) != expected.get(where):
            group, topic, partition = where
            return (
                f"group {group} has {found.get(where)} for {topic}-{partition}, where"
                f" {expected.get(where)} is right"
            )
    return ""

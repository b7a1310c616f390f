"""Deals each topic out in ranges: neighbouring partitions to one member, topic by topic.

In: members and topics. Out: who gets what.
Always: per topic, shares differ by at most one, and the larger ones come first. Topics with equal
counts and subscribers are cut alike, so that joins find partition n of each at one member.
Racks (client only): near partitions are dealt first, as far as shares allow; what is left goes
in ranges as ever.
"""

from collections.abc import Sequence
from itertools import islice

from barnabas.assignment.group import (
    AssignableTopic,
    Assignment,
    GroupSubscriber,
    Topics,
    static_first,
    subscribers_of,
)
from barnabas.assignment.racks import racks_matter
from barnabas.model.ids import TopicPartition


def assign_range(members: Sequence[GroupSubscriber], topics: Topics) -> Assignment:
    """The consumer's `range`."""
    shares = _shares(members, topics)
    if any(share.racks_matter for share in shares):
        _deal_near(shares)
    return _dealt(members, shares)


def assign_server_range(members: Sequence[GroupSubscriber], topics: Topics) -> Assignment:
    """The coordinator's `range`: it looks at no racks."""
    return _dealt(members, _shares(members, topics))


class _Share:
    """How far one topic is dealt out among its subscribers."""

    def __init__(
        self, name: str, topic: AssignableTopic, subscribers: Sequence[GroupSubscriber]
    ) -> None:
        self.name = name
        self.rack_of = {member.member_id: member.rack or None for member in subscribers}
        self.count = topic.partitions
        self._left = dict.fromkeys(range(topic.partitions))
        self.given: dict[str, list[int]] = {member_id: [] for member_id in self.rack_of}
        self._quota, self._larger_left = divmod(topic.partitions, len(subscribers))
        self._racks = [topic.racks_of(partition) for partition in self._left]
        self.racks_matter = racks_matter(filter(None, self.rack_of.values()), self._racks)

    def near(self, member_id: str, partition: int) -> bool:
        rack = self.rack_of[member_id]
        return rack is None or rack in self._racks[partition]

    def room(self, member_id: str) -> int:
        quota = self._quota + (self._larger_left > 0)
        return max(0, quota - len(self.given[member_id]))

    def give(self, member_id: str, partitions: Sequence[int]) -> None:
        given = self.given[member_id]
        given += partitions
        if len(given) > self._quota:
            self._larger_left -= 1
        for partition in partitions:
            del self._left[partition]

    def deal_near(self) -> None:
        for member_id in self.given:
            near = (partition for partition in self._left if self.near(member_id, partition))
            if chosen := list(islice(near, self.room(member_id))):
                self.give(member_id, chosen)

    def deal(self) -> None:
        rest = iter(list(self._left))
        for member_id in self.given:
            if chosen := list(islice(rest, self.room(member_id))):
                self.give(member_id, chosen)


def _shares(members: Sequence[GroupSubscriber], topics: Topics) -> list[_Share]:
    subscribers = subscribers_of(static_first(members), topics)
    return [_Share(name, topics[name], subscribers[name]) for name in sorted(subscribers)]


def _deal_near(shares: Sequence[_Share]) -> None:
    cut_alike: dict[tuple[int, tuple[str, ...]], list[_Share]] = {}
    for share in shares:
        cut_alike.setdefault((share.count, tuple(share.given)), []).append(share)
    for together in cut_alike.values():
        if len(together) > 1:
            _deal_near_together(together)
        elif together[0].racks_matter:
            together[0].deal_near()


def _deal_near_together(shares: Sequence[_Share]) -> None:
    """Partition n of every topic to one member, where one is near all of them."""
    if not any(shares[0].rack_of.values()):
        return
    able = list(shares[0].given)
    for partition in range(shares[0].count):
        for member_id in able:
            if all(s.near(member_id, partition) and s.room(member_id) for s in shares):
                break
        else:
            continue
        for share in shares:
            share.give(member_id, [partition])
        if not any(share.room(member_id) for share in shares):
            able.remove(member_id)


def _dealt(members: Sequence[GroupSubscriber], shares: Sequence[_Share]) -> Assignment:
    assignment: Assignment = {member.member_id: [] for member in members}
    for share in shares:  # by name, so that every list comes out sorted
        share.deal()
        for member_id, partitions in share.given.items():
            assignment[member_id] += [TopicPartition(share.name, p) for p in sorted(partitions)]
    return assignment

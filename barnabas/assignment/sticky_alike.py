"""Sticky assignment among members that all subscribe to the same topics.

In: the owners, and all partitions by topic and number. Out: the partitions of each member, and
those that moved from one member to another.
Always: counts differ by at most one; a member loses a partition only if it has more than its quota,
or (if racks matter) if the partition is not in its rack. An extra partition stays with members that
have one, in the order of `ownership.owned`; then the others get one, by name.
"""

from collections.abc import Iterable, Iterator, Sequence

from barnabas.assignment.claims import Ownership
from barnabas.assignment.group import Assignment
from barnabas.assignment.java_order import text_key
from barnabas.assignment.racks import Racks
from barnabas.model.ids import TopicPartition


def share_alike(
    ownership: Ownership, partitions: Sequence[TopicPartition], racks: Racks
) -> tuple[Assignment, set[TopicPartition]]:
    deal = _Deal(ownership, len(partitions), racks)
    deal.keep_owned()
    kept = {partition for share in deal.shares.values() for partition in share}
    left: Iterable[TopicPartition] = [p for p in partitions if p not in kept]
    if racks.matter:
        left = list(deal.give_near(sorted(left, key=racks.members_near)))
    deal.give(left)
    return deal.shares, deal.moved


class _Deal:
    """The assignment so far, and the members that may get more partitions."""

    def __init__(self, ownership: Ownership, count: int, racks: Racks) -> None:
        self.shares: Assignment = {member_id: [] for member_id in ownership.owned}
        self.moved: set[TopicPartition] = set()
        self._ownership = ownership
        self._racks = racks
        self._quota, self._larger_left = divmod(count, len(self.shares))
        self._below: list[str] = []  # members with less than the quota
        self._at_quota: list[str] = []  # members that may get one more
        self._taken_from: dict[TopicPartition, str] = {}

    def keep_owned(self) -> None:
        for member_id, owned in self._ownership.owned.items():
            keep = self._worth_keeping(member_id, owned)
            room = self._quota
            if len(keep) < self._quota:
                self._below.append(member_id)
            elif self._larger_left and len(keep) > self._quota:
                room += 1
                self._larger_left -= 1
            else:
                self._at_quota.append(member_id)
            self.shares[member_id] += keep[:room]
            self._taken_from.update(dict.fromkeys(keep[room:], member_id))
        self._below.sort(key=text_key)
        self._at_quota = sorted(self._at_quota, key=text_key) if self._larger_left else []

    def _worth_keeping(
        self, member_id: str, owned: Iterable[TopicPartition]
    ) -> list[TopicPartition]:
        """Sorted by number, so that each of several topics gives up its last partitions."""
        keep = []
        for partition in sorted(owned, key=lambda p: (p.partition, p.topic)):
            if self._racks.matter and self._racks.apart(member_id, partition):
                self._taken_from[partition] = member_id
            elif partition not in self._ownership.contested:
                keep.append(partition)
        return keep

    def give_near(self, partitions: Iterable[TopicPartition]) -> Iterator[TopicPartition]:
        """Assigns partitions in turn to members in their racks; yields those for which no such
        member has room.
        """
        turn = 0
        for partition in partitions:
            index = self._next_near(partition, self._below, turn)
            if index is not None:
                member_id = self._below[index]
                if self._give(partition, member_id) < self._quota:
                    index += 1
                else:
                    del self._below[index]
                    if self._larger_left:
                        self._at_quota.append(member_id)
                turn = index % len(self._below) if self._below else 0
                continue
            index = self._next_near(partition, self._at_quota, 0)
            if index is None:
                yield partition
                continue
            self._give(partition, self._at_quota.pop(index))
            self._larger_left -= 1
            if not self._larger_left:
                self._at_quota.clear()

    def _next_near(
        self, partition: TopicPartition, members: Sequence[str], turn: int
    ) -> int | None:
        for step in range(len(members)):
            index = (turn + step) % len(members)
            if self._racks.near(members[index], partition):
                return index
        return None

    def give(self, partitions: Iterable[TopicPartition]) -> None:
        """Assigns partitions in turn to members below the quota, then one more to each while any
        are left.
        """
        turn = larger = 0
        for partition in partitions:
            if not self._below:
                self._give(partition, self._at_quota[larger])
                larger += 1
                continue
            turn = turn if turn < len(self._below) else 0
            member_id = self._below[turn]
            if self._give(partition, member_id) < self._quota:
                turn += 1
            else:
                del self._below[turn]
                self._at_quota.append(member_id)

    def _give(self, partition: TopicPartition, member_id: str) -> int:
        taken_from = self._taken_from.get(partition, member_id)
        if taken_from != member_id or partition in self._ownership.contested:
            self.moved.add(partition)
        share = self.shares[member_id]
        share.append(partition)
        return len(share)

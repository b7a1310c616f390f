"""Decides whether racks can make a difference to a group, and who is near what.

In: racks of members and of partitions' replicas. Out: a match or not.
Always: a member without a rack is near everything.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from barnabas.assignment.group import GroupSubscriber, Topics
from barnabas.model.ids import TopicPartition


def racks_matter(of_members: Iterable[str], of_partitions: Collection[frozenset[str]]) -> bool:
    """Some member can be near some partition, and not every partition is everywhere."""
    anywhere = frozenset[str]().union(*of_partitions)
    return not anywhere.isdisjoint(of_members) and any(racks != anywhere for racks in of_partitions)


class Racks:
    """Who is near what in one group; empty where racks make no difference."""

    def __init__(
        self,
        members: Sequence[GroupSubscriber],
        partitions: Sequence[TopicPartition],
        topics: Topics,
    ) -> None:
        self.of_member = {m.member_id: m.rack for m in members if m.rack}
        self.of_partition: dict[TopicPartition, frozenset[str]] = {}
        if self.of_member:
            self.of_partition = {p: topics[p.topic].racks_of(p.partition) for p in partitions}
            if not racks_matter(self.of_member.values(), self.of_partition.values()):
                self.of_member, self.of_partition = {}, {}
        self.matter = bool(self.of_member)
        self._members_in = Counter(self.of_member.values())

    def apart(self, member_id: str, partition: TopicPartition) -> bool:
        """The member has a rack, and no replica is in it."""
        rack = self.of_member.get(member_id)
        return rack is not None and rack not in self.of_partition[partition]

    def members_near(self, partition: TopicPartition) -> int:
        return sum(self._members_in[rack] for rack in self.of_partition[partition])

    def near(self, member_id: str, partition: TopicPartition) -> bool:
        """The member has a rack, and a replica is in it."""
        return self.of_member.get(member_id) in self.of_partition[partition]

"""The assignor of share groups: several members may have the same partition.

In: the members in the order in which they joined, with their partitions so far; the partitions that
may be assigned, by topic. Out: member id to partitions.
Always: every partition with a subscriber has a member, and every member whose topics have
partitions has one. Balance comes before stickiness: a partition has about as many members as any
other, a member about as many partitions. Deterministic; Kafka's `simple` has the same counts, but
depends on the order of a hash table.
"""

from collections import deque
from collections.abc import Mapping, Sequence

from barnabas.assignment.group import Assignment, GroupSubscriber, alike
from barnabas.model.ids import TopicPartition

AssignablePartitions = Mapping[str, Sequence[int]]
"""By topic: the partitions that may be assigned."""


def assign_simple(
    members: Sequence[GroupSubscriber], partitions: AssignablePartitions
) -> Assignment:
    """All topics together if all members subscribe to the same, otherwise topic by topic."""
    assigned: dict[str, list[TopicPartition]] = {member.member_id: [] for member in members}
    if not members:
        return assigned
    if alike(members):
        every = [
            TopicPartition(topic, number)
            for topic in sorted(set(members[0].topics))
            for number in sorted(partitions.get(topic, ()))
        ]
        _share_out(members, every, assigned)
    else:
        for topic in sorted({topic for member in members for topic in member.topics}):
            of_topic = [TopicPartition(topic, n) for n in sorted(partitions.get(topic, ()))]
            subscribers = [member for member in members if topic in member.topics]
            _share_out(subscribers, of_topic, assigned)
    for own in assigned.values():
        own.sort()
    return assigned


def _share_out(
    members: Sequence[GroupSubscriber],
    partitions: Sequence[TopicPartition],
    assigned: dict[str, list[TopicPartition]],
) -> None:
    if not partitions:
        return
    count = len(members)
    sharing = -(-count // len(partitions))  # members of one partition
    total = sharing * len(partitions)
    wanted = {
        member.member_id: -(-total * (place + 1) // count) + (-total * place // count)
        for place, member in enumerate(members)
    }
    holders = dict.fromkeys(partitions, 0)
    kept: dict[str, dict[TopicPartition, None]] = {}
    for member in members:
        own = dict.fromkeys(each for each in member.owned if each in holders)
        kept[member.member_id] = own
        for partition in own:
            holders[partition] += 1
    for member_id, own in kept.items():
        surplus = len(own) - wanted[member_id]
        if surplus > 0:  # those that have most members go first
            for partition in sorted(own, key=lambda each: -holders[each])[:surplus]:
                del own[partition]
                holders[partition] -= 1
    for member_id in sorted(kept, key=lambda each: -len(kept[each])):
        own = kept[member_id]
        for partition in [each for each in own if holders[each] > sharing]:
            del own[partition]
            holders[partition] -= 1
    _fill(kept, wanted, holders, sharing)
    for member_id, own in kept.items():
        assigned[member_id] += own


def _fill(
    kept: dict[str, dict[TopicPartition, None]],
    wanted: Mapping[str, int],
    holders: dict[TopicPartition, int],
    sharing: int,
) -> None:
    unfilled = deque(member_id for member_id, own in kept.items() if len(own) < wanted[member_id])
    for partition in sorted(holders, key=lambda each: (holders[each], each)):
        for _ in range(len(unfilled)):
            if holders[partition] >= sharing:
                break
            member_id = unfilled.popleft()
            own = kept[member_id]
            if partition not in own:
                own[partition] = None
                holders[partition] += 1
            if len(own) < wanted[member_id]:
                unfilled.append(member_id)

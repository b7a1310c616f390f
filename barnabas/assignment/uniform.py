"""The coordinator's `uniform`: even shares, and what stays stays.

In: members with their target so far (`owned`), and topics with their ids. Out: the new target.
Always: every partition goes to one subscriber; members that subscribe alike get shares that
differ by at most one.

Results are those of Kafka's coordinator on equal input, as it is after it has read the group from
the log: what a live one does depends on how its hash tables grew. Of input that is broken (a
partition owned twice, or gone) the first owner keeps it, or nobody.

Not here: members that subscribe to different topics (uniform_mixed.py).
"""

from collections.abc import Iterator, Sequence

from barnabas.assignment.group import (
    Assignment,
    GroupSubscriber,
    Topics,
    alike,
    exists,
    subscribers_of,
)
from barnabas.assignment.java_order import (
    in_hash_order,
    slots_copied,
    slots_grown,
    text_hash,
    uuid_hash,
)
from barnabas.assignment.uniform_mixed import share_mixed
from barnabas.model.ids import TopicPartition


def assign_uniform(members: Sequence[GroupSubscriber], topics: Topics) -> Assignment:
    if not members:
        return {}
    members = in_hash_order(members, lambda m: text_hash(m.member_id), slots_grown(len(members)))
    subscribers = subscribers_of(members, topics)
    existing = {name: topics[name] for name in subscribers}
    owned = _targets(members, topics)
    if alike(members):
        shares = _share_alike(owned, _unowned(members[0].topics, existing, owned))
    else:
        indexes = {member.member_id: index for index, member in enumerate(members)}
        shares = share_mixed(
            owned,
            existing,
            {name: [indexes[m.member_id] for m in these] for name, these in subscribers.items()},
        )
    return {member.member_id: sorted(share) for member, share in zip(members, shares, strict=True)}


def _targets(members: Sequence[GroupSubscriber], topics: Topics) -> list[list[TopicPartition]]:
    """What each member has and may keep, in the order in which it would be kept."""
    seen: set[TopicPartition] = set()
    targets = []
    for member in members:
        target = []
        subscribed = frozenset(member.topics)
        for partition in _as_loaded(member.owned, topics):
            if partition.topic in subscribed and partition not in seen:
                seen.add(partition)
                target.append(partition)
        targets.append(target)
    return targets


def _as_loaded(owned: Sequence[TopicPartition], topics: Topics) -> Iterator[TopicPartition]:
    """As from a hash map of topic ids with hash sets of partitions."""
    by_topic: dict[str, list[TopicPartition]] = {}
    for partition in owned:
        if exists(partition, topics):
            by_topic.setdefault(partition.topic, []).append(partition)
    names = in_hash_order(
        by_topic, lambda name: uuid_hash(topics[name].topic_id), slots_grown(len(by_topic))
    )
    for name in names:
        slots = slots_copied(len(by_topic[name]))
        yield from in_hash_order(by_topic[name], lambda p: p.partition, slots)


def _unowned(
    names: Sequence[str], topics: Topics, owned: Sequence[Sequence[TopicPartition]]
) -> list[TopicPartition]:
    taken = {partition for target in owned for partition in target}
    slots = slots_copied(len(set(names)))
    # A set of names is turned into a set of ids: two tables, and the first decides within slots.
    names = in_hash_order(dict.fromkeys(names), text_hash, slots)
    existing = [name for name in names if name in topics]
    return [
        partition
        for name in in_hash_order(existing, lambda name: uuid_hash(topics[name].topic_id), slots)
        for number in range(topics[name].partitions)
        if (partition := TopicPartition(name, number)) not in taken
    ]


def _share_alike(
    owned: Sequence[list[TopicPartition]], unowned: list[TopicPartition]
) -> list[list[TopicPartition]]:
    rooms = _rooms([len(target) for target in owned], sum(map(len, owned)) + len(unowned))
    for room, target in zip(rooms, owned, strict=True):
        unowned += target[room:]
    rest = iter(unowned)
    return [
        target[:room] + [next(rest) for _ in range(room - len(target))]
        for room, target in zip(rooms, owned, strict=True)
    ]


def _rooms(sizes: Sequence[int], count: int) -> list[int]:
    """The larger shares go to the first that fill one already, and what is over to the last."""
    quota, larger_left = divmod(count, len(sizes))
    rooms = []
    for index, size in enumerate(sizes):
        larger = larger_left > 0 and (size > quota or len(sizes) - index <= larger_left)
        larger_left -= larger
        rooms.append(quota + larger)
    return rooms

"""Random groups from a seed: who subscribes to what, who owned what, on which racks.

In: a seed and the name of an assignor. Out: members and topics.
Always: owned partitions exist and have one owner; only for the sticky ones, some members have
missed generations and claim what others own by now, and a few claim what they never owned.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from random import Random
from uuid import UUID

from barnabas.assignment import (
    CLIENT_ASSIGNORS,
    SERVER_ASSIGNORS,
    AssignableTopic,
    GroupSubscriber,
    assign_uniform,
)
from barnabas.assignment.user_data import Claim, encode_cooperative, encode_sticky
from barnabas.model.ids import TopicPartition

ASSIGNORS = {
    **CLIENT_ASSIGNORS,
    **{f"server {name}": assignor for name, assignor in SERVER_ASSIGNORS.items()},
}
STICKY = ("sticky", "cooperative-sticky")
GENERATION = 7
RACKS = ("a", "b", "c")


@dataclass(frozen=True)
class Group:
    members: list[GroupSubscriber]
    topics: dict[str, AssignableTopic]

    def owning(self, assignment: dict[str, list[TopicPartition]], generation: int) -> "Group":
        """The group when every member has what it was assigned, and joins again."""
        return replace(
            self,
            members=[
                claiming(member, assignment.get(member.member_id, ()), generation)
                for member in self.members
            ],
        )


def claiming(
    member: GroupSubscriber, owned: Iterable[TopicPartition], generation: int
) -> GroupSubscriber:
    """The member as it joins when it owns these; user data as for `sticky`."""
    partitions = tuple(owned)
    user_data = encode_sticky(Claim(partitions, generation))
    return replace(member, owned=partitions, generation=generation, user_data=user_data)


def random_group(seed: int, assignor: str) -> Group:
    random = Random(f"{assignor} {seed}")
    topics = _topics(random)
    members = _members(random, topics, may_want_nothing=assignor not in STICKY)
    past = random.random()
    if past < 0.5:
        members = _with_any_owners(random, members, topics)
    elif past < 0.8:
        members = _with_even_owners(random, members, topics)
    if assignor in STICKY:
        members = [_with_history(random, member, topics) for member in members]
        write = _sticky_data if assignor == "sticky" else _cooperative_data
        members = [write(random, member) for member in members]
    return Group(members, topics)


def _topics(random: Random) -> dict[str, AssignableTopic]:
    count, partitions_max = random.choice(((1, 70), (2, 30), (3, 3), (5, 10), (15, 5), (30, 3)))
    racked = random.random() < 0.4
    even = random.random() < 0.5
    topics = {}
    for number in range(count):
        partitions = partitions_max if even else random.randint(1, partitions_max)
        racks: tuple[frozenset[str], ...] = ()
        if racked:
            replicas = random.choice((1, 2, 3))
            racks = tuple(frozenset(random.sample(RACKS, replicas)) for _ in range(partitions))
        name = random.choice((f"topic-{number}", f"t{number}", f"orders.{number}.events"))
        topics[name] = AssignableTopic(partitions, UUID(int=random.getrandbits(128)), racks)
    return topics


def _members(
    random: Random, topics: dict[str, AssignableTopic], may_want_nothing: bool
) -> list[GroupSubscriber]:
    count = random.choice((1, 2, 3, 5, 9, 14, 40))
    names = [*topics, "absent"]
    same = random.sample(names, random.randint(1, len(names)))
    alike, static, racked = (random.random() < odds for odds in (0.5, 0.3, 0.5))
    members = []
    for number in range(count):
        subscribed = same
        if not alike:
            subscribed = random.sample(names, random.randint(not may_want_nothing, len(names)))
        uuid = UUID(int=random.getrandbits(128))
        instance_id = f"instance-{random.randrange(1_000_000)}-{number}"
        members.append(
            GroupSubscriber(
                random.choice((f"m{number}", f"consumer-{number}-{uuid}", f"člen-{number}")),
                tuple(random.sample(subscribed, len(subscribed))),
                instance_id if static and random.random() < 0.7 else None,
                random.choice((*RACKS, *RACKS, "far", None)) if racked else None,
            )
        )
    random.shuffle(members)
    return members


def _with_any_owners(
    random: Random, members: list[GroupSubscriber], topics: dict[str, AssignableTopic]
) -> list[GroupSubscriber]:
    """Some own much and some little, and not all still subscribe to what they own."""
    owned: dict[str, list[TopicPartition]] = {member.member_id: [] for member in members}
    skew = random.choice((1, 1, 3))
    unowned = random.choice((0.0, 0.1, 0.9))
    for name, topic in topics.items():
        subscribers = [member for member in members if name in member.topics]
        for partition in range(topic.partitions):
            at_hand = subscribers if subscribers and random.random() < 0.95 else members
            owner = at_hand[int(len(at_hand) * random.random() ** skew)]
            if random.random() >= unowned:
                owned[owner.member_id].append(TopicPartition(name, partition))
    for partitions in owned.values():
        random.shuffle(partitions)
    return [
        replace(member, owned=tuple(owned[member.member_id]), generation=GENERATION)
        for member in members
    ]


def _with_even_owners(
    random: Random, members: list[GroupSubscriber], topics: dict[str, AssignableTopic]
) -> list[GroupSubscriber]:
    """As after a rebalance of some of them: others are new, and some of the former are gone."""
    gone = [
        GroupSubscriber(f"gone-{number}", members[0].topics)
        for number in range(random.randrange(3))
    ]
    before = [*random.sample(members, random.randint(1, len(members))), *gone]
    owned = assign_uniform(before, topics)
    return [
        replace(member, owned=tuple(owned[member.member_id]), generation=GENERATION)
        if member.member_id in owned
        else member
        for member in members
    ]


def _with_history(
    random: Random, member: GroupSubscriber, topics: dict[str, AssignableTopic]
) -> GroupSubscriber:
    late, lies = random.random() < 0.15, random.random() < 0.05
    if not (late or lies):
        return member
    claims = [
        *member.owned,
        *(
            TopicPartition(name, random.randrange(topics[name].partitions))
            for name in member.topics
            if name in topics and random.random() < 0.5
        ),
    ]
    member = replace(member, owned=tuple(dict.fromkeys(claims)))
    if late:
        member = replace(_wanted(member), generation=random.randint(-1, GENERATION - 1))
    return member


def _wanted(member: GroupSubscriber) -> GroupSubscriber:
    """Who missed a generation claims only what it wants: Kafka would give it the rest as well."""
    return replace(member, owned=tuple(p for p in member.owned if p.topic in member.topics))


def _cooperative_data(random: Random, member: GroupSubscriber) -> GroupSubscriber:
    user_data = encode_cooperative(member.generation)
    if random.random() < 0.8:
        return replace(member, user_data=user_data)
    # An older client, whose subscription knows no generation.
    user_data_or_none = random.choice((user_data, b"", None))
    return replace(_wanted(member), generation=-1, user_data=user_data_or_none)


def _sticky_data(random: Random, member: GroupSubscriber) -> GroupSubscriber:
    """Owned partitions come in user data only; it may be of version 0, broken or not there."""
    whole = encode_sticky(Claim(member.owned, member.generation))
    version_0 = encode_sticky(Claim(_wanted(member).owned, 0))[:-4]
    broken = whole[: len(whole) // 2 - 1]
    user_data = random.choices((whole, version_0, broken, b"", None), (90, 4, 2, 2, 2))[0]
    generation = member.generation if random.random() < 0.9 else -1
    return replace(member, owned=(), generation=generation, user_data=user_data)

"""Decides who of a sticky group counts as the owner of what.

In: what each member claims, and in which generation. Out: `Ownership`.
Always: a partition has at most one owner; of two claims the newer generation's holds, and two of
one generation cancel each other (one of the members cannot know better, and neither can we).

The claim already standing is weighed by the generation in its member's subscription, not by the
one in its user data. That is Kafka's way, and shows only where a client fills in one of the two.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from barnabas.assignment.group import NO_GENERATION, GroupSubscriber, Topics, exists
from barnabas.assignment.user_data import Claim
from barnabas.model.ids import TopicPartition


@dataclass(slots=True)
class Ownership:
    owned: dict[str, dict[TopicPartition, None]] = field(default_factory=dict)
    """By member; a dict for its order, and for quick removal."""
    contested: set[TopicPartition] = field(default_factory=set)
    """Claimed by two of one generation."""
    previous: dict[TopicPartition, str] = field(default_factory=dict)
    """By members that missed the latest generation: where a partition may well go back to."""


def settle(
    members: Sequence[GroupSubscriber], claims: Mapping[str, Claim], topics: Topics
) -> Ownership:
    """Members are heard in the order given."""
    ownership = Ownership()
    owner: dict[TopicPartition, GroupSubscriber] = {}
    for member in members:
        claim = claims[member.member_id]
        mine = ownership.owned[member.member_id] = {}
        for partition in dict.fromkeys(claim.partitions):
            if not exists(partition, topics):
                continue
            rival = owner.get(partition)
            if rival is not None:
                if claim.generation < rival.generation:
                    continue
                ownership.owned[rival.member_id].pop(partition, None)
            owner[partition] = member
            if rival is not None and claim.generation == rival.generation:
                ownership.contested.add(partition)
            else:
                mine[partition] = None
    ownership.previous = _previous(members, claims)
    return ownership


def _previous(
    members: Sequence[GroupSubscriber], claims: Mapping[str, Claim]
) -> dict[TopicPartition, str]:
    latest = max((claim.generation for claim in claims.values()), default=NO_GENERATION)
    newest: dict[TopicPartition, tuple[int, GroupSubscriber]] = {}
    for member in members:
        claim = claims[member.member_id]
        if claim.generation >= latest:
            continue
        for partition in claim.partitions:
            if partition not in newest or claim.generation > newest[partition][0]:
                newest[partition] = (claim.generation, member)
    return {
        partition: member.member_id
        for partition, (_, member) in newest.items()
        if partition.topic in member.topics
    }

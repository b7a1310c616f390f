"""Decides which member of a sticky group owns which partitions.

In: the partitions that each member claims, and in which generation. Out: `Ownership`.
Always: a partition has at most one owner. Of two claims the one with the newer generation is valid;
two claims of one generation cancel each other, because nothing shows which is right.

An earlier claim is compared by the generation in its member's subscription, not by the one in its
user data. Kafka does the same; it makes a difference only if a client sets just one of the two.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from barnabas.assignment.group import NO_GENERATION, GroupSubscriber, Topics, exists
from barnabas.assignment.user_data import Claim
from barnabas.model.ids import TopicPartition


@dataclass(slots=True)
class Ownership:
    owned: dict[str, dict[TopicPartition, None]] = field(default_factory=dict)
    """The partitions by member; a dict because of its order, and for quick removal."""
    contested: set[TopicPartition] = field(default_factory=set)
    """Partitions that two members claim in one generation."""
    previous: dict[TopicPartition, str] = field(default_factory=dict)
    """The owners that missed the latest generation: a partition may be assigned to them again."""


def settle(
    members: Sequence[GroupSubscriber], claims: Mapping[str, Claim], topics: Topics
) -> Ownership:
    """Reads the claims of the members in the order given."""
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

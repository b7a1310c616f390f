"""Shares partitions out evenly, and leaves as many as it can where they were.

In: members with what they claim to own, and topics. Out: who gets what.
Always: every partition goes to one subscriber; members that subscribe alike get shares that
differ by at most one; nothing moves that need not. The cooperative kind gives nobody a partition
that another still holds: that one is left out, and goes to its new owner in the next round, which
its old owner asks for when it has let go. Where racks matter, a partition far from its owner is
dealt anew every time, and may move though nothing changed.

Results are those of Kafka's Java client with a new assignor, on equal input. Three inputs on
which Kafka gives partitions to the wrong members are answered rightly instead:
- Members with empty subscriptions get nothing, even if their hash puts them first.
- An owned partition that no longer exists (its topic was made anew, smaller) counts as not owned.
- A partition goes back to its owner of an older generation only if that still subscribes to it.

Not here: the even deal among equals (sticky_alike.py) and among members that subscribe to
different topics (sticky_mixed.py).
"""

from collections.abc import Mapping, Sequence

from barnabas.assignment.claims import settle
from barnabas.assignment.group import (
    NO_GENERATION,
    Assignment,
    GroupSubscriber,
    Topics,
    alike,
    subscribers_of,
)
from barnabas.assignment.java_order import in_hash_order, slots_grown, text_hash
from barnabas.assignment.racks import Racks
from barnabas.assignment.sticky_alike import share_alike
from barnabas.assignment.sticky_mixed import share_mixed
from barnabas.assignment.user_data import Claim, decode_cooperative, decode_sticky
from barnabas.model.ids import TopicPartition


def assign_sticky(members: Sequence[GroupSubscriber], topics: Topics) -> Assignment:
    """`sticky`: all is handed back before every rebalance, so claims come in user data."""
    claims = {member.member_id: decode_sticky(member.user_data) for member in members}
    assignment, _ = _share(members, topics, claims)
    return assignment


def assign_cooperative_sticky(members: Sequence[GroupSubscriber], topics: Topics) -> Assignment:
    """`cooperative-sticky`: members keep what they own during a rebalance."""
    claims = {member.member_id: _cooperative_claim(member) for member in members}
    assignment, moved = _share(members, topics, claims)
    if moved is None:
        moved = _still_held(members, assignment)
    return {
        member_id: [partition for partition in partitions if partition not in moved]
        for member_id, partitions in assignment.items()
    }


def _cooperative_claim(member: GroupSubscriber) -> Claim:
    generation = member.generation
    if generation == NO_GENERATION:  # a client from before the subscription had one
        generation = decode_cooperative(member.user_data)
    return Claim(member.owned, generation)


def _share(
    members: Sequence[GroupSubscriber], topics: Topics, claims: Mapping[str, Claim]
) -> tuple[Assignment, set[TopicPartition] | None]:
    """Also which partitions were taken from somebody, if the way of sharing tells."""
    members = _in_order(members)
    subscribers = subscribers_of(members, topics)
    partitions = [
        TopicPartition(name, number)
        for name in sorted(subscribers)
        for number in range(topics[name].partitions)
    ]
    ownership = settle(members, claims, {name: topics[name] for name in subscribers})
    racks = Racks(members, partitions, topics)
    moved: set[TopicPartition] | None = None
    if not members:
        return {}, moved
    if alike(members):
        assignment, moved = share_alike(ownership, partitions, racks)
    else:
        assignment = share_mixed(ownership, members, subscribers, partitions, racks)
    for share in assignment.values():
        share.sort()
    return assignment, moved


def _in_order(members: Sequence[GroupSubscriber]) -> list[GroupSubscriber]:
    """As a Java leader walks the members: who comes first keeps a larger share it has."""
    return in_hash_order(members, lambda m: text_hash(m.member_id), slots_grown(len(members)))


def _still_held(members: Sequence[GroupSubscriber], assignment: Assignment) -> set[TopicPartition]:
    """Partitions that are new to one member and taken from another."""
    added: set[TopicPartition] = set()
    taken: set[TopicPartition] = set()
    for member in members:
        assigned = set(assignment[member.member_id])
        added |= assigned.difference(member.owned)
        taken |= set(member.owned) - assigned
    return added & taken

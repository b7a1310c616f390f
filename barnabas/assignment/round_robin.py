"""Deals all partitions out one by one, members in a circle.

In: members and topics. Out: who gets what.
Always: where all subscribe to the same, shares differ by at most one. Where they do not, a member
is passed over for topics it did not ask for, and shares may differ more: that is Kafka's way.
"""

from bisect import bisect_left
from collections.abc import Sequence

from barnabas.assignment.group import (
    Assignment,
    GroupSubscriber,
    Topics,
    static_first,
    subscribers_of,
)
from barnabas.model.ids import TopicPartition


def assign_round_robin(members: Sequence[GroupSubscriber], topics: Topics) -> Assignment:
    circle = static_first(members)
    place = {member.member_id: number for number, member in enumerate(circle)}
    assignment: Assignment = {member.member_id: [] for member in members}
    subscribers = subscribers_of(circle, topics)
    turn = 0
    for name in sorted(subscribers):
        places = [place[member.member_id] for member in subscribers[name]]
        for partition in range(topics[name].partitions):
            index = bisect_left(places, turn)
            at = places[index] if index < len(places) else places[0]
            assignment[circle[at].member_id].append(TopicPartition(name, partition))
            turn = at + 1
    return assignment

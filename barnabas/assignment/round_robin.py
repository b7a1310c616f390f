"""Assigns all partitions one by one to the members in turn.

In: members and topics. Out: the partitions of each member.
Always: if all members subscribe to the same topics, their counts differ by at most one. Otherwise a
member is skipped for topics that it does not subscribe to, and counts may differ more, as in Kafka.
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

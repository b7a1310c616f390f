"""Decides which member of a group reads which partitions: one function for each known way.

In: members and topics (group.py). Out: member id to partitions.
Always: pure and deterministic; equal input gives equal output, and it is Kafka's.
Not here: when to assign, and how the answer travels (client and coordinators).
"""

from barnabas.assignment.group import (
    NO_GENERATION,
    AssignableTopic,
    Assignment,
    Assignor,
    GroupSubscriber,
    Topics,
)
from barnabas.assignment.ranges import assign_range, assign_server_range
from barnabas.assignment.round_robin import assign_round_robin
from barnabas.assignment.sticky import assign_cooperative_sticky, assign_sticky
from barnabas.assignment.uniform import assign_uniform

CLIENT_ASSIGNORS: dict[str, Assignor] = {
    "range": assign_range,
    "roundrobin": assign_round_robin,
    "sticky": assign_sticky,
    "cooperative-sticky": assign_cooperative_sticky,
}
"""By the names that members put into JoinGroup."""

SERVER_ASSIGNORS: dict[str, Assignor] = {
    "uniform": assign_uniform,
    "range": assign_server_range,
}
"""By the names that members put into ConsumerGroupHeartbeat."""

__all__ = [
    "CLIENT_ASSIGNORS",
    "NO_GENERATION",
    "SERVER_ASSIGNORS",
    "AssignableTopic",
    "Assignment",
    "Assignor",
    "GroupSubscriber",
    "Topics",
    "assign_cooperative_sticky",
    "assign_range",
    "assign_round_robin",
    "assign_server_range",
    "assign_sticky",
    "assign_uniform",
]

"""The role of a replica on this broker, and the legal transitions.

    ABSENT ──assign_log──> ASSIGNED ──> LEADER <──> FOLLOWER
      ^                     ^  └─────────────────────^
      │                     └── stop (from LEADER, FOLLOWER)
      └── drop_log (from any)

    any ──fail──> OFFLINE        any ──close──> CLOSED

A lone broker creates its partitions as LEADER, or OFFLINE if a log cannot be opened.
Always: a role changes only as in the table; `Partition` asserts it.
"""

from enum import Enum


class Role(Enum):
    """Only LEADER accepts appends; LEADER and FOLLOWER can be read."""

    ABSENT = "absent"
    """No replica here: the partition is known from the controller's metadata."""
    ASSIGNED = "assigned"
    """The log exists and waits for LeaderAndIsr, or was stopped by StopReplica."""
    LEADER = "leader"
    FOLLOWER = "follower"
    """Follows the leader, or no broker while there is no leader."""
    OFFLINE = "offline"
    """The log directory is offline, until the broker is restarted with a healthy disk."""
    CLOSED = "closed"
    """The topic was deleted, or the log is being moved."""


_ENDS = (Role.ABSENT, Role.OFFLINE, Role.CLOSED)

NEXT: dict[Role, tuple[Role, ...]] = {
    Role.ABSENT: (Role.ASSIGNED, *_ENDS),
    Role.ASSIGNED: (Role.LEADER, Role.FOLLOWER, Role.ASSIGNED, *_ENDS),
    Role.LEADER: (Role.LEADER, Role.FOLLOWER, Role.ASSIGNED, *_ENDS),
    Role.FOLLOWER: (Role.LEADER, Role.FOLLOWER, Role.ASSIGNED, *_ENDS),
    Role.OFFLINE: _ENDS,
    Role.CLOSED: (Role.ABSENT, Role.CLOSED),
}

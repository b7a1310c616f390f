"""What a broker is to a partition, and which role may follow which.

    ABSENT ──take_log──> ASSIGNED ──> LEADER <──> FOLLOWER
      ^                     ^  └─────────────────────^
      │                     └── stop (from LEADER, FOLLOWER)
      └── give_up_log (from any)

    any ──fail──> OFFLINE        any ──close──> CLOSED

A broker that stands alone makes its partitions as LEADER, or OFFLINE if a log cannot be opened.
Always: a role changes only as the table says; `Partition` asserts it.
"""

from enum import Enum


class Role(Enum):
    """Only LEADER takes appends; LEADER and FOLLOWER can be read."""

    ABSENT = "absent"
    """No replica here: the partition is known by what the controller says of it."""
    ASSIGNED = "assigned"
    """The log is here and waits for LeaderAndIsr, or was stopped by StopReplica."""
    LEADER = "leader"
    FOLLOWER = "follower"
    """Of the leader, or of nobody while there is none."""
    OFFLINE = "offline"
    """The log directory is offline, until the broker is restarted with a healthy disk."""
    CLOSED = "closed"
    """The topic was deleted, or the log is being handed over."""


_ENDS = (Role.ABSENT, Role.OFFLINE, Role.CLOSED)

NEXT: dict[Role, tuple[Role, ...]] = {
    Role.ABSENT: (Role.ASSIGNED, *_ENDS),
    Role.ASSIGNED: (Role.LEADER, Role.FOLLOWER, Role.ASSIGNED, *_ENDS),
    Role.LEADER: (Role.LEADER, Role.FOLLOWER, Role.ASSIGNED, *_ENDS),
    Role.FOLLOWER: (Role.LEADER, Role.FOLLOWER, Role.ASSIGNED, *_ENDS),
    Role.OFFLINE: _ENDS,
    Role.CLOSED: (Role.ABSENT, Role.CLOSED),
}

"""Names every kind of timer that a shard of groups sets.

In: nothing. Out: the key of a timer: what it is for, which group, which member.
Always: one heap of timers (coordinators/timers.py) serves all groups of a shard.
Not here: what happens when a timer fires (shard.py, classic/, consumer/).
"""

from typing import NamedTuple

RETENTION = "retention"  # of the shard: look for offsets past their retention
SESSION = "session"  # of a member: no heartbeat for its session timeout
# Of a classic group: the phases of a rebalance. Of a classic member of a consumer group: its
# JoinGroup and its SyncGroup.
JOIN = "join"
SYNC = "sync"
REVOKE = "revoke"  # of a member of a consumer group: it must release partitions
TARGET = "target"  # of a new consumer group: its first members wait for an assignment


class TimerKey(NamedTuple):
    """What a timer is for. The retention timer has no group, a group's timer no member."""

    kind: str
    group: str = ""
    member: str = ""

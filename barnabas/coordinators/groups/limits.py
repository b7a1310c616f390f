"""The limits and timeouts of groups, from the configuration of the broker and of single groups.

In: configuration. Out: one immutable value.
Always: the defaults are Kafka's.
Not here: reading the configuration (broker/groups/ports.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from barnabas.coordinators.groups.memory import MemberMemory


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """Fields with `consumer_` are for consumer groups, those with `share_` and `streams_` for share
    and streams groups, others for classic groups and offsets."""

    session_timeout_ms_min: int = 6_000
    session_timeout_ms_max: int = 1_800_000
    members_max: int = 0x7FFF_FFFF
    initial_rebalance_delay_ms: int = 3_000
    # The first rebalance ends earlier when no member has joined for this time; 0: never earlier.
    initial_rebalance_pause_ms: int = 0
    # A new member sends no heartbeats while it waits to join: it is removed after this time.
    new_member_join_ms: int = 300_000
    # Of all protocols of a member together: more would not fit into one record of the log.
    member_metadata_bytes_max: int = 1_000_000
    memory: MemberMemory = field(default_factory=MemberMemory)  # of the members of all groups
    offset_metadata_chars_max: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    offsets_retention_check_ms: int = 600_000
    consumer_session_timeout_ms: int = 45_000
    consumer_heartbeat_interval_ms: int = 5_000
    consumer_members_max: int = 0x7FFF_FFFF
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    consumer_assignment_interval_ms: int = 1_000
    # The first members of a new group wait until no other has joined for this time, so that
    # members that start together get their assignment together.
    consumer_join_pause_ms: int = 0
    consumer_upgrade: bool = True
    consumer_downgrade: bool = True
    share_session_timeout_ms: int = 45_000
    share_heartbeat_interval_ms: int = 5_000
    share_assignment_interval_ms: int = 1_000
    share_members_max: int = 200
    streams_session_timeout_ms: int = 45_000
    streams_heartbeat_interval_ms: int = 5_000
    streams_assignment_interval_ms: int = 1_000
    streams_members_max: int = 0x7FFF_FFFF
    streams_num_standby_replicas: int = 0
    streams_initial_rebalance_delay_ms: int = 3_000
    # The first assignment of a streams group comes earlier when no member has joined for this time.
    streams_join_pause_ms: int = 0
    # By group id: the fields of this class that the group's own configuration replaces.
    groups: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def of_group(self, group_id: str) -> "GroupLimits":
        own = self.groups.get(group_id)
        return replace(self, **own) if own else self

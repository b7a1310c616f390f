"""What a broker's configuration says about groups."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from barnabas.coordinators.groups.room import Room


@dataclass(frozen=True, slots=True)
class Limits:
    """Defaults as Kafka's."""

    session_timeout_ms_min: int = 6_000
    session_timeout_ms_max: int = 1_800_000
    members_max: int = 0x7FFF_FFFF
    initial_rebalance_delay_ms: int = 3_000
    # A new member cannot heartbeat while it waits to join: it is given up after this long.
    new_member_join_ms: int = 300_000
    # Of all protocols of a member together: more would never fit into one record of the log.
    member_metadata_bytes_max: int = 1_000_000
    room: Room = field(default_factory=Room)  # for what members bring, all groups together
    offset_metadata_chars_max: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    offsets_retention_check_ms: int = 600_000
    # Of groups of the new protocol, whose members are told instead of asked.
    consumer_session_timeout_ms: int = 45_000
    consumer_heartbeat_interval_ms: int = 5_000
    consumer_members_max: int = 0x7FFF_FFFF
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    consumer_assignment_interval_ms: int = 1_000
    # A fleet that starts together is given its shares together: the first ones wait for a lull.
    consumer_lull_ms: int = 0
    consumer_upgrade: bool = True
    consumer_downgrade: bool = True
    # Of single groups, by id: the fields of this class that their own settings replace.
    groups: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def of_group(self, group_id: str) -> "Limits":
        own = self.groups.get(group_id)
        return replace(self, **own) if own else self

"""What the members that use only heartbeats share: those of consumer groups (KIP-848) and of share
groups (KIP-932).

In: assignments of the coordinator, names of topics. Out: the steps of membership.py.
Always: partitions are revoked before others are assigned.
Not here: the two memberships (consumer.py, client/share/share_membership.py).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING
from uuid import UUID

from barnabas.client.consumer.membership.membership import (
    AssignPartitions,
    Cause,
    Partitions,
    Resolve,
    RevokePartitions,
)
from barnabas.model.errors import Code
from barnabas.model.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas.wire.messages import consumer_group_heartbeat, share_group_heartbeat

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
FENCED = frozenset({Code.FENCED_MEMBER_EPOCH, Code.UNKNOWN_MEMBER_ID})
_INTERVAL_MS_MIN, _INTERVAL_MS_MAX = 10, 3_600_000


class TargetAssignment:
    """The last target, until the member owns it. The coordinator names topics by their ids."""

    def __init__(self) -> None:
        self._target: tuple[tuple[UUID, int], ...] | None = None
        self._names: dict[UUID, str] = {}
        self._unresolved: tuple[UUID, ...] = ()

    @property
    def is_pending(self) -> bool:
        return self._target is not None

    def replace(
        self, target: "consumer_group_heartbeat.Assignment | share_group_heartbeat.Assignment"
    ) -> None:
        self._target = tuple(
            (one.topic_id, number)
            for one in target.topic_partitions
            for number in one.partitions
            if number >= 0
        )

    def clear(self) -> None:
        self._target = None

    def next_step(
        self, owned: Partitions, cause: Cause
    ) -> Resolve | RevokePartitions | AssignPartitions | None:
        """None: the member owns the partitions whose names are known."""
        wanted = self._target or ()
        unknown = dict.fromkeys(
            topic_id
            for topic_id, _ in wanted
            if topic_id not in self._names and topic_id not in self._unresolved
        )
        if unknown:
            return Resolve(tuple(unknown))
        target = {
            TopicPartition(self._names[topic_id], number): None
            for topic_id, number in wanted
            if topic_id in self._names
        }
        if revoked := tuple(at for at in owned if at not in target):
            return RevokePartitions(revoked, cause)
        before = set(owned)
        if added := tuple(at for at in target if at not in before):
            return AssignPartitions(added, cause)
        if not self._unresolved:
            self._target = None
        return None

    def resolved(self, names: Mapping[UUID, str]) -> None:
        """A topic without a name is not known to that broker yet: it is looked up again later."""
        self._names.update(names)
        wanted = dict.fromkeys(topic_id for topic_id, _ in self._target or ())
        self._unresolved = tuple(one for one in wanted if one not in self._names)

    def look_up_again(self) -> None:
        """The topics that had no name."""
        self._unresolved = ()


def heartbeat_interval_ms(given: int) -> int:
    """The coordinator's, within limits."""
    return min(max(given, _INTERVAL_MS_MIN), _INTERVAL_MS_MAX)


def reassigned(epoch: int) -> Cause:
    return Cause(
        "rebalance",
        f"the coordinator changed this member's assignment in epoch {epoch}: a member came or went,"
        " or topics or subscriptions changed",
        epoch,
    )

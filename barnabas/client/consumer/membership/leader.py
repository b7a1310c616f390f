"""The leader of a classic group: assigns partitions, and notices changes of members and topics.

In: the response to a join, partition counts of topics. Out: the assignments of all members; what
has changed.
Always: partitions are assigned once per generation; members are compared with those of the previous
generation, if this member led that one too.
Not here: the algorithms (barnabas.assignment), the consumer protocol (classic_protocol.py).
"""

from collections.abc import Mapping

from barnabas.assignment import Topics
from barnabas.client.consumer.membership.assignors import Assignor
from barnabas.client.consumer.membership.classic_protocol import (
    changes,
    encode_shares,
    member_of,
    wanted_by_all,
)
from barnabas.client.consumer.membership.membership import Partitions
from barnabas.model.errors import Code, InvalidRequest
from barnabas.wire.messages.join_group import JoinGroupResponse
from barnabas.wire.messages.sync_group import SyncGroupRequestAssignment


class GroupLeader:
    """`news`: the members that joined and left since the last generation. `topics`: topics to
    watch.
    """

    def __init__(self, group_id: str, assignors: Mapping[str, Assignor]) -> None:
        self._group_id = group_id
        self._assignors = assignors
        self._joined: JoinGroupResponse | None = None  # of a generation without an assignment yet
        self._members: dict[str, None] | None = None
        self.topics: dict[str, int] = {}  # the assigned topics, with their partition counts
        self.news = ""

    def joined(self, response: JoinGroupResponse) -> bool:
        """A new generation. Returns whether we lead it."""
        self.topics = {}
        self.news = ""
        if response.leader != response.member_id:
            self._members = None
            return False
        members = {one.member_id: None for one in response.members}
        if self._members is not None:
            self.news = changes(self._members, members)
        self._members = members
        self._joined = response
        return True

    def forget(self) -> None:
        """We are no longer a member."""
        self._joined = None
        self._members = None

    @property
    def wanted(self) -> tuple[str, ...] | None:
        """The topics that must be known to assign partitions; None if there is nothing
        to assign.
        """
        return None if self._joined is None else wanted_by_all(self._joined.members)

    def share_out(self, topics: Topics, protocol: str) -> list[SyncGroupRequestAssignment]:
        """Each member's assignment; empty if the coordinator keeps the previous ones."""
        joined, self._joined = self._joined, None
        assert joined is not None, "nothing is to be assigned"
        self.topics = {
            name: topics[name].partitions if name in topics else 0
            for name in wanted_by_all(joined.members)
        }
        if joined.skip_assignment:
            return []
        members = [member_of(one) for one in joined.members]
        try:
            assigned = self._assignors[protocol].assign(members, topics)
        except Exception as problem:
            raise InvalidRequest(
                Code.UNSUPPORTED_ASSIGNOR,
                f"group {self._group_id!r}: assignor {protocol!r} failed: {problem!r}",
            ) from problem
        shares: dict[str, Partitions] = {
            one.member_id: tuple(assigned.get(one.member_id, ())) for one in members
        }
        return [
            SyncGroupRequestAssignment(member_id=member_id, assignment=encode_shares(partitions))
            for member_id, partitions in shares.items()
        ]

    def changed(self, topics: Topics) -> str:
        """What has changed since the assignment; empty if nothing."""
        for name, before in self.topics.items():
            after = topics[name].partitions if name in topics else 0
            if after != before:
                return f"topic {name!r} has {after} partitions, it had {before}"
        return ""

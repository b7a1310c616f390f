"""What a member of a classic group does while it leads it: shares out, and sees what changes.

In: the answer to a join, what topics look like. Out: the shares of all members; what has changed.
Always: a generation is shared out once; members are compared with those of the generation before,
if that was led as well.
Not here: who gets what (barnabas.assignment), what consumers write to each other
(classic_protocol.py).
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
    """`news`: who came and went since the last generation. `topics`: to be watched."""

    def __init__(self, group_id: str, assignors: Mapping[str, Assignor]) -> None:
        self._group_id = group_id
        self._assignors = assignors
        self._joined: JoinGroupResponse | None = None  # of a generation that is not shared out yet
        self._members: dict[str, None] | None = None
        self.topics: dict[str, int] = {}  # that were shared out, with their partitions
        self.news = ""

    def joined(self, response: JoinGroupResponse) -> bool:
        """A new generation; whether we lead it."""
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
        """We are no member any more."""
        self._joined = None
        self._members = None

    @property
    def wanted(self) -> tuple[str, ...] | None:
        """What must be known to share out; None: nothing is to be shared out."""
        return None if self._joined is None else wanted_by_all(self._joined.members)

    def share_out(self, topics: Topics, protocol: str) -> list[SyncGroupRequestAssignment]:
        """Each member's share; none, if the coordinator keeps those of before."""
        joined, self._joined = self._joined, None
        assert joined is not None, "nothing is to be shared out"
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
        """What is different since it was shared out; empty: nothing."""
        for name, before in self.topics.items():
            after = topics[name].partitions if name in topics else 0
            if after != before:
                return f"topic {name!r} has {after} partitions, it had {before}"
        return ""

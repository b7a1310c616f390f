"""The members of a classic group: its leader, and the protocol that all of them support.

In: members that are added, changed, removed. Out: leader, protocol, topics, timeouts.
Always: the leader is a member, or there is none; an instance id belongs to one member.
Not here: when members come and go (joining.py, membership.py).
"""

from collections.abc import Iterable

from barnabas.coordinators.caller import Caller
from barnabas.coordinators.groups.classic.member import ClassicMember
from barnabas.coordinators.groups.subscription import CONSUMER, topics_of
from barnabas.model.errors import Code
from barnabas.wire.messages.join_group import JoinGroupRequest


class MemberList:
    """Members by id, in the order in which they joined."""

    def __init__(self) -> None:
        self.by_id: dict[str, ClassicMember] = {}
        self.protocol_type: str | None = None
        self.leader: str | None = None
        self.joining = 0  # members that wait for the join phase to end
        self.bytes = 0  # of all members' metadata
        self._instances: dict[str, str] = {}
        self._support: dict[str, int] = {}  # by protocol: how many members support it

    def __len__(self) -> int:
        return len(self.by_id)

    def check(self, member_id: str, instance_id: str | None) -> Code:
        """Is this a member, and is the instance id its own?"""
        if instance_id is not None:
            owner = self._instances.get(instance_id)
            if owner is not None and owner != member_id:
                return Code.FENCED_INSTANCE_ID
            if owner is None:
                return Code.UNKNOWN_MEMBER_ID
        return Code.NONE if member_id in self.by_id else Code.UNKNOWN_MEMBER_ID

    def by_instance(self, instance_id: str | None) -> ClassicMember | None:
        owner = None if instance_id is None else self._instances.get(instance_id)
        return None if owner is None else self.by_id[owner]

    def add(self, member: ClassicMember, protocol_type: str | None) -> None:
        if not self.by_id:
            self.protocol_type = protocol_type
        if self.leader is None:
            self.leader = member.id
        self.by_id[member.id] = member
        if member.instance_id is not None:
            self._instances[member.instance_id] = member.id
        self._count(member, 1)

    def remove(self, member: ClassicMember) -> None:
        del self.by_id[member.id]
        if member.instance_id is not None:
            del self._instances[member.instance_id]
        self._count(member, -1)
        if self.leader == member.id:
            self.leader = next(iter(self.by_id), None)

    def replace(self, old: ClassicMember, new: ClassicMember) -> None:
        """The same instance gets a new member id; it stays the leader if it was."""
        led = self.leader == old.id
        self.remove(old)
        self.add(new, self.protocol_type)
        if led:
            self.leader = new.id

    def update(self, member: ClassicMember, request: JoinGroupRequest) -> None:
        self._count(member, -1)
        member.update(request)
        self._count(member, 1)

    # The join phase

    def wait(self, member: ClassicMember, caller: Caller) -> None:
        if member.joining is None:
            self.joining += 1
        member.joining = caller

    def end_wait(self, member: ClassicMember) -> Caller | None:
        caller, member.joining = member.joining, None
        if caller is not None:
            self.joining -= 1
        return caller

    def missing(self) -> list[ClassicMember]:
        return [member for member in self.by_id.values() if member.joining is None]

    def elect(self) -> bool:
        """Choose a leader that has joined; False when no member has."""
        if self.leader is None:
            return False
        if self.by_id[self.leader].joining is None:
            present = next((m for m in self.by_id.values() if m.joining is not None), None)
            if present is None:
                return False
            self.leader = present.id
        return True

    def rebalance_timeout_ms(self) -> int:
        """The longest of all members."""
        return max((m.rebalance_timeout_ms for m in self.by_id.values()), default=0)

    # Protocols

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Do all members support one of these protocols?"""
        return self.protocol_type == protocol_type and any(
            self._support.get(name) == len(self.by_id) for name in names
        )

    def vote(self) -> str:
        """Each member votes for its first choice among the protocols that all support."""
        total = len(self.by_id)
        candidates = {name for name, count in self._support.items() if count == total}
        votes: dict[str, int] = {}
        for member in self.by_id.values():
            choice = member.vote(candidates)
            assert choice is not None, "a member joined that shares no protocol with the others"
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=votes.__getitem__)

    def topics(self, protocol: str | None) -> frozenset[str] | None:
        """All topics that members subscribe to; None when a subscription cannot be read."""
        if self.protocol_type != CONSUMER:
            return None
        topics: set[str] = set()
        for member in self.by_id.values():
            subscribed = topics_of(member.protocols.get(protocol or "", b""))
            if subscribed is None:
                return None
            topics.update(subscribed)
        return frozenset(topics)

    def _count(self, member: ClassicMember, step: int) -> None:
        self.bytes += step * member.metadata_bytes()
        for name in member.protocols:
            count = self._support.get(name, 0) + step
            if count:
                self._support[name] = count
            else:
                del self._support[name]

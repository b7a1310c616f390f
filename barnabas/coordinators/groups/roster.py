"""Who belongs to a group, who leads it, and which protocol they can agree on.

Always: the leader is a member, or there is none; an instance id belongs to one member.
Not here: when anything happens (classic.py).
"""

from collections.abc import Iterable

from barnabas.coordinators.groups.member import Caller, Member
from barnabas.coordinators.groups.subscription import CONSUMER, topics_of
from barnabas.model.errors import Code
from barnabas.wire.messages.join_group import JoinGroupRequest


class Roster:
    """Members in the order in which they came."""

    def __init__(self) -> None:
        self.members: dict[str, Member] = {}
        self.protocol_type: str | None = None
        self.leader: str | None = None
        self.joining = 0  # members that wait for the join phase to end
        self.bytes = 0  # that all members bring
        self._instances: dict[str, str] = {}
        self._support: dict[str, int] = {}  # by protocol: how many members know it

    def __len__(self) -> int:
        return len(self.members)

    def check(self, member_id: str, instance_id: str | None) -> Code:
        """NONE for a member that is who it says it is."""
        if instance_id is not None:
            owner = self._instances.get(instance_id)
            if owner is not None and owner != member_id:
                return Code.FENCED_INSTANCE_ID
            if owner is None:
                return Code.UNKNOWN_MEMBER_ID
        return Code.NONE if member_id in self.members else Code.UNKNOWN_MEMBER_ID

    def by_instance(self, instance_id: str | None) -> Member | None:
        owner = None if instance_id is None else self._instances.get(instance_id)
        return None if owner is None else self.members[owner]

    def add(self, member: Member, protocol_type: str | None) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader is None:
            self.leader = member.id
        self.members[member.id] = member
        if member.instance_id is not None:
            self._instances[member.instance_id] = member.id
        self._count(member, 1)

    def remove(self, member: Member) -> None:
        del self.members[member.id]
        if member.instance_id is not None:
            del self._instances[member.instance_id]
        self._count(member, -1)
        if self.leader == member.id:
            self.leader = next(iter(self.members), None)

    def replace(self, old: Member, new: Member) -> None:
        """The same instance under a new member id; it leads if it led."""
        led = self.leader == old.id
        self.remove(old)
        self.add(new, self.protocol_type)
        if led:
            self.leader = new.id

    def update(self, member: Member, request: JoinGroupRequest) -> None:
        self._count(member, -1)
        member.update(request)
        self._count(member, 1)

    # The join phase

    def wait(self, member: Member, caller: Caller) -> None:
        if member.joining is None:
            self.joining += 1
        member.joining = caller

    def end_wait(self, member: Member) -> Caller | None:
        caller, member.joining = member.joining, None
        if caller is not None:
            self.joining -= 1
        return caller

    def missing(self) -> list[Member]:
        return [member for member in self.members.values() if member.joining is None]

    def elect(self) -> bool:
        """A leader that is there; False when nobody is."""
        if self.leader is None:
            return False
        if self.members[self.leader].joining is None:
            present = next((m for m in self.members.values() if m.joining is not None), None)
            if present is None:
                return False
            self.leader = present.id
        return True

    def rebalance_timeout_ms(self) -> int:
        """The slowest member sets the pace."""
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)

    # Protocols

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Could a member with these protocols agree with everyone who is there?"""
        return self.protocol_type == protocol_type and any(
            self._support.get(name) == len(self.members) for name in names
        )

    def vote(self) -> str:
        """Every member votes for its first choice among what all know; most votes win."""
        total = len(self.members)
        candidates = {name for name, count in self._support.items() if count == total}
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            assert choice is not None, "a member without a protocol in common was let in"
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=votes.__getitem__)

    def topics(self, protocol: str | None) -> frozenset[str] | None:
        """What the members subscribe to together; None when that cannot be known."""
        if self.protocol_type != CONSUMER:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            subscribed = topics_of(member.protocols.get(protocol or "", b""))
            if subscribed is None:
                return None
            topics.update(subscribed)
        return frozenset(topics)

    def _count(self, member: Member, step: int) -> None:
        self.bytes += step * member.brings()
        for name in member.protocols:
            count = self._support.get(name, 0) + step
            if count:
                self._support[name] = count
            else:
                del self._support[name]

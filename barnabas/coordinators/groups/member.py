"""One member of a classic group, and what it waits for."""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct

from barnabas.coordinators.groups.records import GroupMember
from barnabas.coordinators.groups.room import names_weight
from barnabas.coordinators.groups.subscription import CONSUMER, topics_of
from barnabas.coordinators.timers import Timer
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol


class Caller(Struct, frozen=True):
    """Who sent a request, and in which version; `token` finds the one who waits for the answer."""

    token: object
    version: int
    client_id: str
    client_host: str
    connection: str = ""  # the address it came from, port and all


class TimerKey(NamedTuple):
    """What a timer is for: a member's session, or a phase of a group's rebalance."""

    kind: str
    group: str = ""
    member: str = ""


class Member:
    """Changes only inside its group's verbs."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "connection",
        "from_log",
        "heard_ms",
        "id",
        "instance_id",
        "is_new",
        "joining",
        "protocols",
        "rebalance_timeout_ms",
        "session",
        "session_timeout_ms",
        "syncing",
    )

    def __init__(
        self, id_: str, instance_id: str | None, client_id: str, client_host: str, group: str
    ) -> None:
        self.id = id_
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.connection = ""
        self.protocols: dict[str, bytes] = {}
        self.session_timeout_ms = 0
        self.rebalance_timeout_ms = 0
        self.assignment = b""
        self.from_log = False  # its other protocols are not known
        self.is_new = False
        self.heard_ms = 0
        self.joining: Caller | None = None
        self.syncing: Caller | None = None
        self.session: Timer[TimerKey] = Timer(TimerKey("session", group, id_))

    @classmethod
    def joined(cls, id_: str, request: JoinGroupRequest, caller: Caller) -> "Member":
        member = cls(
            id_, request.group_instance_id, caller.client_id, caller.client_host, request.group_id
        )
        member.connection = caller.connection
        member.update(request)
        return member

    @classmethod
    def kept(cls, kept: GroupMember, protocol: str | None, group: str) -> "Member":
        """As the log remembers it: of all its protocols, the one that was chosen."""
        member = cls(
            kept.member_id, kept.group_instance_id, kept.client_id, kept.client_host, group
        )
        member.protocols = {protocol or "": kept.subscription}
        member.from_log = True
        member.session_timeout_ms = kept.session_timeout
        member.rebalance_timeout_ms = kept.rebalance_timeout
        if kept.rebalance_timeout < 0:
            member.rebalance_timeout_ms = kept.session_timeout
        member.assignment = kept.assignment
        return member

    def update(self, request: JoinGroupRequest) -> None:
        self.protocols = protocols_of(request.protocols)
        self.from_log = False
        self.session_timeout_ms = request.session_timeout_ms
        # Version 0 knew one timeout for both.
        self.rebalance_timeout_ms = request.rebalance_timeout_ms
        if request.rebalance_timeout_ms < 0:
            self.rebalance_timeout_ms = request.session_timeout_ms

    def brings(self) -> int:
        """The length of all that it says of itself, as far as that is out of the ordinary."""
        return bytes_of(self.protocols) + names_weight(
            self.id, self.instance_id, self.client_id, self.client_host
        )

    def says_the_same(self, request: JoinGroupRequest) -> bool:
        """Nothing that an assignment could depend on has changed, the order included."""
        return list(self.protocols.items()) == list(protocols_of(request.protocols).items())

    def resubscribes(self, request: JoinGroupRequest, protocol_type: str) -> bool:
        """With other protocols, or other topics. The rest of the metadata (partitions that the
        member owns, data of its assignor) differs after each rebalance."""
        protocols = protocols_of(request.protocols)
        if self.from_log:  # which has only the protocol that was chosen
            protocols = {name: protocols[name] for name in self.protocols if name in protocols}
        if list(protocols) != list(self.protocols):
            return True
        return protocol_type == CONSUMER and any(
            frozenset(topics_of(metadata) or ()) != frozenset(topics_of(protocols[name]) or ())
            for name, metadata in self.protocols.items()
        )

    def vote(self, candidates: set[str]) -> str | None:
        """Its first choice among what all members know."""
        return next((name for name in self.protocols if name in candidates), None)

    def is_excused(self) -> bool:
        """It cannot heartbeat while it waits for us. (A new one may be gone, though.)"""
        return not self.is_new and (self.joining is not None or self.syncing is not None)

    def keep(self, protocol: str | None, assignment: bytes) -> GroupMember:
        """For the log."""
        return GroupMember(
            member_id=self.id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout=self.rebalance_timeout_ms,
            session_timeout=self.session_timeout_ms,
            subscription=self.protocols.get(protocol or "", b""),
            assignment=assignment,
        )


def protocols_of(protocols: list[JoinGroupRequestProtocol]) -> dict[str, bytes]:
    """By name, in the member's order of preference."""
    return {protocol.name: bytes(protocol.metadata) for protocol in protocols}


def bytes_of(protocols: Mapping[str, bytes]) -> int:
    names = names_weight(*protocols)
    return names + sum(map(len, protocols.values()))

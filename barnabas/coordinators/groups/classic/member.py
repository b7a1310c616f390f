"""One member of a classic group, and the requests that it waits with.

In: its JoinGroup requests, its record in the log. Out: what it supports, and its record.
Always: changed by the functions over its group alone.
Not here: the list of members (members.py), what a request does (joining.py, membership.py).
"""

from collections.abc import Mapping

from barnabas.coordinators.caller import Caller
from barnabas.coordinators.groups.memory import names_bytes
from barnabas.coordinators.groups.records import MemberMetadata
from barnabas.coordinators.groups.subscription import CONSUMER, topics_of
from barnabas.coordinators.groups.timer_keys import SESSION, TimerKey
from barnabas.coordinators.timers import Timer
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol


class ClassicMember:
    """`joining` and `syncing`: the waiting JoinGroup and SyncGroup request."""

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
        self.from_log = False  # the log has only the protocol that was chosen
        self.is_new = False
        self.heard_ms = 0
        self.joining: Caller | None = None
        self.syncing: Caller | None = None
        self.session: Timer[TimerKey] = Timer(TimerKey(SESSION, group, id_))

    @classmethod
    def joined(cls, id_: str, request: JoinGroupRequest, caller: Caller) -> "ClassicMember":
        member = cls(
            id_, request.group_instance_id, caller.client_id, caller.client_host, request.group_id
        )
        member.connection = caller.connection
        member.update(request)
        return member

    @classmethod
    def from_record(
        cls, stored: MemberMetadata, protocol: str | None, group: str
    ) -> "ClassicMember":
        """The member as the log has it, with the protocol that was chosen."""
        member = cls(
            stored.member_id,
            stored.group_instance_id,
            stored.client_id,
            stored.client_host,
            group,
        )
        member.protocols = {protocol or "": stored.subscription}
        member.from_log = True
        member.session_timeout_ms = stored.session_timeout
        member.rebalance_timeout_ms = stored.rebalance_timeout
        if stored.rebalance_timeout < 0:
            member.rebalance_timeout_ms = stored.session_timeout
        member.assignment = stored.assignment
        return member

    def update(self, request: JoinGroupRequest) -> None:
        self.protocols = protocols_of(request.protocols)
        self.from_log = False
        self.session_timeout_ms = request.session_timeout_ms
        # Version 0 has one timeout for both.
        self.rebalance_timeout_ms = request.rebalance_timeout_ms
        if request.rebalance_timeout_ms < 0:
            self.rebalance_timeout_ms = request.session_timeout_ms

    def metadata_bytes(self) -> int:
        """The memory for its metadata, and for names that are longer than usual."""
        return protocol_bytes(self.protocols) + names_bytes(
            self.id, self.instance_id, self.client_id, self.client_host
        )

    def is_unchanged_by(self, request: JoinGroupRequest) -> bool:
        """The request has the same protocols and metadata, in the same order."""
        return list(self.protocols.items()) == list(protocols_of(request.protocols).items())

    def resubscribes(self, request: JoinGroupRequest, protocol_type: str) -> bool:
        """The request has other protocols or other topics. The rest of the metadata (owned
        partitions, data of the assignor) differs after each rebalance."""
        protocols = protocols_of(request.protocols)
        if self.from_log:
            protocols = {name: protocols[name] for name in self.protocols if name in protocols}
        if list(protocols) != list(self.protocols):
            return True
        return protocol_type == CONSUMER and any(
            frozenset(topics_of(metadata) or ()) != frozenset(topics_of(protocols[name]) or ())
            for name, metadata in self.protocols.items()
        )

    def vote(self, candidates: set[str]) -> str | None:
        """Its first choice among the protocols that all members support."""
        return next((name for name in self.protocols if name in candidates), None)

    def waits_for_coordinator(self) -> bool:
        """It sends no heartbeats until it is answered. A new member may be gone, though."""
        return not self.is_new and (self.joining is not None or self.syncing is not None)

    def to_record(self, protocol: str | None, assignment: bytes) -> MemberMetadata:
        return MemberMetadata(
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
    """The metadata by protocol, in the member's order of preference."""
    return {protocol.name: bytes(protocol.metadata) for protocol in protocols}


def protocol_bytes(protocols: Mapping[str, bytes]) -> int:
    return names_bytes(*protocols) + sum(map(len, protocols.values()))

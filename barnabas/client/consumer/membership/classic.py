"""One member of a classic group: join, sync, heartbeat, revoke, leave.

In: responses of the coordinator, partition counts of topics, time. Out: the steps of membership.py.
Always: a partition is assigned to the reader only in the generation that assigned it; before a join
an eager member has revoked all partitions, a cooperative one keeps reading those that it keeps;
when the coordinator no longer knows this member, partitions are lost, not revoked.
Not here: the leader's assignment (leader.py), the requests (classic_requests.py), the consumer
protocol (classic_protocol.py).

UNJOINED -> JOINING -> (the leader) DESCRIBING -> SYNCING -> STABLE; any -> UNJOINED, LEFT, FAILED.
"""

from collections.abc import Sequence
from enum import Enum
from uuid import UUID

from barnabas.assignment import Topics
from barnabas.client.consumer.membership.assignors import Assignor
from barnabas.client.consumer.membership.classic_protocol import encode_subscription, read_share
from barnabas.client.consumer.membership.classic_requests import (
    heartbeat_request,
    join_request,
    leave_request,
    sync_request,
)
from barnabas.client.consumer.membership.leader import GroupLeader
from barnabas.client.consumer.membership.membership import (
    AGAIN,
    AssignPartitions,
    Cause,
    CommitterIdentity,
    CoordinatorRequest,
    Describe,
    EndMembership,
    LosePartitions,
    MemberTerms,
    Partitions,
    RevokePartitions,
    Step,
    WaitStep,
    fatal,
    listed,
    slow,
)
from barnabas.model.errors import Code, Corrupt, InvalidRequest, KafkaError, Retriable
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.wire.messages.leave_group import LeaveGroupResponse
from barnabas.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

NO_GENERATION = -1
_FORGOTTEN = frozenset({Code.UNKNOWN_MEMBER_ID, Code.ILLEGAL_GENERATION})
_AGAIN = AGAIN | {Code.REBALANCE_IN_PROGRESS}
_REMEDIES: dict[int, str] = {
    Code.INVALID_SESSION_TIMEOUT: "set session.timeout.ms within the broker's bounds"
    " (group.min.session.timeout.ms to group.max.session.timeout.ms)",
    Code.INCONSISTENT_GROUP_PROTOCOL: "the other members know none of our"
    " partition.assignment.strategy, or the group uses another protocol (group.protocol)",
    Code.FENCED_INSTANCE_ID: "give every member its own group.instance.id",
    Code.GROUP_MAX_SIZE_REACHED: "end a member, or raise group.max.size",
}


class ClassicMemberState(Enum):
    UNJOINED = "unjoined"
    JOINING = "joining"
    DESCRIBING = "describing"
    SYNCING = "syncing"
    STABLE = "stable"
    LEFT = "left"
    FAILED = "failed"


class ClassicMembership:
    """See membership.py."""

    def __init__(self, terms: MemberTerms, assignors: Sequence[Assignor], now: int) -> None:
        self.terms = terms
        self.state = ClassicMemberState.UNJOINED
        self.owned: Partitions = ()
        self.member_id = ""
        self.generation = NO_GENERATION
        self._assignors = {one.name: one for one in assignors}
        self._cooperative = all(one.cooperative for one in assignors)
        self._topics: tuple[str, ...] = ()
        self._sync: list[SyncGroupRequestAssignment] | None = None  # to be sent
        self._target: Partitions | None = None  # not yet assigned to the reader
        self._arrived = Cause("joined", "this consumer joined the group")  # why that changed
        self._rejoin: Cause | None = Cause("joined", "this consumer joined the group")
        self._gone: Cause | None = None  # why the owned partitions are lost
        self._giving = False  # the callback of the reader is running
        self._protocol = ""
        self._leading = GroupLeader(terms.group_id, self._assignors)
        # the last assignment, and its generation
        self._claim: tuple[Partitions, int] = ((), NO_GENERATION)
        self._wait_until = 0
        self._polled_at = now
        self._beat_at = now
        self._beating = False
        self._error: KafkaError | None = None
        self.left_because: Cause | None = None

    # --- subscription ---

    @property
    def identity(self) -> CommitterIdentity | None:
        if self.generation == NO_GENERATION or self.state in (
            ClassicMemberState.LEFT,
            ClassicMemberState.FAILED,
        ):
            return None
        return CommitterIdentity(self.member_id, self.generation, self.terms.instance_id)

    @property
    def group_topics(self) -> tuple[str, ...]:
        """All topics of the group if we lead it, to be watched for new partitions."""
        return tuple(self._leading.topics)

    def subscribe(self, topics: Sequence[str], now: int) -> None:
        wanted = tuple(dict.fromkeys(topics))
        if set(wanted) == set(self._topics):
            return
        if self._topics:
            self._want("subscription", f"the subscription changed to {', '.join(wanted)}")
        self._topics = wanted

    def polled(self, now: int) -> None:
        self._polled_at = now

    def watched(self, topics: Topics) -> None:
        """The current topics: a leader starts a rebalance when partitions were added or deleted."""
        if self.state is ClassicMemberState.STABLE and (news := self._leading.changed(topics)):
            self._want("metadata", news)

    # --- called by poll ---

    def next_step(self, now: int) -> Step | None:
        self._giving = False
        if self.state is ClassicMemberState.FAILED:
            assert self._error is not None
            return EndMembership(self._error)
        if self._gone is not None:
            if self.owned:
                return LosePartitions(self.owned, self._gone)
            self._gone = None
        settling = self.state is ClassicMemberState.STABLE and self._target is not None
        if settling and (step := self._settling()):
            return step
        if self.state is ClassicMemberState.STABLE and self._rejoin is not None:
            self.state = ClassicMemberState.UNJOINED
        if self.state is ClassicMemberState.UNJOINED:
            return self._joining(now)
        if (
            self.state is ClassicMemberState.DESCRIBING
            and (wanted := self._leading.wanted) is not None
        ):
            return Describe(wanted)
        if self.state is ClassicMemberState.SYNCING and self._sync is not None:
            return self._syncing(self._sync)
        return None

    def _joining(self, now: int) -> Step | None:
        if self.owned and not self._cooperative:
            return RevokePartitions(self.owned, self._rejoin or self._arrived)
        if now < self._wait_until:
            return WaitStep(self._wait_until)
        self.state = ClassicMemberState.JOINING
        reason = self._rejoin.text if self._rejoin else None
        metadata = {name: self._metadata(one) for name, one in self._assignors.items()}
        return CoordinatorRequest(join_request(self.terms, self.member_id, metadata, reason))

    def _metadata(self, assignor: Assignor) -> bytes:
        # An eager member has revoked all partitions; its user data may claim the old ones. A
        # cooperative member claims its partitions with the last generation that it joined: the
        # leader of that generation has seen the claim, even if its assignment did not reach us.
        share, generation = self._claim
        if assignor.cooperative:
            share, generation = self.owned, self.generation
        data = assignor.user_data(share, generation) if assignor.user_data else None
        return encode_subscription(self._topics, self.owned, self.generation, self.terms.rack, data)

    def _syncing(self, assignments: list[SyncGroupRequestAssignment]) -> CoordinatorRequest:
        self._sync = None
        return CoordinatorRequest(
            sync_request(self.terms, self.member_id, self.generation, self._protocol, assignments)
        )

    def _settling(self) -> Step | None:
        assert self._target is not None
        kept = set(self._target)
        if revoked := tuple(at for at in self.owned if at not in kept):
            return RevokePartitions(revoked, self._arrived)
        before = set(self.owned)
        if added := tuple(at for at in self._target if at not in before):
            self._giving = True
            return AssignPartitions(added, self._arrived)
        self._target = None
        return None

    def done(self, step: RevokePartitions | LosePartitions | AssignPartitions, now: int) -> None:
        self._giving = False
        if isinstance(step, AssignPartitions):
            self.owned = (*self.owned, *step.partitions)
            return
        gone = set(step.partitions)
        self.owned = tuple(at for at in self.owned if at not in gone)
        if isinstance(step, LosePartitions):
            if not self.owned:
                self._gone = None
        elif self._cooperative and self.state is ClassicMemberState.STABLE:
            self._want("handover", f"{listed(step.partitions)} may go to others now")

    def described(self, topics: Topics, now: int) -> None:
        """The topics that the group subscribes to: the leader assigns their partitions."""
        if self.state is not ClassicMemberState.DESCRIBING or self._leading.wanted is None:
            return
        try:
            self._sync = self._leading.share_out(topics, self._protocol)
        except InvalidRequest as problem:
            self._fail(problem)
        else:
            self.state = ClassicMemberState.SYNCING

    def resolved(self, names: dict[UUID, str], now: int) -> None:
        """This protocol uses topic names."""

    # --- responses ---

    def answered(self, request: ProtocolMessage, response: ProtocolMessage, now: int) -> None:
        if isinstance(response, JoinGroupResponse):
            self._joined(response, now)
        elif isinstance(response, SyncGroupResponse):
            self._synced(response, now)
        elif isinstance(response, HeartbeatResponse):
            assert isinstance(request, HeartbeatRequest)
            self._beaten(request, response.error_code, now)
        else:
            assert isinstance(response, LeaveGroupResponse)

    def failed(self, request: ProtocolMessage, error: KafkaError, now: int) -> None:
        self._wait_until = now + self.terms.backoff_ms
        if isinstance(request, HeartbeatRequest):
            self._beating = False
            self._beat_at = now + self.terms.backoff_ms
        if not isinstance(error, Retriable):
            self._fail(error)
        elif isinstance(request, JoinGroupRequest | SyncGroupRequest):
            # A sync without a response may have been processed: only a join is safe.
            self.state = ClassicMemberState.UNJOINED

    def _joined(self, response: JoinGroupResponse, now: int) -> None:
        if self.state is not ClassicMemberState.JOINING:
            return
        code = response.error_code
        self.state = ClassicMemberState.UNJOINED
        if code == Code.MEMBER_ID_REQUIRED and not self.member_id and response.member_id:
            self.member_id = response.member_id
        elif code in _FORGOTTEN or code == Code.MEMBER_ID_REQUIRED:
            self._forgotten(Code.UNKNOWN_MEMBER_ID)
            self._wait_until = now + self.terms.backoff_ms
        elif code in _AGAIN:
            self._wait_until = now + self.terms.backoff_ms
        elif code:
            self._fail(fatal(code, None, self.terms.group_id, _REMEDIES))
        elif response.protocol_name not in self._assignors:
            self._fail(
                InvalidRequest(
                    Code.INCONSISTENT_GROUP_PROTOCOL,
                    f"group {self.terms.group_id!r} chose the assignor"
                    f" {str(response.protocol_name)[:100]!r}, which this consumer does not know",
                )
            )
        else:
            self.member_id = response.member_id
            self.generation = response.generation_id
            self._protocol = response.protocol_name
            if self._leading.joined(response):
                self.state = ClassicMemberState.DESCRIBING
            else:
                self._sync = []
                self.state = ClassicMemberState.SYNCING

    def _synced(self, response: SyncGroupResponse, now: int) -> None:
        if self.state is not ClassicMemberState.SYNCING:
            return
        code = response.error_code
        if code in _FORGOTTEN:
            self._forgotten(code)
        elif code in _AGAIN:
            self.state = ClassicMemberState.UNJOINED
            if code != Code.REBALANCE_IN_PROGRESS:
                self._wait_until = now + self.terms.backoff_ms
        elif code:
            self._fail(fatal(code, None, self.terms.group_id, _REMEDIES))
        else:
            try:
                self._target = read_share(response.assignment)
            except Corrupt as problem:
                self._fail(Corrupt(f"group {self.terms.group_id!r}: {problem.detail}"))
                return
            cause = self._rejoin or Cause("rebalance", "the group rebalanced")
            news = f" ({self._leading.news})" if self._leading.news else ""
            self._arrived = Cause(cause.kind, f"{cause.text}{news}", self.generation)
            self._claim = (self._target, self.generation)
            self._rejoin = None
            self._beat_at = now + self.terms.heartbeat_interval_ms
            self.state = ClassicMemberState.STABLE

    # --- called by the heartbeat task ---

    def beat(self, now: int) -> CoordinatorRequest | None:
        if self.state is not ClassicMemberState.STABLE or self._beating or self._gone is not None:
            return None
        if now >= self._polled_at + self.terms.poll_interval_ms_max:
            return self._too_slow()
        if now < self._beat_at:
            return None
        self._beating = True
        return CoordinatorRequest(heartbeat_request(self.terms, self.member_id, self.generation))

    def next_beat(self) -> int | None:
        if self.state is not ClassicMemberState.STABLE or self._beating or self._gone is not None:
            return None
        return min(self._beat_at, self._polled_at + self.terms.poll_interval_ms_max)

    def _beaten(self, request: HeartbeatRequest, code: int, now: int) -> None:
        self._beating = False
        self._beat_at = now + self.terms.heartbeat_interval_ms
        if request.generation_id != self.generation or request.member_id != self.member_id:
            return  # of an earlier generation
        if code == Code.REBALANCE_IN_PROGRESS:
            if self.state is ClassicMemberState.STABLE and self._rejoin is None:
                self._want("rebalance", "the group rebalances: a member came, went or changed")
        elif code in _FORGOTTEN:
            self._forgotten(code)
        elif code in _AGAIN:
            self._beat_at = now + self.terms.backoff_ms
        elif code:
            self._fail(fatal(code, None, self.terms.group_id, _REMEDIES))

    def _too_slow(self) -> CoordinatorRequest | None:
        cause = slow(self.terms.poll_interval_ms_max)
        leaving = self._leave_request(cause.text)
        if leaving is not None:
            self.member_id = ""
        self._reset(cause)
        return leaving

    def leave(self, reason: str, now: int) -> CoordinatorRequest | None:
        leaving = (
            self._leave_request(reason) if self.state is not ClassicMemberState.FAILED else None
        )
        self.state = ClassicMemberState.LEFT
        self.generation = NO_GENERATION
        return leaving

    def _leave_request(self, reason: str) -> CoordinatorRequest | None:
        """A static member sends no LeaveGroup, so that it keeps its assignment when it returns."""
        if not self.member_id or self.terms.instance_id is not None:
            return None
        return CoordinatorRequest(leave_request(self.terms, self.member_id, reason))

    # --- transitions ---

    def _want(self, kind: str, text: str) -> None:
        self._rejoin = Cause(kind, text, self.generation)

    def _forgotten(self, code: int) -> None:
        if code == Code.UNKNOWN_MEMBER_ID:
            self.member_id = ""
            text = (
                "the coordinator has removed this member from the group: no heartbeat came"
                f" in {self.terms.session_timeout_ms} ms (session.timeout.ms), or an admin"
                " removed it"
            )
        else:
            text = "the group started another generation without this member"
        self._reset(Cause("expired", text, self.generation))

    def _reset(self, cause: Cause) -> None:
        self.left_because = cause
        if self.owned or self._giving:  # lost while the callback runs: reported next
            self._gone = cause
        self._rejoin = Cause("joined", f"this consumer joined the group again: {cause.text}")
        self._target = None
        self._leading.forget()
        self.generation = NO_GENERATION
        self.state = ClassicMemberState.UNJOINED

    def _fail(self, error: KafkaError) -> None:
        self._error = error
        self.state = ClassicMemberState.FAILED

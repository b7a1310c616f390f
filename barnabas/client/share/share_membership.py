"""One member of a share group (KIP-932), which uses only heartbeats.

In: responses to heartbeats, names of topics, time. Out: the steps of
client/consumer/membership/membership.py.
Always: a fenced member forgets its partitions before it joins again. Nothing is revoked: a record
that the member has acquired stays its own until its lock ends, even if the partition is assigned
to other members.
Not here: the assignment (the coordinator decides it), records (share_fetching.py).

JOINING -> STABLE; fenced -> JOINING; any -> LEFT, FAILED.
"""

from collections.abc import Sequence
from uuid import UUID

from barnabas.assignment import Topics
from barnabas.client.consumer.membership.consumer import ConsumerMemberState as State
from barnabas.client.consumer.membership.membership import (
    AGAIN,
    AssignPartitions,
    Cause,
    CommitterIdentity,
    CoordinatorRequest,
    EndMembership,
    LosePartitions,
    MemberTerms,
    Partitions,
    RevokePartitions,
    Step,
    fatal,
    slow,
)
from barnabas.client.consumer.membership.target_assignment import (
    FENCED,
    JOIN_EPOCH,
    LEAVE_EPOCH,
    TargetAssignment,
    heartbeat_interval_ms,
    reassigned,
)
from barnabas.model.errors import Code, KafkaError, Retriable
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

_REMEDIES: dict[int, str] = {
    Code.UNSUPPORTED_VERSION: "the broker offers no share groups: they need Barnabas, or Apache"
    " Kafka 4.2 with the feature share.version=1",
    Code.GROUP_ID_NOT_FOUND: "a group of another kind has this id: choose another group.id",
    Code.GROUP_MAX_SIZE_REACHED: "end a member, or raise group.share.max.size",
}


class ShareMembership:
    """See client/consumer/membership/membership.py. `member_id` is ours to choose."""

    def __init__(self, terms: MemberTerms, member_id: str, now: int) -> None:
        self.terms = terms
        self.state = State.JOINING
        self.member_id = member_id
        self.epoch = JOIN_EPOCH
        self.owned: Partitions = ()
        self.left_because: Cause | None = None
        self._topics: tuple[str, ...] = ()
        self._tell_topics = True
        self._target = TargetAssignment()
        self._lost: Cause | None = None
        self._arrived = Cause("joined", "this consumer joined the group")
        self._beat_at = now
        self._interval_ms = terms.heartbeat_interval_ms
        self._beating = False
        self._polled_at = now
        self._slow = False  # it left because it was not polled
        self._error: KafkaError | None = None

    @property
    def identity(self) -> CommitterIdentity | None:
        if self.epoch <= 0 or self.state is not State.STABLE:
            return None
        return CommitterIdentity(self.member_id, self.epoch, None)

    @property
    def group_topics(self) -> tuple[str, ...]:
        """Does nothing: the coordinator watches topics itself."""
        return ()

    def watched(self, topics: Topics) -> None:
        """Does nothing: the coordinator watches topics itself."""

    def described(self, topics: Topics, now: int) -> None:
        """Does nothing: the coordinator knows the topics itself."""

    def subscribe(self, topics: Sequence[str], now: int) -> None:
        wanted = tuple(dict.fromkeys(topics))
        if set(wanted) != set(self._topics):
            self._topics = wanted
            self._tell_topics = True
            self._beat_at = now

    def polled(self, now: int) -> None:
        self._polled_at = now
        if self.state is State.LEFT and self._slow:
            self._slow = False
            self._join_again(now)

    # --- called by poll ---

    def next_step(self, now: int) -> Step | None:
        if self.state is State.FAILED:
            assert self._error is not None
            return EndMembership(self._error)
        if self._lost is not None:
            if self.owned:
                return LosePartitions(self.owned, self._lost)
            self._lost = None
            self._beat_at = now
        if not self._target.is_pending or self.state is not State.STABLE:
            return None
        return self._target.next_step(self.owned, self._arrived)

    def done(self, step: RevokePartitions | LosePartitions | AssignPartitions, now: int) -> None:
        if isinstance(step, AssignPartitions):
            self.owned = (*self.owned, *step.partitions)
            return
        gone = set(step.partitions)
        self.owned = tuple(at for at in self.owned if at not in gone)

    def resolved(self, names: dict[UUID, str], now: int) -> None:
        self._target.resolved(names)

    # --- called by the heartbeat task ---

    def beat(self, now: int) -> CoordinatorRequest | None:
        if self.next_beat() is None:
            return None
        if now >= self._polled_at + self.terms.poll_interval_ms_max and self.epoch > 0:
            return self._too_slow(now)
        if now < self._beat_at:
            return None
        self._beating = True
        self._target.look_up_again()
        joining = self.epoch == JOIN_EPOCH
        tell_topics = self._tell_topics or joining
        self._tell_topics = False
        return CoordinatorRequest(
            ShareGroupHeartbeatRequest(
                group_id=self.terms.group_id,
                member_id=self.member_id,
                member_epoch=self.epoch,
                rack_id=self.terms.rack if joining else None,
                subscribed_topic_names=sorted(self._topics) if tell_topics else None,
            )
        )

    def next_beat(self) -> int | None:
        if self._beating or self.state in (State.LEFT, State.FAILED) or self._lost is not None:
            return None
        if self.epoch == JOIN_EPOCH and not self._topics:
            return None  # a member joins with topics
        if self.epoch > 0:
            return min(self._beat_at, self._polled_at + self.terms.poll_interval_ms_max)
        return self._beat_at

    def answered(self, request: ProtocolMessage, response: ProtocolMessage, now: int) -> None:
        assert isinstance(request, ShareGroupHeartbeatRequest)
        assert isinstance(response, ShareGroupHeartbeatResponse)
        if request.member_epoch < 0:
            return
        self._beating = False
        if self.state in (State.LEFT, State.FAILED) or request.member_epoch != self.epoch:
            return
        code = response.error_code
        self._beat_at = now + self._interval_ms
        if code:
            self._tell_topics = True
        if code in FENCED:
            self._fenced(code, now)
        elif code in AGAIN:
            self._beat_at = now + self.terms.backoff_ms
        elif code:
            self._fail(fatal(code, response.error_message, self.terms.group_id, _REMEDIES))
        else:
            self._accepted(response, now)

    def _accepted(self, response: ShareGroupHeartbeatResponse, now: int) -> None:
        self._interval_ms = heartbeat_interval_ms(response.heartbeat_interval_ms)
        self._beat_at = now if self._tell_topics else now + self._interval_ms
        if self.state is State.JOINING:
            self.state = State.STABLE
        elif response.assignment is not None and self.owned:
            self._arrived = reassigned(response.member_epoch)
        if response.member_epoch > 0:
            self.epoch = response.member_epoch
        if response.assignment is not None:
            self._target.replace(response.assignment)

    def failed(self, request: ProtocolMessage, error: KafkaError, now: int) -> None:
        assert isinstance(request, ShareGroupHeartbeatRequest)
        if request.member_epoch < 0:
            return
        self._beating = False
        self._beat_at = now + self.terms.backoff_ms
        self._tell_topics = True  # the request may be lost
        if not isinstance(error, Retriable):
            self._fail(fatal(error.code, error.detail, self.terms.group_id, _REMEDIES))

    def leave(self, reason: str, now: int) -> CoordinatorRequest | None:
        """Leave, whether joined or not: a first heartbeat may be in flight."""
        if self.state in (State.LEFT, State.FAILED):
            return None
        self.state = State.LEFT
        return self._leave_request()

    # --- transitions ---

    def _fenced(self, code: int, now: int) -> None:
        text = (
            "the coordinator has removed this member from the group: no heartbeat came in time"
            if code == Code.UNKNOWN_MEMBER_ID
            else "the epoch of this member is not the one that the coordinator expects"
        )
        self._lose(Cause("expired", text, self.epoch), now)

    def _lose(self, cause: Cause, now: int) -> None:
        self.left_because = cause
        self._lost = cause if self.owned else None
        self._arrived = Cause("joined", f"this consumer joined the group again: {cause.text}")
        self._join_again(now)

    def _join_again(self, now: int) -> None:
        self.state = State.JOINING
        self.epoch = JOIN_EPOCH
        self._target.clear()
        self._beat_at = now

    def _too_slow(self, now: int) -> CoordinatorRequest:
        """It joins again when it is polled again."""
        leaving = self._leave_request()
        self._lose(slow(self.terms.poll_interval_ms_max), now)
        self.state = State.LEFT
        self._slow = True
        return leaving

    def _leave_request(self) -> CoordinatorRequest:
        return CoordinatorRequest(
            ShareGroupHeartbeatRequest(
                group_id=self.terms.group_id,
                member_id=self.member_id,
                member_epoch=LEAVE_EPOCH,
            )
        )

    def _fail(self, error: KafkaError) -> None:
        self._error = error
        self.state = State.FAILED

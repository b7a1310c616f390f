"""One member of a group of the consumer protocol (KIP-848), which uses only heartbeats.

In: responses to heartbeats, names of topics, time. Out: the steps of membership.py.
Always: a partition is revoked before the heartbeat that confirms it, and that heartbeat is sent
before new partitions are taken; a fenced member loses all partitions before it joins again.
Not here: the assignment (the coordinator decides it).

JOINING -> STABLE; when the target differs from the owned partitions, poll revokes and assigns while
heartbeats continue; fenced -> JOINING, once what was owned is lost; any -> LEFT, FAILED.
"""

from collections.abc import Sequence
from enum import Enum
from uuid import UUID

from barnabas.assignment import Topics
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
from barnabas.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

_LEAVE_FOR_A_WHILE_EPOCH = -2  # of a static member, which keeps its assignment
_REMEDIES: dict[int, str] = {
    Code.UNSUPPORTED_VERSION: "the broker does not offer this group protocol: set"
    " group.protocol=classic",
    Code.UNSUPPORTED_ASSIGNOR: "set group.remote.assignor to one that the broker has",
    Code.UNRELEASED_INSTANCE_ID: "give every member its own group.instance.id; if the other one"
    " has died, wait until its session times out",
    Code.FENCED_INSTANCE_ID: "give every member its own group.instance.id",
    Code.GROUP_MAX_SIZE_REACHED: "end a member, or raise group.consumer.max.size",
}


class ConsumerMemberState(Enum):
    JOINING = "joining"
    STABLE = "stable"
    LEFT = "left"
    FAILED = "failed"


class ConsumerMembership:
    """See membership.py. `member_id` is ours to choose: a random UUID."""

    def __init__(
        self,
        terms: MemberTerms,
        member_id: str,
        now: int,
        *,
        assignor: str | None = None,
        pattern: str | None = None,
    ) -> None:
        self.terms = terms
        self.state = ConsumerMemberState.JOINING
        self.member_id = member_id
        self.epoch = JOIN_EPOCH
        self.owned: Partitions = ()
        self.generation = -1
        self._assignor = assignor
        self._pattern = pattern
        self._topics: tuple[str, ...] = ()
        self._target = TargetAssignment()
        self._ids: dict[str, UUID] = {}
        self._gone: Cause | None = None
        self._giving: Partitions = ()  # the callback of the reader runs for these
        self._new = True  # no partition has been assigned since it joined
        self._arrived = Cause("joined", "this consumer joined the group")
        self._tell_owned = False
        self._tell_topics = True
        self._tell_all = False
        self._beat_at = now
        self._interval_ms = terms.heartbeat_interval_ms
        self._beating = False
        self._polled_at = now
        self._slow = False  # it left because it was not polled
        self._error: KafkaError | None = None
        self.left_because: Cause | None = None

    @property
    def identity(self) -> CommitterIdentity | None:
        if self.epoch <= 0 or self.state is not ConsumerMemberState.STABLE:
            return None
        return CommitterIdentity(self.member_id, self.epoch, self.terms.instance_id)

    @property
    def group_topics(self) -> tuple[str, ...]:
        """Does nothing: the coordinator watches topics itself."""
        return ()

    def watched(self, topics: Topics) -> None:
        """Does nothing: the coordinator watches topics itself."""

    def subscribe(self, topics: Sequence[str], now: int) -> None:
        wanted = tuple(dict.fromkeys(topics))
        if set(wanted) != set(self._topics):
            self._topics = wanted
            self._tell_topics = True
            self._beat_at = now

    def polled(self, now: int) -> None:
        self._polled_at = now
        if self.state is ConsumerMemberState.LEFT and self._slow:
            self._slow = False
            self._join_again(now)

    # --- called by poll ---

    def next_step(self, now: int) -> Step | None:
        self._giving = ()
        if self.state is ConsumerMemberState.FAILED:
            assert self._error is not None
            return EndMembership(self._error)
        if self._gone is not None:
            if self.owned:
                return LosePartitions(self.owned, self._gone)
            self._gone = None
            self._beat_at = now
        if not self._target.is_pending or self.state is not ConsumerMemberState.STABLE:
            return None
        step = self._target.next_step(self.owned, self._arrived)
        if isinstance(step, AssignPartitions):
            self._giving = step.partitions
        elif step is None:
            self._tell_owned = True
            self._beat_at = now
        return step

    def done(self, step: RevokePartitions | LosePartitions | AssignPartitions, now: int) -> None:
        self._giving = ()
        if isinstance(step, AssignPartitions):
            self.owned = (*self.owned, *step.partitions)
            self._new = False
            return
        gone = set(step.partitions)
        self.owned = tuple(at for at in self.owned if at not in gone)
        if isinstance(step, RevokePartitions):
            # Other members wait for these: send a heartbeat at once, not at the next interval.
            self._tell_owned = True
            self._beat_at = now

    def described(self, topics: Topics, now: int) -> None:
        """Does nothing: the coordinator knows the topics itself."""

    def resolved(self, names: dict[UUID, str], now: int) -> None:
        self._target.resolved(names)
        self._ids.update({name: topic_id for topic_id, name in names.items()})

    # --- called by the heartbeat task ---

    def beat(self, now: int) -> CoordinatorRequest | None:
        if self._beating or self.state in (ConsumerMemberState.LEFT, ConsumerMemberState.FAILED):
            return None
        if self._gone is not None:
            return None
        if now >= self._polled_at + self.terms.poll_interval_ms_max and self.epoch > 0:
            return self._too_slow(now)
        if now < self._beat_at:
            return None
        self._beating = True
        self._target.look_up_again()
        everything = self._tell_all or self.epoch == JOIN_EPOCH
        tell_topics = self._tell_topics or everything
        tell_owned = self._tell_owned or everything
        self._tell_owned = self._tell_topics = self._tell_all = False
        return CoordinatorRequest(
            ConsumerGroupHeartbeatRequest(
                group_id=self.terms.group_id,
                member_id=self.member_id,
                member_epoch=self.epoch,
                instance_id=self.terms.instance_id,
                rack_id=self.terms.rack if everything else None,
                rebalance_timeout_ms=self.terms.poll_interval_ms_max if everything else -1,
                subscribed_topic_names=(
                    sorted(self._topics) if tell_topics and self._pattern is None else None
                ),
                subscribed_topic_regex=self._pattern if tell_topics else None,
                server_assignor=self._assignor if everything else None,
                topic_partitions=self._owned_by_id() if tell_owned else None,
            )
        )

    def next_beat(self) -> int | None:
        if self._beating or self.state in (ConsumerMemberState.LEFT, ConsumerMemberState.FAILED):
            return None
        if self._gone is not None:
            return None
        if self.epoch > 0:
            return min(self._beat_at, self._polled_at + self.terms.poll_interval_ms_max)
        return self._beat_at

    def answered(self, request: ProtocolMessage, response: ProtocolMessage, now: int) -> None:
        assert isinstance(request, ConsumerGroupHeartbeatRequest)
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        if request.member_epoch < 0:
            return
        self._beating = False
        if (
            self.state in (ConsumerMemberState.LEFT, ConsumerMemberState.FAILED)
            or request.member_epoch != self.epoch
        ):
            return
        code = response.error_code
        self._beat_at = now + self._interval_ms
        self._tell_all = bool(code)
        if code in FENCED:
            self._fenced(code, now)
        elif code in AGAIN:
            self._beat_at = now + self.terms.backoff_ms
        elif code:
            said = response.error_message
            self._fail(fatal(code, said, self.terms.group_id, _REMEDIES))
        else:
            self._accepted(response, now)

    def _accepted(self, response: ConsumerGroupHeartbeatResponse, now: int) -> None:
        self._interval_ms = heartbeat_interval_ms(response.heartbeat_interval_ms)
        self._beat_at = now + self._interval_ms
        if self.state is ConsumerMemberState.JOINING:
            self.state = ConsumerMemberState.STABLE
            if response.member_id:
                self.member_id = response.member_id
        elif response.assignment is not None and not self._new:
            self._arrived = reassigned(response.member_epoch)
        if response.member_epoch > 0:
            self.epoch = self.generation = response.member_epoch
        if response.assignment is not None:
            self._target.replace(response.assignment)
        if self._tell_owned or self._tell_topics:
            self._beat_at = now  # something changed while this request was in flight

    def failed(self, request: ProtocolMessage, error: KafkaError, now: int) -> None:
        assert isinstance(request, ConsumerGroupHeartbeatRequest)
        if request.member_epoch < 0:
            return
        self._beating = False
        self._beat_at = now + self.terms.backoff_ms
        # The request or its response may be lost. The next heartbeat is a full one, and is answered
        # with the full assignment.
        self._tell_all = True
        if not isinstance(error, Retriable):
            said = error.detail
            self._fail(fatal(error.code, said, self.terms.group_id, _REMEDIES))

    def leave(self, reason: str, now: int) -> CoordinatorRequest | None:
        """Leave, whether joined or not: a first heartbeat may be in flight."""
        if self.state in (ConsumerMemberState.LEFT, ConsumerMemberState.FAILED):
            return None
        self.state = ConsumerMemberState.LEFT
        return self._leave_request()

    # --- transitions ---

    def _owned_by_id(self) -> list[TopicPartitions]:
        topics: dict[UUID, list[int]] = {}
        for at in sorted({*self.owned, *self._giving}):
            topics.setdefault(self._ids[at.topic], []).append(at.partition)
        return [
            TopicPartitions(topic_id=topic_id, partitions=numbers)
            for topic_id, numbers in topics.items()
        ]

    def _fenced(self, code: int, now: int) -> None:
        if code == Code.UNKNOWN_MEMBER_ID:
            text = "the coordinator has removed this member from the group: no heartbeat came in"
            text += " time, or an admin removed it"
        else:
            text = "the group went on without this member: it took too long to revoke partitions"
            text += " (max.poll.interval.ms), or its epoch is that of another"
        self._lose(Cause("expired", text, self.epoch), now)

    def _lose(self, cause: Cause, now: int) -> None:
        self.left_because = cause
        # Lost while the callback runs: reported next.
        self._gone = cause if self.owned or self._giving else None
        self._arrived = Cause("joined", f"this consumer joined the group again: {cause.text}")
        self._join_again(now)

    def _join_again(self, now: int) -> None:
        self.state = ConsumerMemberState.JOINING
        self.epoch = JOIN_EPOCH
        self._new = True
        self._target.clear()
        self._beat_at = now

    def _too_slow(self, now: int) -> CoordinatorRequest:
        """It joins again when it is polled again."""
        leaving = self._leave_request()
        self._lose(slow(self.terms.poll_interval_ms_max), now)
        self.state = ConsumerMemberState.LEFT
        self._slow = True
        return leaving

    def _leave_request(self) -> CoordinatorRequest:
        static = self.terms.instance_id is not None
        return CoordinatorRequest(
            ConsumerGroupHeartbeatRequest(
                group_id=self.terms.group_id,
                member_id=self.member_id,
                member_epoch=_LEAVE_FOR_A_WHILE_EPOCH if static else LEAVE_EPOCH,
                instance_id=self.terms.instance_id,
            )
        )

    def _fail(self, error: KafkaError) -> None:
        self._error = error
        self.state = ConsumerMemberState.FAILED

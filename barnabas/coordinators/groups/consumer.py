"""Decides the membership of one group of the new protocol: who is in, who is out, who may speak.

In: heartbeats of members, deadlines. Out: records to keep, answers, members that must go.
Always: a heartbeat with nothing new costs the same in any group.
Not here: deadlines (attendance.py), members of the classic protocol (classic_speakers.py), removing
members, which may end the group's protocol (consumer_verbs.py).
"""

from collections.abc import Iterable
from dataclasses import replace

from barnabas.coordinators.groups.attendance import REVOKE, TARGET, Attendance, Waiting
from barnabas.coordinators.groups.consumer_member import (
    AWAY,
    JOINING,
    ConsumerMember,
    Standing,
)
from barnabas.coordinators.groups.consumer_records import (
    EPOCH_KEY,
    ConsumerRecord,
    EpochValue,
)
from barnabas.coordinators.groups.member import Caller
from barnabas.coordinators.groups.reconcile import Owned
from barnabas.coordinators.groups.replies import consumer_refused
from barnabas.coordinators.groups.topics import metadata_hash
from barnabas.coordinators.groups.turn import Turn
from barnabas.coordinators.runtime import Answer, Now
from barnabas.model.errors import Code, Fenced, InvalidRequest, KafkaError, Retriable
from barnabas.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

COMMIT_WITH_EPOCH_SINCE = 9  # of OffsetCommit
# A member that waits for others is asked to come back soon; it need not wait for its turn.
SOON_MS = 200


class ConsumerGroup(Attendance):
    """One group: its verbs."""

    # Heartbeats

    def alive(
        self, request: ConsumerGroupHeartbeatRequest, now: Now
    ) -> ConsumerGroupHeartbeatResponse | None:
        """The answer to a heartbeat with nothing new, where there is nothing new to tell."""
        member = self.kept.members.get(request.member_id)
        if member is None or not self._has_nothing_new(member, request):
            return None
        self._heard(member, now)
        if self._contested:
            self._note_twin(member.id, now)
        return ConsumerGroupHeartbeatResponse(
            error_code=0,
            member_id=member.id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self.limits.consumer_heartbeat_interval_ms,
        )

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller, new_id: str, now: Now
    ) -> tuple[list[ConsumerRecord], ConsumerGroupHeartbeatResponse | None]:
        """`new_id`: the id for a member that has none. A KafkaError when it may not speak.

        No response: the group is new and waits for more members; the answer follows when there
        are targets. An empty assignment before the first would call the client's listener.
        """
        owned = owned_by(request)
        try:
            turn = self._admit(request, request.member_id or new_id, owned, now)
        except Fenced as refused:
            self._contest(request, refused.code, caller, now)
            raise
        if self._contested:
            self._note_twin(turn.member.id, now)
        turn.describe(_described(turn.member, request, caller), look_again=self.stale, now=now)
        self._go_on(turn, owned, caller, now)
        has_targets = turn.target_epoch >= turn.epoch
        if self._gathering is not None and not has_targets and request.member_epoch == JOINING:
            self._wait_for_target(turn.member.id, Waiting(request, caller), now)
            return turn.records, None
        return turn.records, self._told(turn, request, owned, now)

    def _wait_for_target(self, member_id: str, waiting: Waiting, now: Now) -> None:
        self._release(member_id, Code.COORDINATOR_NOT_AVAILABLE)  # it has joined again since
        self._waiting[member_id] = waiting
        self._start(TARGET, member_id, now.ms + self._wait_ms(now))

    def target_due(
        self, member_id: str, now: Now
    ) -> tuple[list[ConsumerRecord], tuple[Answer, ...]]:
        """The wait for more members is over, unless others came meanwhile."""
        waiting = self._waiting.get(member_id)
        if waiting is None:
            return [], ()
        if self._gathering is not None and self._wait_ms(now) > 0:
            self._start(TARGET, member_id, now.ms + self._wait_ms(now))
            return [], ()
        del self._waiting[member_id]
        try:
            records, response = self.heartbeat(waiting.request, waiting.caller, member_id, now)
        except KafkaError as error:
            records, response = [], consumer_refused(error.code, error.detail)
        assert response is not None, "there are targets"
        return records, (Answer(waiting.caller.token, response), *self.take_released())

    def _has_nothing_new(
        self, member: ConsumerMember, request: ConsumerGroupHeartbeatRequest
    ) -> bool:
        kept = self.kept
        return (
            request.member_epoch == member.epoch == kept.epoch == kept.target_epoch
            and member.standing is Standing.STABLE
            and request.subscribed_topic_names is None
            and request.topic_partitions is None
            and request.subscribed_topic_regex is None
            and request.server_assignor is None
            and request.rack_id is None
            and request.rebalance_timeout_ms == -1
            and request.instance_id == member.instance_id
            and member.classic is None
            and not self.stale
        )

    def _admit(
        self,
        request: ConsumerGroupHeartbeatRequest,
        member_id: str,
        owned: Owned | None,
        now: Now,
    ) -> Turn:
        kept = self.kept
        joins = request.member_epoch == JOINING
        instance = request.instance_id
        member = kept.members.get(member_id)
        holder = kept.by_instance(instance)
        replaced = None
        gathers = False
        if instance is not None and holder is not None and holder.id != member_id:
            if not joins:
                raise self._fenced_twin(holder, member_id, instance)
            if holder.classic is None and holder.epoch != AWAY:
                raise Fenced(
                    Code.UNRELEASED_INSTANCE_ID,
                    f"instance id {instance!r} is still held by member {holder.id!r}; "
                    "it must leave first",
                )
            replaced = holder
        if member is None and replaced is None:
            if not joins:
                raise InvalidRequest(
                    Code.UNKNOWN_MEMBER_ID,
                    f"{member_id!r} is not a member of group {self.id!r}; it must join",
                )
            names = request.subscribed_topic_names or ()
            self.check_room(sum(map(len, names)))
            gathers = self._begin_gathering(now)
            member = ConsumerMember(member_id)
        elif member is not None:
            _check_epoch(member, request.member_epoch, owned)
            if request.subscribed_topic_names is not None:
                names = request.subscribed_topic_names
                self.check_growth(sum(map(len, names)) - sum(map(len, member.topics)))
        member = member or ConsumerMember(member_id)
        return Turn(kept, self.limits, self._topics, member, replaced, gathers=gathers)

    def _go_on(self, turn: Turn, owned: Owned | None, caller: Caller, now: Now) -> None:
        """Targets, the member's own step, its timers, and the story of it all."""
        if self._gathering is not None and turn.is_new:
            self._gathering = (self._gathering[0], now.ms)
        turn.retarget(now, wait=self._wait_ms(now) > 0)
        if turn.targets is not None:
            self._gathering = None
        turn.reconcile(owned)
        self.stale = False
        if turn.replaced is not None:
            self._unseat(turn.replaced.id)
        member = turn.member
        self._heard(member, now)
        self._seats[member.id].connection = caller.connection
        if member != turn.began or turn.is_new:
            self._watch_revocation(member, now)
        self._tell(turn, now)

    def _told(
        self,
        turn: Turn,
        request: ConsumerGroupHeartbeatRequest,
        owned: Owned | None,
        now: Now,
    ) -> ConsumerGroupHeartbeatResponse:
        member = turn.member
        says_all = (
            owned is not None
            and request.rebalance_timeout_ms != -1
            and (
                request.subscribed_topic_names is not None
                or request.subscribed_topic_regex is not None
            )
        )
        assignment = None
        joins = request.member_epoch == JOINING
        if joins or says_all or member.assigned != turn.began.assigned:
            assignment = Assignment(
                topic_partitions=[
                    TopicPartitions(topic_id=topic_id, partitions=list(partitions))
                    for topic_id, partitions in member.assigned.items()
                ]
            )
        return ConsumerGroupHeartbeatResponse(
            error_code=0,
            member_id=member.id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self._interval_ms(turn, now),
            assignment=assignment,
        )

    def _interval_ms(self, turn: Turn, now: Now) -> int:
        """Sooner where there is something to hear soon (ADR 17)."""
        interval_ms = self.limits.consumer_heartbeat_interval_ms
        if turn.epoch > turn.target_epoch:
            return min(interval_ms, max(self._wait_ms(now), 1))
        if turn.member.standing is Standing.UNRELEASED:
            return min(interval_ms, SOON_MS)
        return interval_ms

    # Leaving

    def leaving(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerMember:
        """Who it is that says it leaves."""
        instance = request.instance_id
        if instance is None:
            member = self.kept.members.get(request.member_id)
        else:
            member = self.kept.by_instance(instance)
            if member is not None and member.id != request.member_id:
                raise self._fenced_twin(member, request.member_id, instance)
        if member is None:
            raise InvalidRequest(
                Code.UNKNOWN_MEMBER_ID,
                f"{request.member_id!r} is not a member of group {self.id!r}",
            )
        return member

    def away(self, member: ConsumerMember) -> list[ConsumerRecord]:
        """A static member goes for a while: what it has stays its own until its session ends."""
        held = {t: dict.fromkeys(partitions, 0) for t, partitions in member.assigned.items()}
        gone_away = replace(member, epoch=AWAY, assigned=held, revoking={})
        revoke = self._seats[member.id].timers.get(REVOKE) if member.id in self._seats else None
        if revoke is not None:
            revoke.stop()
        return [gone_away.stands(self.id)]

    def remove(self, members: list[ConsumerMember]) -> list[ConsumerRecord]:
        """They are out, and the group has a new epoch."""
        records = self.kept.removal(members)
        removed = {record.name for record in records}
        regexes = {r: t for r, t in self.kept.regexes.items() if r not in removed}
        names = self.kept.topics_without(members, None, regexes)
        value = EpochValue(
            epoch=self.kept.epoch + 1, metadata_hash=metadata_hash(names, self._topics)
        )
        records.append(ConsumerRecord(EPOCH_KEY, self.id, "", value))
        for member in members:
            self._unseat(member.id)
        return records

    # Commits

    def check_commit(
        self, member_id: str, epoch: int, version: int, topics: Iterable[tuple[str, int]]
    ) -> Code:
        """May these offsets be committed? An older epoch may, where it had the partition; an
        older generation never, for with it a member has given everything up."""
        kept = self.kept
        if epoch < 0 and not kept.members:
            return Code.NONE
        member = kept.members.get(member_id)
        if member is None:
            return Code.UNKNOWN_MEMBER_ID
        if member.classic is None and version < COMMIT_WITH_EPOCH_SINCE:
            return Code.UNSUPPORTED_VERSION
        if epoch == member.epoch:
            return Code.NONE
        stale = _stale(member)
        if epoch > member.epoch or member.classic is not None:
            return stale
        for name, partition in topics:
            topic = self._topics.find(name)
            since = None if topic is None else member.held_since(topic.topic_id, partition)
            if since is None or epoch < since:
                return stale
        return Code.NONE

    def check_fetch(self, member_id: str | None, epoch: int) -> Code:
        if member_id is None and epoch < 0:
            return Code.NONE
        member = self.kept.members.get(member_id or "")
        if member is None:
            return Code.UNKNOWN_MEMBER_ID
        return Code.NONE if epoch == member.epoch else _stale(member)

    # Inside

    def check_room(self, size: int = 0) -> None:
        """`size`: of what a newcomer brings."""
        limit = self.limits.consumer_members_max
        if len(self.kept.members) >= limit:
            raise InvalidRequest(
                Code.GROUP_MAX_SIZE_REACHED,
                f"group {self.id!r} has {limit} members, as many as group.consumer.max.size allows",
            )
        self.check_growth(max(size, 1))

    def check_growth(self, size: int) -> None:
        """`size`: how much more a member brings than it did."""
        if size > 0 and self.limits.room.lacks(size):
            raise Retriable(
                Code.COORDINATOR_NOT_AVAILABLE,
                "the members of all groups together use all the memory that this broker has for "
                "them; try again later",
            )

    def _fenced_twin(self, holder: ConsumerMember, member_id: str, instance: str) -> Fenced:
        return Fenced(
            Code.FENCED_INSTANCE_ID,
            f"instance id {instance!r} belongs to member {holder.id!r} now, not to {member_id!r}",
        )


def owned_by(request: ConsumerGroupHeartbeatRequest) -> Owned | None:
    if request.topic_partitions is None:
        return None
    return {topic.topic_id: topic.partitions for topic in request.topic_partitions}


def _described(
    member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, caller: Caller
) -> ConsumerMember:
    """What the request leaves out is as it was."""
    topics = member.topics
    if request.subscribed_topic_names is not None:
        topics = tuple(sorted(set(request.subscribed_topic_names)))
    regex = request.subscribed_topic_regex
    timeout = request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=request.instance_id or member.instance_id,
        rack=request.rack_id or member.rack,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout == -1 else timeout,
        client_id=caller.client_id,
        client_host=caller.client_host,
        topics=topics,
        regex=member.regex if regex is None else regex,
        assignor=request.server_assignor or member.assignor,
        classic=None,
    )


def _check_epoch(member: ConsumerMember, epoch: int, owned: Owned | None) -> None:
    """A member whose last answer was lost is one epoch behind, and owns nothing it should not."""
    if epoch in (JOINING, member.epoch):
        return
    missed_one = (
        epoch == member.previous_epoch
        and epoch < member.epoch
        and owned is not None
        and all(
            partition in member.assigned.get(topic_id, ())
            for topic_id, partitions in owned.items()
            for partition in partitions
        )
    )
    if not missed_one:
        raise Fenced(
            Code.FENCED_MEMBER_EPOCH,
            f"member {member.id!r} is at epoch {member.epoch}, not {epoch}; it must give up its "
            "partitions and rejoin",
        )


def _stale(member: ConsumerMember) -> Code:
    return Code.STALE_MEMBER_EPOCH if member.classic is None else Code.ILLEGAL_GENERATION

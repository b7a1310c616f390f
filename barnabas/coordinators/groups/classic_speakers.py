"""Members of the classic protocol in a group of the new one: a rolling upgrade, half way.

In: JoinGroup, SyncGroup, Heartbeat of such members. Out: records, answers.
Always: to them a target is a generation that somebody else leads: they are told to rejoin when
there is one, join with what they own, and fetch their share by SyncGroup. Whoever does not come
within its rebalance timeout goes.
Not here: the turning of whole groups (migration.py).
"""

from dataclasses import replace

from barnabas.coordinators.groups.attendance import JOIN, SYNC
from barnabas.coordinators.groups.consumer import ConsumerGroup
from barnabas.coordinators.groups.consumer_member import ClassicSide, ConsumerMember, Standing
from barnabas.coordinators.groups.consumer_records import ConsumerRecord
from barnabas.coordinators.groups.member import Caller
from barnabas.coordinators.groups.reconcile import Owned
from barnabas.coordinators.groups.subscription import CONSUMER, subscription_of, version_of
from barnabas.coordinators.groups.target import as_consumer_protocol
from barnabas.coordinators.groups.topics import Topics
from barnabas.coordinators.groups.turn import Turn
from barnabas.coordinators.runtime import Now
from barnabas.model.errors import Code, InvalidRequest
from barnabas.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.wire.messages.leave_group import MemberIdentity
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class MixedGroup(ConsumerGroup):
    """A group of the new protocol that members of the classic one can be in too."""

    def check_classic(self, request: JoinGroupRequest) -> ConsumerProtocolSubscription:
        """May it come in with these protocols? What it subscribes to."""
        kept = self.kept
        if request.protocol_type == CONSUMER and request.protocols:
            member = kept.members.get(request.member_id)
            own = None if member is None else member.classic
            names = () if own is None else [name for name, _ in own.protocols]
            others = kept.classic - (own is not None)
            known = any(
                kept.by_protocol.get(protocol.name, 0) - (protocol.name in names) == others
                for protocol in request.protocols
            )
            subscription = subscription_of(request.protocols[0].metadata)
            if known and subscription is not None:
                return subscription
        raise InvalidRequest(
            Code.INCONSISTENT_GROUP_PROTOCOL,
            f"group {self.id!r} has protocol type 'consumer', and a member must support an "
            "assignor that all classic members support; this one sent type "
            f"{request.protocol_type!r} with {len(request.protocols)} assignors",
        )

    def join(
        self, request: JoinGroupRequest, caller: Caller, member_id: str, now: Now
    ) -> tuple[list[ConsumerRecord], JoinGroupResponse]:
        """`member_id`: its own, or a new one."""
        subscription = self.check_classic(request)
        kept = self.kept
        replaced = self._holder(request)
        size = sum(len(protocol.name) + len(protocol.metadata) for protocol in request.protocols)
        before = kept.members.get(member_id) or replaced
        if before is None:
            self.check_room(size)
        else:
            self.check_growth(size - before.brings())
        member = kept.members.get(member_id) or ConsumerMember(member_id)
        turn = Turn(kept, self.limits, self._topics, member, replaced)
        described = _described(turn.member, request, subscription, caller)
        turn.describe(described, look_again=self.stale, now=now)
        self._go_on(turn, _owned(subscription, self._topics), caller, now)
        self._stop(JOIN, member_id)
        self._start(SYNC, member_id, now.ms + max(0, described.rebalance_timeout_ms))
        response = JoinGroupResponse(
            error_code=0,
            generation_id=turn.member.epoch,
            protocol_type=CONSUMER,
            protocol_name=request.protocols[0].name,
            leader="",
            member_id=member_id,
            members=[],
        )
        return turn.records, response

    def _holder(self, request: JoinGroupRequest) -> ConsumerMember | None:
        """Whose place it takes: that of the member with its instance id, under another id."""
        instance = request.group_instance_id
        holder = self.kept.by_instance(instance)
        if instance is None or (holder is not None and holder.id == request.member_id):
            return None
        if request.member_id:
            if holder is None:
                raise InvalidRequest(
                    Code.UNKNOWN_MEMBER_ID, f"no member of the group has instance id {instance!r}"
                )
            raise self._fenced_twin(holder, request.member_id, instance)
        return holder

    def sync(self, request: SyncGroupRequest, now: Now) -> SyncGroupResponse:
        member = self._classic(request.member_id, request.group_instance_id)
        classic = member.classic
        assert classic is not None
        name, metadata = classic.protocols[0]
        self._check_generation(member, request.generation_id)
        if (request.protocol_type or CONSUMER) != CONSUMER or (
            request.protocol_name or name
        ) != name:
            raise InvalidRequest(
                Code.INCONSISTENT_GROUP_PROTOCOL,
                f"the member joined with protocol type {CONSUMER!r} and protocol {name!r}; it must "
                "send the same in SyncGroup",
            )
        if self.kept.target_epoch > member.epoch and member.standing is not Standing.UNREVOKED:
            self._expect_join(member, now)
            raise InvalidRequest(
                Code.REBALANCE_IN_PROGRESS, "there is a new assignment; join again"
            )
        self._stop(SYNC, member.id)
        self._heard(member, now)
        assigned = {t: tuple(sorted(held)) for t, held in member.assigned.items()}
        return SyncGroupResponse(
            error_code=0,
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=as_consumer_protocol(assigned, self._topics, version_of(metadata)),
        )

    def classic_heartbeat(
        self, request: HeartbeatRequest, now: Now
    ) -> tuple[list[ConsumerRecord], Code]:
        """Also makes targets that are due: there may be nobody else to do it."""
        kept = self.kept
        member = self._classic(request.member_id, request.group_instance_id)
        self._check_generation(member, request.generation_id)
        self._heard(member, now)
        records: list[ConsumerRecord] = []
        if self.stale or kept.epoch > kept.target_epoch:
            turn = Turn(kept, self.limits, self._topics, member)
            turn.describe(member, look_again=self.stale, now=now)
            turn.retarget(now, wait=self._wait_ms(now) > 0)
            if turn.targets is not None:
                self._gathering = None
            self.stale = False
            self._tell(turn, now)
            records = turn.records
        if self._must_rejoin(member):
            self._expect_join(member, now)
            return records, Code.REBALANCE_IN_PROGRESS
        return records, Code.NONE

    def identified(self, identity: MemberIdentity) -> ConsumerMember:
        """Who it is that leaves, or is removed by an administrator, by LeaveGroup."""
        instance = identity.group_instance_id
        if instance is None:
            member = self.kept.members.get(identity.member_id)
        else:
            member = self.kept.by_instance(instance)
            if member is not None and identity.member_id not in ("", member.id):
                raise self._fenced_twin(member, identity.member_id, instance)
        if member is None:
            raise InvalidRequest(
                Code.UNKNOWN_MEMBER_ID,
                f"{identity.member_id or instance!r} is not a member of group {self.id!r}",
            )
        return member

    def _must_rejoin(self, member: ConsumerMember) -> bool:
        if member.epoch < self.kept.target_epoch or member.standing is Standing.UNREVOKED:
            return True
        return member.standing is Standing.UNRELEASED and not self._waits_for_others(member)

    def _waits_for_others(self, member: ConsumerMember) -> bool:
        return any(
            (topic_id, partition) in self.kept.owners
            for topic_id, partitions in self.kept.target(member.id).items()
            for partition in partitions
            if partition not in member.assigned.get(topic_id, ())
        )

    def _expect_join(self, member: ConsumerMember, now: Now) -> None:
        if member.id in self._seats and not self._runs(JOIN, member.id):
            self._start(JOIN, member.id, now.ms + max(0, member.rebalance_timeout_ms))

    def _classic(self, member_id: str, instance: str | None) -> ConsumerMember:
        member = self.identified(MemberIdentity(member_id=member_id, group_instance_id=instance))
        if member.classic is None or member.id != member_id:
            raise InvalidRequest(
                Code.UNKNOWN_MEMBER_ID, f"member {member.id!r} does not use the classic protocol"
            )
        return member

    def _check_generation(self, member: ConsumerMember, generation: int) -> None:
        if generation != member.epoch:
            raise InvalidRequest(
                Code.ILLEGAL_GENERATION,
                f"member {member.id!r} is in generation {member.epoch}, not {generation}",
            )


def _described(
    member: ConsumerMember,
    request: JoinGroupRequest,
    subscription: ConsumerProtocolSubscription,
    caller: Caller,
) -> ConsumerMember:
    timeout = request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=request.group_instance_id or member.instance_id,
        rack=subscription.rack_id or member.rack,
        rebalance_timeout_ms=request.session_timeout_ms if timeout < 0 else timeout,
        client_id=caller.client_id,
        client_host=caller.client_host,
        topics=tuple(sorted(set(subscription.topics))),
        regex="",
        classic=ClassicSide(
            request.session_timeout_ms,
            tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols),
        ),
    )


def _owned(subscription: ConsumerProtocolSubscription, topics: Topics) -> Owned:
    return {
        found.topic_id: topic.partitions
        for topic in subscription.owned_partitions
        if (found := topics.find(topic.topic)) is not None
    }

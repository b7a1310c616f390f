"""The verbs of the classic protocol, on groups of either protocol.

In: JoinGroup, SyncGroup, Heartbeat, LeaveGroup. Out: outcomes for the runtime.
Always: in a group of the new protocol that has members, classic ones are served beside them.
Not here: what a classic group decides (classic.py), what a mixed one does (classic_speakers.py).
"""

from msgspec.structs import replace

from barnabas.coordinators.groups.classic import MEMBER_ID_REQUIRED_SINCE
from barnabas.coordinators.groups.classic_speakers import MixedGroup
from barnabas.coordinators.groups.consumer_member import ConsumerMember
from barnabas.coordinators.groups.consumer_records import ConsumerRecord
from barnabas.coordinators.groups.consumer_verbs import ConsumerVerbs
from barnabas.coordinators.groups.member import Caller
from barnabas.coordinators.groups.records import Record
from barnabas.coordinators.groups.registry import and_reply, reply
from barnabas.coordinators.groups.replies import join_refused, sync_refused
from barnabas.coordinators.runtime import Answer, Now, Outcome
from barnabas.model.errors import Code, KafkaError
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.join_group import JoinGroupRequest
from barnabas.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from barnabas.wire.messages.sync_group import SyncGroupRequest

LEAVE_SEVERAL_SINCE = 3
NAME_BYTES_MAX = 32_767  # as long as any text on the wire: a member is named after its client

_HEARTBEATS = {
    code: HeartbeatResponse(error_code=code)
    for code in (
        Code.NONE,
        Code.REBALANCE_IN_PROGRESS,
        Code.ILLEGAL_GENERATION,
        Code.UNKNOWN_MEMBER_ID,
        Code.FENCED_INSTANCE_ID,
        Code.INVALID_GROUP_ID,
    )
}


class ClassicVerbs(ConsumerVerbs):
    """Verbs take the request, who sent it, and the time."""

    def join(
        self, request: JoinGroupRequest, caller: Caller, uuid: str, now: Now
    ) -> Outcome[Record]:
        """`uuid`: random text for the id of a member that has none."""
        limits = self.limits
        timeout = request.session_timeout_ms
        size = sum(len(protocol.metadata) for protocol in request.protocols)
        if not request.group_id:
            return reply(caller, join_refused(Code.INVALID_GROUP_ID, request.member_id))
        if not limits.session_timeout_ms_min <= timeout <= limits.session_timeout_ms_max:
            return reply(caller, join_refused(Code.INVALID_SESSION_TIMEOUT, request.member_id))
        if size > limits.member_metadata_bytes_max:
            return reply(caller, join_refused(Code.INVALID_REQUEST, request.member_id))
        new_id = f"{request.group_instance_id or caller.client_id}-{uuid}"
        if len(new_id) > NAME_BYTES_MAX or len(new_id.encode()) > NAME_BYTES_MAX:
            return reply(caller, join_refused(Code.INVALID_REQUEST, request.member_id))
        group = self._find(request.group_id)
        if isinstance(group, MixedGroup):
            outcome = self._join_mixed(group, request, caller, new_id, now)
            return replace(outcome, answers=(*outcome.answers, *group.take_released()))
        if group is None:
            if request.member_id:
                return reply(caller, join_refused(Code.UNKNOWN_MEMBER_ID, request.member_id))
            group = self._new(request.group_id)
            self._groups[request.group_id] = group
        group.join(request, caller, new_id, now)
        return self._take(group)

    def _join_mixed(
        self, group: MixedGroup, request: JoinGroupRequest, caller: Caller, new_id: str, now: Now
    ) -> Outcome[Record]:
        if not group.size:
            return self._join_emptied(group, request, caller, new_id, now)
        try:
            group.check_classic(request)
            if (
                not request.member_id
                and request.group_instance_id is None
                and caller.version >= MEMBER_ID_REQUIRED_SINCE
            ):
                group.check_room()
                return reply(caller, join_refused(Code.MEMBER_ID_REQUIRED, new_id))
            twin = None if request.member_id else group.kept.by_instance(request.group_instance_id)
            if twin is not None and twin.classic is None and self._may_downgrade(group, [twin]):
                # It takes the place of the last member of the new protocol.
                before, classic = self._downgraded(group, [twin], now)
                classic.join(request, caller, new_id, now)
                if classic.size > 1:
                    classic.rebalance(now)
                outcome = classic.take()
                return replace(outcome, records=(*before, *outcome.records))
            records, response = group.join(request, caller, request.member_id or new_id, now)
        except KafkaError as error:
            return reply(caller, join_refused(error.code, request.member_id))
        return Outcome(tuple(records), (Answer(caller.token, response),), group.id)

    def _join_emptied(
        self, group: MixedGroup, request: JoinGroupRequest, caller: Caller, new_id: str, now: Now
    ) -> Outcome[Record]:
        """Nobody is left in it: it becomes a classic group, whose generations go on where its
        epochs were."""
        if request.member_id:
            return reply(caller, join_refused(Code.UNKNOWN_MEMBER_ID, request.member_id))
        before, classic = self._downgraded(group, [], now)
        classic.join(request, caller, new_id, now)
        outcome = classic.take()
        return replace(outcome, records=(*before, *outcome.records))

    def sync(self, request: SyncGroupRequest, caller: Caller, now: Now) -> Outcome[Record]:
        group = self._find(request.group_id)
        if not request.group_id:
            return reply(caller, sync_refused(Code.INVALID_GROUP_ID))
        if group is None:
            return reply(caller, sync_refused(Code.UNKNOWN_MEMBER_ID))
        if isinstance(group, MixedGroup):
            try:
                return reply(caller, group.sync(request, now))
            except KafkaError as error:
                return reply(caller, sync_refused(error.code))
        group.sync(request, caller, now)
        return self._take(group)

    def heartbeat(self, request: HeartbeatRequest, caller: Caller, now: Now) -> Outcome[Record]:
        group = self._groups.get(request.group_id)
        records: list[ConsumerRecord] = []
        if group is None:
            code = Code.UNKNOWN_MEMBER_ID if request.group_id else Code.INVALID_GROUP_ID
        elif isinstance(group, MixedGroup):
            try:
                records, code = group.classic_heartbeat(request, now)
            except KafkaError as error:
                code = error.code
        else:
            code = group.heartbeat(
                request.member_id, request.group_instance_id, request.generation_id, now
            )
        answer = Answer(caller.token, _HEARTBEATS[code])
        return Outcome(tuple(records), (answer,), request.group_id, at_once=not records)

    def leave(self, request: LeaveGroupRequest, caller: Caller, now: Now) -> Outcome[Record]:
        if not request.group_id:
            return reply(caller, LeaveGroupResponse(error_code=Code.INVALID_GROUP_ID))
        several = caller.version >= LEAVE_SEVERAL_SINCE
        identities = request.members
        if not several:
            identities = [MemberIdentity(member_id=request.member_id)]
        group = self._find(request.group_id)
        leaving: dict[str, ConsumerMember] = {}
        if group is None:
            codes = [Code.UNKNOWN_MEMBER_ID] * len(identities)
        elif isinstance(group, MixedGroup):
            codes = [self._leaves(group, identity, leaving, now) for identity in identities]
        else:
            codes = group.leave(identities, now)
        if several:
            response = LeaveGroupResponse(
                error_code=Code.NONE,
                members=[
                    MemberResponse(
                        member_id=identity.member_id,
                        group_instance_id=identity.group_instance_id,
                        error_code=code,
                    )
                    for identity, code in zip(identities, codes, strict=True)
                ],
            )
        else:
            response = LeaveGroupResponse(error_code=codes[0])
        if isinstance(group, MixedGroup):
            answer = Answer(caller.token, response)
            return self._without(group, list(leaving.values()), (answer,), now)
        return and_reply(caller, response, None if group is None else self._take(group))

    def _leaves(
        self,
        group: MixedGroup,
        identity: MemberIdentity,
        leaving: dict[str, ConsumerMember],
        now: Now,
    ) -> Code:
        try:
            member = group.identified(identity)
        except KafkaError as error:
            return error.code
        if member.id not in leaving:
            leaving[member.id] = member
            group.left(member, identity.reason, now)
        return Code.NONE

"""Decides the membership of one classic group: who is in, who is out, who may speak.

In: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, deadlines. Out: answers, and records to keep.
Always: a request that waits is answered when its phase ends, its member goes, or the group does;
only a member of the current generation is told anything but to rejoin.
Not here: the phases of a rebalance (rebalance.py), who sits where (roster.py), which group is
which, offsets (shard.py).
"""

from barnabas.coordinators.groups.member import (
    Caller,
    Member,
    TimerKey,
    bytes_of,
    protocols_of,
)
from barnabas.coordinators.groups.rebalance import Rebalance
from barnabas.coordinators.groups.replies import join_refused, sync_refused
from barnabas.coordinators.groups.room import names_weight
from barnabas.coordinators.groups.states import State
from barnabas.coordinators.groups.story import Kind, difference, is_late_poll
from barnabas.coordinators.groups.subscription import topics_of
from barnabas.coordinators.runtime import Now
from barnabas.coordinators.timers import Timer
from barnabas.model.errors import Code
from barnabas.wire.messages.join_group import JoinGroupRequest
from barnabas.wire.messages.leave_group import MemberIdentity
from barnabas.wire.messages.sync_group import SyncGroupRequest

MEMBER_ID_REQUIRED_SINCE = 4
SKIP_ASSIGNMENT_SINCE = 9
PENDING_MAX = 10_000  # ids given out that nobody has come back with


class ClassicGroup(Rebalance):
    """One group. Verbs collect records and answers; `take` hands them over."""

    # JoinGroup

    def join(self, request: JoinGroupRequest, caller: Caller, new_id: str, now: Now) -> None:
        """`new_id`: the id for a member that has none yet."""
        member_id = request.member_id
        if not self._has_room(member_id):
            self._forget(member_id)
            self._answer(caller, join_refused(Code.GROUP_MAX_SIZE_REACHED))
            if self.state is State.PREPARING:
                self.rebalance(now)
        elif self._brings_too_much(request, new_id):
            self._answer(caller, join_refused(Code.COORDINATOR_NOT_AVAILABLE, member_id))
        elif not self._supports(request):
            self._answer(caller, join_refused(Code.INCONSISTENT_GROUP_PROTOCOL, member_id))
        elif not member_id:
            self._join_new(request, caller, new_id, now)
        elif member_id in self.pending and request.group_instance_id is None:
            self._add(request, caller, member_id, now)
        else:
            code = self.roster.check(member_id, request.group_instance_id)
            if code:
                if code is Code.FENCED_INSTANCE_ID:
                    self._fenced(member_id, request.group_instance_id, now)
                self._answer(caller, join_refused(code, member_id))
            else:
                self._rejoin(self.roster.members[member_id], request, caller, now)

    def _join_new(self, request: JoinGroupRequest, caller: Caller, new_id: str, now: Now) -> None:
        if request.group_instance_id is not None:
            twin = self.roster.by_instance(request.group_instance_id)
            if twin is None:
                self._add(request, caller, new_id, now)
            else:
                self._replace(twin, request, caller, new_id, now)
        elif caller.version >= MEMBER_ID_REQUIRED_SINCE and len(self.pending) >= PENDING_MAX:
            self._answer(caller, join_refused(Code.GROUP_MAX_SIZE_REACHED))
        elif caller.version >= MEMBER_ID_REQUIRED_SINCE:
            timer = self.pending[new_id] = Timer(TimerKey("session", self.id, new_id))
            self._timers.set(timer, now.ms + request.session_timeout_ms)
            self._answer(caller, join_refused(Code.MEMBER_ID_REQUIRED, new_id))
        else:
            self._add(request, caller, new_id, now)

    def _add(self, request: JoinGroupRequest, caller: Caller, id_: str, now: Now) -> None:
        pending = self.pending.take(id_)
        if pending is not None:
            pending.stop()
        member = Member.joined(id_, request, caller)
        member.is_new = True
        member.heard_ms = now.ms
        self.roster.add(member, request.protocol_type)
        self.roster.wait(member, caller)
        self._newcomers = True
        self._timers.set(member.session, now.ms + self.limits.new_member_join_ms)
        self._happened(self._cause(Kind.JOINED, member, request.reason), now)
        self.story.arrived(member.id, member.client_id, member.client_host, now)
        self.rebalance(now)

    def _replace(
        self, old: Member, request: JoinGroupRequest, caller: Caller, new_id: str, now: Now
    ) -> None:
        """A static member is back. Whoever still uses its old id is fenced."""
        leader_before = self.roster.leader
        self._answer_waits(old, Code.FENCED_INSTANCE_ID, old.id)
        old.session.stop()
        member = Member.joined(new_id, request, caller)
        member.assignment = old.assignment
        self.roster.replace(old, member)
        if self._unsynced.pop(old.id, 0) is None:
            self._unsynced[member.id] = None
        self._heard(member, now)
        if self.state is State.STABLE and self.roster.vote() == self.protocol:
            # Its share is still its own: no rebalance, only a new name in the log.
            self.story.noted(self._cause(Kind.REPLACED, member, request.reason), now)
            self._keep({m.id: m.assignment for m in self.roster.members.values()})
            leads = self.roster.leader == member.id
            skip = leads and caller.version >= SKIP_ASSIGNMENT_SINCE
            reply = self._joined(member, with_members=skip, skip_assignment=skip)
            if leads and not skip:
                # Told that it leads, an old client would assign anew: it hears the old id.
                reply = self._joined(member, leader=leader_before)
            self._answer(caller, reply)
            return
        self.roster.wait(member, caller)
        self._happened(self._cause(Kind.REPLACED, member, request.reason), now)
        self.story.arrived(member.id, member.client_id, member.client_host, now)
        self.rebalance(now)

    def _rejoin(self, member: Member, request: JoinGroupRequest, caller: Caller, now: Now) -> None:
        same = member.says_the_same(request)
        leads = self.roster.leader == member.id
        if (self.state is State.COMPLETING and same) or (
            self.state is State.STABLE and same and not leads
        ):
            # It may have missed our first answer: the generation is still the same.
            self._answer(caller, self._joined(member, with_members=leads))
            return
        self._tell_rejoin(member, request, now)
        if member.joining is not None:
            self._answer(member.joining, join_refused(Code.REBALANCE_IN_PROGRESS, member.id))
        member.heard_ms = now.ms
        member.connection = caller.connection
        self.roster.update(member, request)
        self.roster.wait(member, caller)
        self.story.arrived(member.id, member.client_id, member.client_host, now)
        self.rebalance(now)

    def _tell_rejoin(self, member: Member, request: JoinGroupRequest, now: Now) -> None:
        """A member that rejoins because it was told to is no cause, whatever it owns by now."""
        if member.resubscribes(request, self.protocol_type):
            before = topics_of(member.protocols.get(self.protocol or "", b""))
            after = topics_of(_metadata(request, self.protocol))
            added, dropped = difference(before, after)
            cause = self._cause(Kind.RESUBSCRIBED, member, request.reason, added, dropped)
        elif self.state is State.PREPARING:
            return
        else:
            leads = self.roster.leader == member.id
            kind = Kind.LEADER_REJOINED if leads else Kind.METADATA_CHANGED
            cause = self._cause(kind, member, request.reason)
        self._happened(cause, now)

    def _has_room(self, member_id: str) -> bool:
        limit = self.limits.members_max
        member = self.roster.members.get(member_id)
        if self.state is State.PREPARING:
            # Counted by who has come back: a lowered limit turns away the last, not the first.
            is_back = member is not None and member.joining is not None
            return is_back or self.roster.joining < limit
        return self.state is State.EMPTY or member is not None or len(self.roster) < limit

    def _brings_too_much(self, request: JoinGroupRequest, new_id: str) -> bool:
        """One that is in stays in, as long as it does not bring more than before."""
        size = bytes_of(protocols_of(request.protocols))
        member = self.roster.members.get(request.member_id)
        if member is None:
            return self.limits.room.lacks(size + names_weight(new_id))
        more = size - bytes_of(member.protocols)
        return more > 0 and self.limits.room.lacks(more)

    def _supports(self, request: JoinGroupRequest) -> bool:
        if self.state is State.EMPTY:
            return bool(request.protocol_type and request.protocols)
        if not self.roster.members:
            return bool(request.protocols) and self.roster.protocol_type == request.protocol_type
        return self.roster.supports(request.protocol_type, (p.name for p in request.protocols))

    # SyncGroup, Heartbeat, LeaveGroup

    def sync(self, request: SyncGroupRequest, caller: Caller, now: Now) -> None:
        code = self.roster.check(request.member_id, request.group_instance_id)
        if not code:
            code = self._check_sync(request)
        if code:
            self._answer(caller, sync_refused(code))
            return
        member = self.roster.members[request.member_id]
        self._unsynced.pop(member.id, None)
        if not self._unsynced:
            self._sync_timer.stop()
        if self.state is State.STABLE:
            self._answer(caller, self._synced(member.assignment))
            return
        if member.syncing is not None:
            self._answer(member.syncing, sync_refused(Code.REBALANCE_IN_PROGRESS))
        member.syncing = caller
        if self.roster.leader == member.id:
            given = {a.member_id: bytes(a.assignment) for a in request.assignments}
            self._assign({id_: given.get(id_, b"") for id_ in self.roster.members}, now)

    def _check_sync(self, request: SyncGroupRequest) -> Code:
        if request.generation_id != self.generation:
            return Code.ILLEGAL_GENERATION
        if (request.protocol_type or self.roster.protocol_type) != self.roster.protocol_type or (
            request.protocol_name or self.protocol
        ) != self.protocol:
            return Code.INCONSISTENT_GROUP_PROTOCOL
        return Code.REBALANCE_IN_PROGRESS if self.state is State.PREPARING else Code.NONE

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int, now: Now) -> Code:
        code = self.roster.check(member_id, instance_id)
        if code:
            if code is Code.FENCED_INSTANCE_ID:
                self._fenced(member_id, instance_id, now)
            return code
        if generation != self.generation:
            return Code.ILLEGAL_GENERATION
        self._heard(self.roster.members[member_id], now)
        return Code.REBALANCE_IN_PROGRESS if self.state is State.PREPARING else Code.NONE

    def check_commit(self, member_id: str, instance_id: str | None, generation: int) -> Code:
        """May this member, or with -1 and no name somebody outside the group, commit offsets?"""
        if generation < 0 and self.state is State.EMPTY:
            return Code.NONE
        if generation < 0 and not member_id and instance_id is None:
            return Code.UNKNOWN_MEMBER_ID
        code = self.roster.check(member_id, instance_id)
        if code:
            return code
        if generation != self.generation:
            return Code.ILLEGAL_GENERATION
        return Code.REBALANCE_IN_PROGRESS if self.state is State.COMPLETING else Code.NONE

    def committed(self, member_id: str, now: Now) -> None:
        """A commit shows life as a heartbeat does."""
        member = self.roster.members.get(member_id)
        if member is not None:
            self._heard(member, now)

    def leave(self, identities: list[MemberIdentity], now: Now) -> list[Code]:
        """One code for each."""
        members = len(self.roster)
        codes = [self._leave_one(identity, now) for identity in identities]
        if len(self.roster) < members or self.state is State.PREPARING:
            self.rebalance(now)
        return codes

    def _leave_one(self, identity: MemberIdentity, now: Now) -> Code:
        member_id, instance_id = identity.member_id, identity.group_instance_id
        if not member_id:  # an administrator removes a static member
            member = self.roster.by_instance(instance_id)
            if member is None:
                return Code.UNKNOWN_MEMBER_ID
        elif (pending := self.pending.take(member_id)) is not None:
            pending.stop()
            return Code.NONE
        else:
            code = self.roster.check(member_id, instance_id)
            if code:
                return code
            member = self.roster.members[member_id]
        reason = identity.reason
        if is_late_poll(reason):
            allowed = member.rebalance_timeout_ms
            self._late(Kind.LATE_POLL, member, allowed, allowed, now)
        else:
            self._happened(self._cause(Kind.LEFT, member, reason), now)
        self._drop(member, Code.UNKNOWN_MEMBER_ID)
        return Code.NONE

    # Deadlines

    def session_expired(self, member_id: str, now: Now) -> None:
        if self.pending.take(member_id) is None:
            member = self.roster.members.get(member_id)
            if member is None or member.is_excused():
                return
            allowed = member.session_timeout_ms
            if member.joining is not None:
                allowed = self.limits.new_member_join_ms
            self._late(Kind.LATE_HEARTBEAT, member, now.ms - member.heard_ms, allowed, now)
            self._drop(member, Code.UNKNOWN_MEMBER_ID)
            if self.state is not State.PREPARING:
                self._prepare_rebalance(now)
                return
        if self.state is State.PREPARING and self._all_joined():
            self._complete_join(now)

    def join_expired(self, now: Now) -> None:
        """The join phase has lasted long enough, or the first rebalance's delay is over."""
        if self._initial is not None:
            delay, left = self._initial
            if self._newcomers and left:
                self._newcomers = False
                extra = min(self.limits.initial_rebalance_delay_ms, left)
                self._initial = (extra, max(0, left - delay))
                self._timers.set(self._join_timer, now.ms + extra)
                return
        self._complete_join(now)

    def sync_expired(self, now: Now) -> None:
        """Members that never asked for their share, the leader perhaps, are given up."""
        allowed = self.roster.rebalance_timeout_ms()
        for id_ in tuple(self._unsynced):
            member = self.roster.members[id_]
            self._late(Kind.LATE_SYNC, member, allowed, allowed, now)
            self._drop(member, Code.UNKNOWN_MEMBER_ID)
        self._prepare_rebalance(now)


def _metadata(request: JoinGroupRequest, protocol: str | None) -> bytes:
    return next((bytes(p.metadata) for p in request.protocols if p.name == protocol), b"")

"""The verbs of the new protocol: a member's heartbeat, and what becomes of the group by it.

In: ConsumerGroupHeartbeat, deadlines. Out: outcomes for the runtime.
Always: a group changes its protocol when the first member of the new one comes, and back when the
last has gone and others stay, where the policy allows it; it is one or the other in the log, in
one batch.
Not here: what a group decides (consumer.py), classic groups (classic_verbs.py).
"""

from msgspec.structs import replace

from barnabas.coordinators.groups.classic import ClassicGroup
from barnabas.coordinators.groups.classic_speakers import MixedGroup
from barnabas.coordinators.groups.consumer_member import AWAY, JOINING, LEAVING, ConsumerMember
from barnabas.coordinators.groups.consumer_state import ConsumerState
from barnabas.coordinators.groups.member import Caller
from barnabas.coordinators.groups.migration import downgrade, upgrade
from barnabas.coordinators.groups.records import GroupRecord, Record
from barnabas.coordinators.groups.registry import Registry, reply
from barnabas.coordinators.groups.replies import consumer_refused
from barnabas.coordinators.groups.story import Cause, Kind
from barnabas.coordinators.groups.subscription import CONSUMER
from barnabas.coordinators.groups.words import not_consumer_group
from barnabas.coordinators.runtime import Answer, Now, Outcome
from barnabas.model.errors import Code, InvalidRequest, KafkaError
from barnabas.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

OWN_MEMBER_ID_SINCE = 1  # members make up their ids themselves


class ConsumerVerbs(Registry):
    """Verbs take the request, who sent it, and the time."""

    def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller, uuid: str, now: Now
    ) -> Outcome[Record]:
        """`uuid`: random text for the id of a member that has none."""
        group = self._groups.get(request.group_id)
        if isinstance(group, MixedGroup):
            alive = group.alive(request, now)
            if alive is not None:
                return Outcome(answers=(Answer(caller.token, alive),))
        try:
            self._check_request(request, caller)
            if request.member_epoch < JOINING:
                return self._leave(request, caller, now)
            if not isinstance(group, MixedGroup):
                return self._first_of_its_kind(request, caller, uuid, now)
            records, response = group.heartbeat(request, caller, uuid, now)
        except KafkaError as error:
            return reply(caller, consumer_refused(error.code, error.detail))
        return Outcome(tuple(records), _answers(group, caller, response), request.group_id)

    def topics_changed(self, names: frozenset[str], *, of_names: bool) -> None:
        """Topics came, went or grew. `of_names`: patterns may stand for others than before."""
        for group in self._groups.values():
            if isinstance(group, MixedGroup) and not group.stale:
                group.stale = (of_names and bool(group.kept.by_regex)) or any(
                    group.subscribes_to(name) for name in names
                )

    def _check_request(self, request: ConsumerGroupHeartbeatRequest, caller: Caller) -> None:
        wrong = None
        epoch = request.member_epoch
        if not request.group_id.strip():
            wrong = "the group id is empty"
        elif not request.member_id.strip() and (
            caller.version >= OWN_MEMBER_ID_SINCE or epoch > JOINING or epoch == LEAVING
        ):
            wrong = "the member id is empty"
        elif request.instance_id is not None and not request.instance_id.strip():
            wrong = "the instance id is empty; leave it out"
        elif request.rack_id is not None and not request.rack_id.strip():
            wrong = "the rack id is empty; leave it out"
        elif epoch < AWAY:
            wrong = f"member epoch {epoch} is not valid; expected -2 or more"
        elif epoch == AWAY and request.instance_id is None:
            wrong = "member epoch -2 (leave and come back) requires a group.instance.id"
        elif epoch == JOINING:
            wrong = _wrong_with_join(request)
        names = request.subscribed_topic_names
        if names is not None and sum(map(len, names)) > self.limits.member_metadata_bytes_max:
            wrong = (
                f"the names of the {len(names)} subscribed topics have more than"
                f" {self.limits.member_metadata_bytes_max} characters together"
            )
        if wrong is not None:
            raise InvalidRequest(Code.INVALID_REQUEST, wrong)
        assignor = request.server_assignor
        if assignor is not None and assignor not in self.limits.consumer_assignors:
            raise InvalidRequest(
                Code.UNSUPPORTED_ASSIGNOR,
                f"there is no assignor {assignor[:100]!r}; expected one of "
                + ", ".join(self.limits.consumer_assignors),
            )

    # Groups that come into being, or change

    def _first_of_its_kind(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller, uuid: str, now: Now
    ) -> Outcome[Record]:
        """A group that is not in motion, not there yet, or a classic one."""
        found = self._find(request.group_id)
        if isinstance(found, MixedGroup):
            records, response = found.heartbeat(request, caller, uuid, now)
            return Outcome(tuple(records), _answers(found, caller, response), found.id)
        if request.member_epoch != JOINING:
            # Clients give up for good when their group is not found. One that was out for a while
            # and finds its group turned back had better rejoin, and turn it again.
            may_rejoin = found is not None and self.limits.consumer_upgrade
            raise InvalidRequest(
                Code.UNKNOWN_MEMBER_ID if may_rejoin else Code.GROUP_ID_NOT_FOUND,
                not_consumer_group(request.group_id, exists=found is not None),
            )
        before: list[Record] = []
        kept = ConsumerState(request.group_id)
        if found is not None:
            # Epochs go on where generations were: no number is ever used twice.
            kept.epoch = kept.target_epoch = found.generation
            if found.id in self.generations:
                before.append(GroupRecord(found.id, None))
            if found.size:
                self._check_upgrade(found)
                upgraded = upgrade(found, self.topics)
                for record in upgraded:
                    kept.replay(record)
                before += upgraded
        group = self._new_consumer(kept, None if found is None else found.story)
        records, response = group.heartbeat(request, caller, uuid, now)
        answers = list(_answers(group, caller, response))
        if found is not None:
            if found.size:
                found.story.noted(Cause(Kind.CONVERTED), now)
            found.end(Code.REBALANCE_IN_PROGRESS)
            answers += found.take().answers
        group.loaded(now)
        self._groups[group.id] = group
        return Outcome((*before, *records), tuple(answers), group.id)

    def _check_upgrade(self, group: ClassicGroup) -> None:
        why = None
        if not self.limits.consumer_upgrade:
            why = "group.consumer.migration.policy does not allow it"
        elif group.protocol_type != CONSUMER:
            why = f"its protocol type is {group.protocol_type!r}, not 'consumer'"
        elif group.size > self.limits.consumer_members_max:
            why = "it has more members than group.consumer.max.size"
        if why is not None:
            raise InvalidRequest(
                Code.GROUP_ID_NOT_FOUND,
                f"group {group.id!r} uses the classic protocol and has members, and cannot change"
                f" to group.protocol=consumer: {why}",
            )

    # Members that go

    def _leave(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller, now: Now
    ) -> Outcome[Record]:
        group = self._find(request.group_id)
        if not isinstance(group, MixedGroup):
            raise InvalidRequest(
                Code.GROUP_ID_NOT_FOUND,
                not_consumer_group(request.group_id, exists=group is not None),
            )
        member = group.leaving(request)
        response = ConsumerGroupHeartbeatResponse(
            error_code=0,
            member_id=member.id,
            member_epoch=request.member_epoch,
            heartbeat_interval_ms=0,
        )
        answer = Answer(caller.token, response)
        if request.member_epoch == AWAY:
            return Outcome(tuple(group.away(member)), (answer,), group.id)
        group.left(member, None, now)
        return self._without(group, [member], (answer,), now)

    def _without(
        self,
        group: MixedGroup,
        members: list[ConsumerMember],
        answers: tuple[Answer, ...],
        now: Now,
    ) -> Outcome[Record]:
        """These members go; if only classic ones stay, the group is a classic one again."""
        if not members:
            return Outcome(answers=answers)
        outcome = self._removed(group, members, answers, now)
        return replace(outcome, answers=(*outcome.answers, *group.take_released()))

    def _removed(
        self,
        group: MixedGroup,
        members: list[ConsumerMember],
        answers: tuple[Answer, ...],
        now: Now,
    ) -> Outcome[Record]:
        stay = group.size - len(members)
        if stay and self._may_downgrade(group, members):
            records, classic = self._downgraded(group, members, now)
            classic.rebalance(now)
            more = classic.take()
            return Outcome((*records, *more.records), (*answers, *more.answers), group.id)
        records = [*group.remove(members)]
        if not stay:
            group.emptied(now)
        return Outcome(tuple(records), answers, group.id)

    def _may_downgrade(self, group: MixedGroup, leaving: list[ConsumerMember]) -> bool:
        stay = group.size - len(leaving)
        classic = group.kept.classic - sum(member.classic is not None for member in leaving)
        return (
            self.limits.consumer_downgrade and classic == stay and stay <= self.limits.members_max
        )

    def _downgraded(
        self, group: MixedGroup, leaving: list[ConsumerMember], now: Now
    ) -> tuple[list[Record], ClassicGroup]:
        """The records, and the classic group, in motion already."""
        records, value = downgrade(group.kept, leaving, self.topics, now)
        group.end(Code.UNKNOWN_MEMBER_ID)
        classic = ClassicGroup.kept(group.id, value, self.limits, self._timers, self.chronicle)
        classic.story = group.story
        classic.story.happened(Cause(Kind.CONVERTED), now)
        classic.loaded(now)
        self._groups[group.id] = classic
        return records, classic


def _answers(
    group: MixedGroup, caller: Caller, response: ConsumerGroupHeartbeatResponse | None
) -> tuple[Answer, ...]:
    """To the member, unless its answer waits for targets, and to those that wait no longer."""
    own = () if response is None else (Answer(caller.token, response),)
    return (*own, *group.take_released())


def _wrong_with_join(request: ConsumerGroupHeartbeatRequest) -> str | None:
    if request.rebalance_timeout_ms == -1:
        return "a member that joins must send its rebalance timeout"
    if request.topic_partitions is None or request.topic_partitions:
        return "a member that joins must send an empty list of owned partitions"
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        return "a member that joins must send its topic names or a topic pattern"
    return None

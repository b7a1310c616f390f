"""The groups of one partition of __consumer_offsets: their state, and every verb on them.

In: requests about groups, records read back, deadlines. Out: outcomes for the runtime.
Always: what the log says (registry.py) changes by `replay` alone.
Not here: the verbs of members (classic_verbs.py, consumer_verbs.py) and on offsets
(offset_verbs.py), which partition a group belongs to (records.py), the wire's versions of a
request where they differ only in form (broker/handlers).
"""

from collections.abc import Iterable, Sequence

from barnabas.coordinators.groups import records as records_
from barnabas.coordinators.groups.attendance import TARGET
from barnabas.coordinators.groups.classic import ClassicGroup
from barnabas.coordinators.groups.classic_speakers import MixedGroup
from barnabas.coordinators.groups.classic_verbs import ClassicVerbs
from barnabas.coordinators.groups.member import Caller
from barnabas.coordinators.groups.offset_verbs import OffsetVerbs
from barnabas.coordinators.groups.records import OffsetRecord, Record
from barnabas.coordinators.groups.replies import not_written
from barnabas.coordinators.groups.states import State
from barnabas.coordinators.groups.story import Cause, Kind
from barnabas.coordinators.runtime import Answer, Now, Outcome
from barnabas.model.errors import Code
from barnabas.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse


class GroupShard(ClassicVerbs, OffsetVerbs):
    """What the runtime asks of a shard, and what administrators do."""

    def encode(self, records: Sequence[Record]) -> list[tuple[bytes, bytes | None]]:
        return records_.encode(records)

    def decode(self, key: bytes, value: bytes | None) -> Record | None:
        return records_.decode(key, value)

    def loaded(self, now: Now) -> None:
        for id_, value in self.generations.items():
            if value.members:
                self._revive(id_).loaded(now)
        for id_, kept in self.consumers.items():
            if kept.members:
                self._revive(id_).loaded(now)
        self._timers.set(self._retention, now.ms + self.limits.offsets_retention_check_ms)

    def unloaded(self, parked: tuple[Answer, ...]) -> tuple[Answer, ...]:
        answers = [
            Answer(token, not_written(response, Code.NOT_COORDINATOR)) for token, response in parked
        ]
        for group in self._groups.values():
            if isinstance(group, ClassicGroup):
                group.end(Code.NOT_COORDINATOR)
                answers += group.take().answers
            else:
                group.end(Code.NOT_COORDINATOR)
                answers += group.take_released()
        self._groups.clear()
        self.limits.room.used -= sum(kept.weight for kept in self.consumers.values())
        return tuple(answers)

    def refused(self, outcome: Outcome[Record], code: Code, now: Now) -> tuple[Answer, ...]:
        """The group becomes again what the log says it is; classic members rejoin."""
        answers = [
            Answer(token, not_written(response, code)) for token, response in outcome.answers
        ]
        if outcome.divisible and not answers:
            self._retention_refused(now)
        if all(isinstance(record, OffsetRecord) for record in outcome.records):
            return tuple(answers)
        group = self._groups.pop(outcome.subject, None)
        if group is None:
            return tuple(answers)
        if isinstance(group, ClassicGroup):
            group.end(Code.COORDINATOR_NOT_AVAILABLE)
            answers += group.take().answers
        else:
            group.end(Code.COORDINATOR_NOT_AVAILABLE)
            answers += group.take_released()
        if outcome.subject in self.generations or outcome.subject in self.consumers:
            revived = self._revive(outcome.subject)
            revived.story = group.story
            revived.story.happened(Cause(Kind.NOT_STORED, reason=code.name), now)
            revived.loaded(now)
        return tuple(answers)

    def next_deadline(self) -> int | None:
        return self._timers.next_deadline()

    def due(self, now: Now) -> Outcome[Record] | None:
        timer = self._timers.pop_due(now.ms)
        if timer is None:
            return None
        kind, group_id, member_id = timer.key
        if kind == "retention":
            return self._check_retention(now)
        group = self._groups.get(group_id)
        if group is None:
            return Outcome()
        if isinstance(group, MixedGroup):
            if kind == TARGET:
                records, answers = group.target_due(member_id, now)
                return Outcome(tuple(records), answers, group.id)
            member = group.due(kind, member_id, now)
            return self._without(group, [] if member is None else [member], (), now)
        if kind == "session":
            group.session_expired(member_id, now)
        elif kind == "join":
            group.join_expired(now)
        else:
            group.sync_expired(now)
        return self._take(group)

    # Administration

    def delete(self, group_ids: Iterable[str], caller: Caller) -> Outcome[Record]:
        """Empty groups, with their offsets; each succeeds or fails on its own."""
        records: list[Record] = []
        results = []
        for group_id in dict.fromkeys(group_ids):
            group = self._find(group_id)
            code = Code.NONE
            if group is None:
                code = Code.GROUP_ID_NOT_FOUND
            elif group.size or (isinstance(group, ClassicGroup) and group.state is not State.EMPTY):
                code = Code.NON_EMPTY_GROUP
            else:
                records += self.offsets.forget_group(group_id)
                records += self._end_of(group_id)
            results.append(DeletableGroupResult(group_id=group_id, error_code=code))
        response = DeleteGroupsResponse(results=results)
        # A group's offsets before the group itself: what is left of it can be deleted again.
        return Outcome(tuple(records), (Answer(caller.token, response),), divisible=True)

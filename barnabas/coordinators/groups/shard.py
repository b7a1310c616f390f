"""The groups of one partition of __consumer_offsets: their state, and every verb on them.

In: requests about groups, records read back, deadlines. Out: outcomes for the runtime.
Always: `generations` and `offsets` are exactly what the log says, changed by `replay` alone.
A group's members and timers (`ClassicGroup`) are made from them when first needed.
Not here: which partition a group belongs to (records.py), the wire's versions of a request
where they differ only in form (broker/handlers).
"""

from collections.abc import Iterable
from itertools import islice

from barnabas.coordinators.groups import offsets as offsets_
from barnabas.coordinators.groups import records as records_
from barnabas.coordinators.groups.chronicle import Chronicle
from barnabas.coordinators.groups.classic import ClassicGroup
from barnabas.coordinators.groups.limits import Limits
from barnabas.coordinators.groups.member import Caller, TimerKey
from barnabas.coordinators.groups.offsets import Offsets
from barnabas.coordinators.groups.records import (
    GroupMetadataValue,
    GroupRecord,
    OffsetRecord,
    Record,
)
from barnabas.coordinators.groups.replies import (
    commit_refused,
    join_refused,
    not_written,
    sync_refused,
)
from barnabas.coordinators.groups.states import State
from barnabas.coordinators.groups.story import Cause, Kind, Story
from barnabas.coordinators.groups.subscription import CONSUMER
from barnabas.coordinators.runtime import Answer, Now, Outcome
from barnabas.coordinators.timers import Timer, Timers
from barnabas.model.errors import Code
from barnabas.wire.codec import Message
from barnabas.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.join_group import JoinGroupRequest
from barnabas.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from barnabas.wire.messages.offset_commit import OffsetCommitRequest
from barnabas.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchRequestTopics,
    OffsetFetchResponseTopics,
)
from barnabas.wire.messages.sync_group import SyncGroupRequest

LEAVE_SEVERAL_SINCE = 3
GROUP_ID_NOT_FOUND_SINCE = 9  # of OffsetCommit
GROUPS_PER_SLICE = 500
RECORDS_PER_SLICE = 1_000
SLICE_PAUSE_MS = 10

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


class GroupShard:
    """Verbs take the request, who sent it, and the time."""

    def __init__(self, limits: Limits, chronicle: Chronicle | None = None) -> None:
        self.limits = limits
        self.chronicle = chronicle or Chronicle()
        self.generations: dict[str, GroupMetadataValue] = {}
        self.offsets = Offsets()
        self._groups: dict[str, ClassicGroup] = {}
        self._timers: Timers[TimerKey] = Timers()
        self._retention: Timer[TimerKey] = Timer(TimerKey("retention"))
        self._to_check: list[str] = []

    # The runtime's side

    def encode(self, record: Record) -> tuple[bytes, bytes | None]:
        return records_.encode(record)

    def decode(self, key: bytes, value: bytes | None) -> Record | None:
        return records_.decode(key, value)

    def replay(self, record: Record) -> None:
        group = self._groups.get(record.group)
        if isinstance(record, OffsetRecord):
            self.offsets.replay(record)
            if record.value is None and group is not None:
                self._drop_if_nothing(group)
            return
        if record.value is None:
            self.generations.pop(record.group, None)
            if group is not None:
                del self._groups[record.group]
                group.end(Code.COORDINATOR_NOT_AVAILABLE)
        else:
            self.generations[record.group] = record.value
            if group is not None:
                group.replayed(record.value)

    def loaded(self, now: Now) -> None:
        for id_, value in self.generations.items():
            if value.members:
                self._revive(id_).loaded(now)
        self._timers.set(self._retention, now.ms + self.limits.offsets_retention_check_ms)

    def unloaded(self) -> tuple[Answer, ...]:
        answers: list[Answer] = []
        for group in self._groups.values():
            group.end(Code.NOT_COORDINATOR)
            answers += group.take().answers
        self._groups.clear()
        return tuple(answers)

    def refused(self, outcome: Outcome[Record], code: Code, now: Now) -> tuple[Answer, ...]:
        """The group becomes again what the log says it is; its members rejoin."""
        answers = [
            Answer(token, not_written(response, code)) for token, response in outcome.answers
        ]
        if any(isinstance(record, GroupRecord) for record in outcome.records):
            group = self._groups.pop(outcome.subject, None)
            if group is not None:
                group.end(Code.COORDINATOR_NOT_AVAILABLE)
                answers += group.take().answers
                if outcome.subject in self.generations:
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
        if kind == "session":
            group.session_expired(member_id, now)
        elif kind == "join":
            group.join_expired(now)
        else:
            group.sync_expired(now)
        return self._take(group)

    # Membership

    def join(
        self, request: JoinGroupRequest, caller: Caller, uuid: str, now: Now
    ) -> Outcome[Record]:
        """`uuid`: random text for the id of a member that has none."""
        limits = self.limits
        timeout = request.session_timeout_ms
        size = sum(len(protocol.metadata) for protocol in request.protocols)
        if not request.group_id:
            return _reply(caller, join_refused(Code.INVALID_GROUP_ID, request.member_id))
        if not limits.session_timeout_ms_min <= timeout <= limits.session_timeout_ms_max:
            return _reply(caller, join_refused(Code.INVALID_SESSION_TIMEOUT, request.member_id))
        if size > limits.member_metadata_bytes_max:
            return _reply(caller, join_refused(Code.INVALID_REQUEST, request.member_id))
        group = self._find(request.group_id)
        if group is None:
            if request.member_id:
                return _reply(caller, join_refused(Code.UNKNOWN_MEMBER_ID, request.member_id))
            group = self._new(request.group_id)
            self._groups[request.group_id] = group
        new_id = f"{request.group_instance_id or caller.client_id}-{uuid}"
        group.join(request, caller, new_id, now)
        return self._take(group)

    def sync(self, request: SyncGroupRequest, caller: Caller, now: Now) -> Outcome[Record]:
        group = self._find(request.group_id)
        if not request.group_id:
            return _reply(caller, sync_refused(Code.INVALID_GROUP_ID))
        if group is None:
            return _reply(caller, sync_refused(Code.UNKNOWN_MEMBER_ID))
        group.sync(request, caller, now)
        return self._take(group)

    def heartbeat(self, request: HeartbeatRequest, caller: Caller, now: Now) -> Outcome[Record]:
        group = self._groups.get(request.group_id)
        if group is not None:
            code = group.heartbeat(
                request.member_id, request.group_instance_id, request.generation_id, now
            )
        else:
            code = Code.UNKNOWN_MEMBER_ID if request.group_id else Code.INVALID_GROUP_ID
        return Outcome(answers=(Answer(caller.token, _HEARTBEATS[code]),), at_once=True)

    def leave(self, request: LeaveGroupRequest, caller: Caller, now: Now) -> Outcome[Record]:
        if not request.group_id:
            return _reply(caller, LeaveGroupResponse(error_code=Code.INVALID_GROUP_ID))
        several = caller.version >= LEAVE_SEVERAL_SINCE
        identities = request.members
        if not several:
            identities = [MemberIdentity(member_id=request.member_id)]
        group = self._find(request.group_id)
        if group is None:
            codes = [Code.UNKNOWN_MEMBER_ID] * len(identities)
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
        return _and_reply(caller, response, None if group is None else self._take(group))

    # Offsets

    def commit(self, request: OffsetCommitRequest, caller: Caller, now: Now) -> Outcome[Record]:
        """Topics by name: their ids, if the request had them, stay as they are."""
        generation = request.generation_id_or_member_epoch
        group = self._find(request.group_id)
        if group is None:
            code = Code.NONE
            if generation >= 0:
                by_name = caller.version >= GROUP_ID_NOT_FOUND_SINCE
                code = Code.GROUP_ID_NOT_FOUND if by_name else Code.ILLEGAL_GENERATION
        else:
            code = group.check_commit(request.member_id, request.group_instance_id, generation)
        if code:
            return _reply(caller, commit_refused(request.topics, code))
        if group is not None:
            group.committed(request.member_id, now)
        limit = self.limits.offset_metadata_chars_max
        records, response = offsets_.commit(request, limit, now)
        return Outcome(tuple(records), (Answer(caller.token, response),), request.group_id)

    def fetch(
        self, group_id: str, topics: list[OffsetFetchRequestTopics] | None
    ) -> list[OffsetFetchResponseTopics]:
        return offsets_.fetch(self.offsets, group_id, topics)

    def delete_offsets(self, request: OffsetDeleteRequest, caller: Caller) -> Outcome[Record]:
        group = self._find(request.group_id)
        code = Code.NONE
        if group is None:
            code = Code.GROUP_ID_NOT_FOUND
        elif group.state is not State.EMPTY and group.roster.protocol_type != CONSUMER:
            code = Code.NON_EMPTY_GROUP
        if group is None or code:
            return _reply(caller, OffsetDeleteResponse(error_code=code, topics=[]))
        records: list[Record] = []
        topics = []
        for topic in request.topics:
            code = Code.NONE
            if group.subscribes_to(topic.name):
                code = Code.GROUP_SUBSCRIBED_TO_TOPIC
            indexes = [partition.partition_index for partition in topic.partitions]
            if not code:
                records += (
                    OffsetRecord(request.group_id, topic.name, index, None)
                    for index in indexes
                    if self.offsets.find(request.group_id, topic.name, index) is not None
                )
            topics.append(
                OffsetDeleteResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetDeleteResponsePartition(partition_index=index, error_code=code)
                        for index in indexes
                    ],
                )
            )
        response = OffsetDeleteResponse(error_code=Code.NONE, topics=topics)
        return Outcome(tuple(records), (Answer(caller.token, response),), request.group_id)

    def topic_deleted(self, topic: str) -> Outcome[Record]:
        """Offsets of a topic that is gone say nothing about the next one of its name.

        A slice of them, to be asked for again until none is left."""
        doomed = (
            record
            for group_id in self.offsets.by_group
            for record in self.offsets.forget_topic(group_id, topic)
        )
        return Outcome(tuple(islice(doomed, RECORDS_PER_SLICE)))

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
            elif group.state is not State.EMPTY:
                code = Code.NON_EMPTY_GROUP
            else:
                records += self.offsets.forget_group(group_id)
                records.append(GroupRecord(group_id, None))
            results.append(DeletableGroupResult(group_id=group_id, error_code=code))
        response = DeleteGroupsResponse(results=results)
        return Outcome(tuple(records), (Answer(caller.token, response),))

    def groups(self) -> Iterable[ClassicGroup]:
        """All of them, in the order of their names. To look at."""
        for group_id in sorted(self._ids()):
            group = self.group(group_id)
            if group is not None:
                yield group

    def live(self) -> list[str]:
        """The groups that have members."""
        return [id_ for id_, group in self._groups.items() if group.roster.members]

    def group(self, group_id: str) -> ClassicGroup | None:
        """To look at. Looking does not bring a group to life."""
        return self._groups.get(group_id) or self._remembered(group_id)

    # Inside

    def _ids(self) -> dict[str, None]:
        return dict.fromkeys((*self._groups, *self.generations, *self.offsets.by_group))

    def _find(self, group_id: str) -> ClassicGroup | None:
        group = self._groups.get(group_id)
        if group is None and (group_id in self.generations or group_id in self.offsets.by_group):
            group = self._revive(group_id)
        return group

    def _revive(self, group_id: str) -> ClassicGroup:
        group = self._remembered(group_id)
        assert group is not None
        self._groups[group_id] = group
        return group

    def _remembered(self, group_id: str) -> ClassicGroup | None:
        """As the log has it; a group that only ever had offsets is an empty one."""
        value = self.generations.get(group_id)
        if value is not None:
            return ClassicGroup.kept(group_id, value, self.limits, self._timers, self.chronicle)
        return self._new(group_id) if group_id in self.offsets.by_group else None

    def _new(self, group_id: str) -> ClassicGroup:
        story = Story(group=group_id, ledger=self.chronicle)
        return ClassicGroup(group_id, self.limits, self._timers, story)

    def _take(self, group: ClassicGroup) -> Outcome[Record]:
        """Its outcome; a group that came to nothing leaves no trace."""
        outcome = group.take()
        if not outcome.records:
            self._drop_if_nothing(group)
        return outcome

    def _drop_if_nothing(self, group: ClassicGroup) -> None:
        known = group.id in self.generations or group.id in self.offsets.by_group
        if group.is_idle and not known:
            self._groups.pop(group.id, None)

    def _check_retention(self, now: Now) -> Outcome[Record]:
        """A slice of the groups; the others soon, so that nobody has to wait for all."""
        if not self._to_check:
            self._to_check = list(self._ids())
        records: list[Record] = []
        for _ in range(min(len(self._to_check), GROUPS_PER_SLICE)):
            records += self._out_of_retention(self._to_check.pop(), now)
            if len(records) >= RECORDS_PER_SLICE:
                break
        pause_ms = SLICE_PAUSE_MS if self._to_check else self.limits.offsets_retention_check_ms
        self._timers.set(self._retention, now.ms + pause_ms)
        return Outcome(tuple(records))

    def _out_of_retention(self, group_id: str, now: Now) -> list[Record]:
        """An empty group counts from when it became empty, all others from each commit."""
        group = self.group(group_id)
        if group is None or group.state not in (State.EMPTY, State.STABLE):
            return []
        subscribed: frozenset[str] = frozenset()
        emptied_ms = -1
        if group.state is State.STABLE:
            if group.topics is None:
                return []
            subscribed = group.topics
        elif group.roster.protocol_type is not None:
            emptied_ms = group.since_wall_ms
        retention_ms = self.limits.offsets_retention_ms
        expired = self.offsets.expired(group_id, retention_ms, emptied_ms, subscribed, now.wall_ms)
        records: list[Record] = [*expired[:RECORDS_PER_SLICE]]
        if (
            group.is_idle
            and group_id in self.generations
            and len(records) == self.offsets.count(group_id)
        ):
            records.append(GroupRecord(group_id, None))
        return records


def _reply(caller: Caller, response: Message) -> Outcome[Record]:
    return Outcome(answers=(Answer(caller.token, response),))


def _and_reply(
    caller: Caller, response: Message, outcome: Outcome[Record] | None
) -> Outcome[Record]:
    if outcome is None:
        return _reply(caller, response)
    return outcome._replace(answers=(Answer(caller.token, response), *outcome.answers))

"""The verbs on offsets: committing, fetching, deleting, and forgetting what is out of retention.

Always: who may commit is the group's decision, classic or new.
Not here: offsets as such (offsets.py).
"""

from itertools import islice

from barnabas.coordinators.groups import offsets as offsets_
from barnabas.coordinators.groups.chronicle import Chronicle
from barnabas.coordinators.groups.classic import ClassicGroup
from barnabas.coordinators.groups.classic_speakers import MixedGroup
from barnabas.coordinators.groups.limits import Limits
from barnabas.coordinators.groups.member import Caller, TimerKey
from barnabas.coordinators.groups.records import GroupRecord, OffsetRecord, Record
from barnabas.coordinators.groups.registry import Group, Registry, reply
from barnabas.coordinators.groups.replies import commit_refused
from barnabas.coordinators.groups.states import State
from barnabas.coordinators.groups.subscription import CONSUMER
from barnabas.coordinators.groups.topics import Topics
from barnabas.coordinators.runtime import Answer, Now, Outcome
from barnabas.coordinators.timers import Timer
from barnabas.model.errors import Code
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

GROUP_ID_NOT_FOUND_SINCE = 9  # of OffsetCommit
GROUPS_PER_SLICE = 500
RECORDS_PER_SLICE = 1_000
SLICE_PAUSE_MS = 10


class OffsetVerbs(Registry):
    """Verbs take the request, who sent it, and the time."""

    def __init__(
        self, limits: Limits, chronicle: Chronicle | None = None, topics: Topics | None = None
    ) -> None:
        super().__init__(limits, chronicle, topics)
        self._retention: Timer[TimerKey] = Timer(TimerKey("retention"))
        self._to_check: list[str] = []

    def commit(self, request: OffsetCommitRequest, caller: Caller, now: Now) -> Outcome[Record]:
        """Topics by name: their ids, if the request had them, stay as they are."""
        group = self._find(request.group_id)
        code = self._check_commit(group, request, caller)
        if code:
            return reply(caller, commit_refused(request.topics, code))
        if isinstance(group, ClassicGroup):
            group.committed(request.member_id, now)
        limit = self.limits.offset_metadata_chars_max
        records, response = offsets_.commit(request, limit, now)
        return Outcome(tuple(records), (Answer(caller.token, response),), request.group_id)

    def _check_commit(
        self, group: Group | None, request: OffsetCommitRequest, caller: Caller
    ) -> Code:
        epoch = request.generation_id_or_member_epoch
        if isinstance(group, MixedGroup):
            partitions = (
                (topic.name, partition.partition_index)
                for topic in request.topics
                for partition in topic.partitions
            )
            return group.check_commit(request.member_id, epoch, caller.version, partitions)
        if group is not None:
            return group.check_commit(request.member_id, request.group_instance_id, epoch)
        if epoch < 0:
            return Code.NONE
        by_name = caller.version >= GROUP_ID_NOT_FOUND_SINCE
        return Code.GROUP_ID_NOT_FOUND if by_name else Code.ILLEGAL_GENERATION

    def check_fetch(self, group_id: str, member_id: str | None, epoch: int) -> Code:
        """May it hear the group's offsets? A member of the new protocol says who it is."""
        group = self.group(group_id)
        if isinstance(group, MixedGroup):
            return group.check_fetch(member_id, epoch)
        return Code.NONE

    def fetch(
        self, group_id: str, topics: list[OffsetFetchRequestTopics] | None
    ) -> list[OffsetFetchResponseTopics]:
        return offsets_.fetch(self.offsets, group_id, topics)

    def delete_offsets(self, request: OffsetDeleteRequest, caller: Caller) -> Outcome[Record]:
        group = self._find(request.group_id)
        code = Code.NONE
        if group is None:
            code = Code.GROUP_ID_NOT_FOUND
        elif group.size and group.protocol_type != CONSUMER:
            code = Code.NON_EMPTY_GROUP
        if group is None or code:
            return reply(caller, OffsetDeleteResponse(error_code=code, topics=[]))
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

    def _end_of(self, group_id: str) -> list[Record]:
        """For the log: the group is no more; its offsets are told apart from it."""
        kept = self.consumers.get(group_id)
        return [GroupRecord(group_id, None)] if kept is None else [*kept.tombstones()]

    # Retention

    def _check_retention(self, now: Now) -> Outcome[Record]:
        """A slice of the groups; the others soon, so that nobody has to wait for all."""
        if not self._to_check:
            self._to_check = list(self._ids())
        records: list[Record] = []
        for _ in range(min(len(self._to_check), GROUPS_PER_SLICE)):
            group_id = self._to_check.pop()
            expired = self._out_of_retention(group_id, now)
            records += expired[:RECORDS_PER_SLICE]
            if len(expired) > RECORDS_PER_SLICE:
                self._to_check.append(group_id)  # there is more of it
            if len(records) >= RECORDS_PER_SLICE:
                break
        pause_ms = SLICE_PAUSE_MS if self._to_check else self.limits.offsets_retention_check_ms
        self._timers.set(self._retention, now.ms + pause_ms)
        return Outcome(tuple(records), divisible=True)

    def _retention_refused(self, now: Now) -> None:
        """The log takes nothing now: not again and again at the pace of slices."""
        self._to_check.clear()
        self._timers.set(self._retention, now.ms + self.limits.offsets_retention_check_ms)

    def _out_of_retention(self, group_id: str, now: Now) -> list[Record]:
        """An empty classic group counts from when it became empty, all others from each commit.

        More than a slice of them: there may be more still."""
        group = self.group(group_id)
        if group is None:
            return []
        subscribed: frozenset[str] = frozenset()
        emptied_ms = -1
        if isinstance(group, MixedGroup):
            subscribed = group.topics
        elif group.state not in (State.EMPTY, State.STABLE):
            return []
        elif group.state is State.STABLE:
            if group.topics is None:
                return []
            subscribed = group.topics
        elif group.roster.protocol_type is not None:
            emptied_ms = group.since_wall_ms
        retention_ms = self.limits.offsets_retention_ms
        expired = self.offsets.expired(group_id, retention_ms, emptied_ms, subscribed, now.wall_ms)
        records: list[Record] = [*islice(expired, RECORDS_PER_SLICE + 1)]
        kept = group_id in self.generations or group_id in self.consumers
        if group.is_idle and kept and len(records) == self.offsets.count(group_id):
            records += self._end_of(group_id)
        return records

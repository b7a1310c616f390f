"""What the log has of one streams group, and what follows from it.

In: records, in the order of the log. Out: members, targets, epochs, the topology, who has which
task.
Always: changed by `replay` alone; a task is active at one member, the one that got it last.
Records in an order that only compaction makes, or about members that are removed, do no harm.
Not here: which records are written (heartbeats.py, operations.py).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from barnabas.assignment.sticky_tasks import TaskId
from barnabas.coordinators.groups.consumer.states import MemberState
from barnabas.coordinators.groups.memory import MEMBER_BYTES
from barnabas.coordinators.groups.streams.member import StreamsMember, target_of
from barnabas.coordinators.groups.streams.records import (
    STREAMS_CURRENT_KEY,
    STREAMS_EPOCH_KEY,
    STREAMS_MEMBER_KEY,
    STREAMS_TARGET_EPOCH_KEY,
    STREAMS_TARGET_KEY,
    STREAMS_TOPOLOGY_KEY,
    AssignmentSetting,
    StreamsCurrentValue,
    StreamsEpochValue,
    StreamsGroupRecord,
    StreamsMemberValue,
    StreamsTargetEpochValue,
    StreamsTargetValue,
    StreamsTopologyValue,
)
from barnabas.coordinators.groups.streams.tasks import NO_TARGET, NO_TASKS, TargetOfTasks
from barnabas.coordinators.groups.streams.topology import StreamsTopology, from_record

FIRST_EPOCH = 1  # of a group, before its first member
NOT_VALIDATED = -1
STANDBYS = "num.standby.replicas"


class StreamsGroupState(Enum):
    """The value is the name that Kafka's tools show."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


@dataclass(slots=True)
class StoredStreamsGroup:
    """Members in the order in which they joined. The second block of fields is derived from the
    first. `validated`: the epoch of the topology whose topics are all there."""

    id: str
    epoch: int = FIRST_EPOCH
    metadata_hash: int = 0
    validated: int = NOT_VALIDATED
    standbys: int | None = None  # of the last assignment
    target_epoch: int = FIRST_EPOCH
    targeted_wall_ms: int = 0
    topology: StreamsTopology | None = None
    members: dict[str, StreamsMember] = field(default_factory=dict)
    targets: dict[str, TargetOfTasks] = field(default_factory=dict)

    active: dict[TaskId, str] = field(default_factory=dict)  # the member that has it
    standby: dict[TaskId, dict[str, None]] = field(default_factory=dict)
    topology_bytes: int = 0
    member_bytes: int = 0

    @property
    def bytes(self) -> int:
        """About the memory of its members and its topology."""
        return self.member_bytes + self.topology_bytes

    # Replay

    def replay(self, record: StreamsGroupRecord) -> None:
        key, value = record.key, record.value
        if key == STREAMS_MEMBER_KEY:
            self._replay_member(record.name, value)
        elif key == STREAMS_CURRENT_KEY:
            self._replay_current(record.name, value)
        elif key == STREAMS_TARGET_KEY:
            if isinstance(value, StreamsTargetValue):
                self.targets[record.name] = target_of(value)
            else:
                self.targets.pop(record.name, None)
        elif key == STREAMS_EPOCH_KEY:
            if isinstance(value, StreamsEpochValue):
                self.epoch = value.epoch
                self.metadata_hash = value.metadata_hash
                self.validated = value.validated_topology_epoch
                self.standbys = _standbys(value.last_assignment_configs or ())
        elif key == STREAMS_TARGET_EPOCH_KEY:
            self.target_epoch, self.targeted_wall_ms = -1, 0
            if isinstance(value, StreamsTargetEpochValue):
                self.target_epoch = value.assignment_epoch
                self.targeted_wall_ms = value.assignment_timestamp
        elif key == STREAMS_TOPOLOGY_KEY:
            self.topology, self.topology_bytes = None, 0
            if isinstance(value, StreamsTopologyValue):
                self.topology = from_record(value)
                self.topology_bytes = len(value.encode(0))

    def _replay_member(self, member_id: str, value: object) -> None:
        member = self.members.get(member_id)
        if isinstance(value, StreamsMemberValue):
            self._put((member or StreamsMember(member_id)).with_metadata(value), member)
        elif member is not None:
            self._release(member)
            del self.members[member_id]

    def _replay_current(self, member_id: str, value: object) -> None:
        member = self.members.get(member_id)
        if isinstance(value, StreamsCurrentValue):
            self._put((member or StreamsMember(member_id)).with_assignment(value), member)
        elif member is not None:
            self._put(member.moved(-1, MemberState.STABLE, NO_TASKS, NO_TASKS), member)

    def _put(self, member: StreamsMember, before: StreamsMember | None) -> None:
        if before is not None:
            self._release(before)
        self.members[member.id] = member
        self.member_bytes += MEMBER_BYTES + member.metadata_bytes()
        for held in (member.assigned, member.revoking):
            for task in held.active_ids():
                self.active[task] = member.id
            for task in held.standby_ids():
                self.standby.setdefault(task, {})[member.id] = None

    def _release(self, member: StreamsMember) -> None:
        self.member_bytes -= MEMBER_BYTES + member.metadata_bytes()
        for held in (member.assigned, member.revoking):
            for task in held.active_ids():
                if self.active.get(task) == member.id:
                    del self.active[task]
            for task in held.standby_ids():
                holders = self.standby.get(task)
                if holders is not None:
                    holders.pop(member.id, None)
                    if not holders:
                        del self.standby[task]

    # Views

    @property
    def state(self) -> StreamsGroupState:
        if not self.members:
            return StreamsGroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.validated:
            return StreamsGroupState.NOT_READY
        if self.epoch > self.target_epoch:
            return StreamsGroupState.ASSIGNING
        settled = all(member.has_reached(self.target_epoch) for member in self.members.values())
        return StreamsGroupState.STABLE if settled else StreamsGroupState.RECONCILING

    def target(self, member_id: str) -> TargetOfTasks:
        return self.targets.get(member_id, NO_TARGET)

    def is_free_as_active(self, task: TaskId, member: StreamsMember) -> bool:
        """No other member has it active, and no other member of the process has a copy. What the
        member itself had, it has released."""
        return self.active.get(task) in (None, member.id) and not self._has_copy(task, member)

    def is_free_as_standby(self, task: TaskId, member: StreamsMember) -> bool:
        """No other member of the process has it."""
        owner = self.members.get(self.active.get(task, ""))
        of_process = (
            owner is not None and owner.id != member.id and owner.process_id == member.process_id
        )
        return not of_process and not self._has_copy(task, member)

    def _has_copy(self, task: TaskId, member: StreamsMember) -> bool:
        return any(
            id_ != member.id and self.members[id_].process_id == member.process_id
            for id_ in self.standby.get(task, ())
        )

    def tombstones(self) -> list[StreamsGroupRecord]:
        """Delete the group, in the order that Kafka requires."""
        names = dict.fromkeys((*self.members, *self.targets))
        return [
            *_deleted(STREAMS_CURRENT_KEY, self.id, self.members),
            *_deleted(STREAMS_TARGET_KEY, self.id, names),
            StreamsGroupRecord(STREAMS_TARGET_EPOCH_KEY, self.id, "", None),
            *_deleted(STREAMS_MEMBER_KEY, self.id, self.members),
            StreamsGroupRecord(STREAMS_EPOCH_KEY, self.id, "", None),
            StreamsGroupRecord(STREAMS_TOPOLOGY_KEY, self.id, "", None),
        ]


def epoch_record(
    group: str, epoch: int, digest: int, validated: int, standbys: int
) -> StreamsGroupRecord:
    value = StreamsEpochValue(
        epoch=epoch,
        metadata_hash=digest,
        validated_topology_epoch=validated,
        last_assignment_configs=[AssignmentSetting(key=STANDBYS, value=str(standbys))],
    )
    return StreamsGroupRecord(STREAMS_EPOCH_KEY, group, "", value)


def _standbys(settings: Iterable[AssignmentSetting]) -> int | None:
    for setting in settings:
        if setting.key == STANDBYS and setting.value.isdecimal():
            return int(setting.value)
    return None


def _deleted(key: int, group: str, names: Iterable[str]) -> list[StreamsGroupRecord]:
    return [StreamsGroupRecord(key, group, name, None) for name in names]

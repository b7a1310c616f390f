"""One member of a streams group: its process, its tasks, those it must release.

In: records of the log, the next step of the member. Out: the member after it, and its records.
Always: an immutable value; the log has every one that was ever in force.
Not here: how a member gets from one value to the next (reconcile.py).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from barnabas.coordinators.groups.consumer.states import MemberState, check_transition
from barnabas.coordinators.groups.streams.records import (
    STREAMS_CURRENT_KEY,
    STREAMS_MEMBER_KEY,
    STREAMS_TARGET_KEY,
    ClientTag,
    CurrentTasks,
    RecordedEndpoint,
    StreamsCurrentValue,
    StreamsGroupRecord,
    StreamsMemberValue,
    StreamsTargetValue,
    TargetTasks,
)
from barnabas.coordinators.groups.streams.tasks import (
    NO_TASKS,
    HeldTasks,
    TargetOfTasks,
    TaskEpochs,
    Tasks,
    by_subtopology,
    listed_ids,
)

JOINING = 0  # the epoch of a member that joins or rejoins
LEAVING = -1
NO_TOPOLOGY = -1
# A member of a streams group has the states of one of a consumer group, with other numbers.
_RECORDED_STATES = {
    1: MemberState.STABLE,
    2: MemberState.UNREVOKED,
    3: MemberState.UNRELEASED,
}
_STATE_NUMBERS = {state: number for number, state in _RECORDED_STATES.items()}


class UserEndpoint(NamedTuple):
    """Where a process answers interactive queries."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class StreamsMember:
    """`process_id`: the instance of the application; its threads are members of their own."""

    id: str
    epoch: int = JOINING
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    rack: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topology_epoch: int = NO_TOPOLOGY
    process_id: str = ""
    endpoint: UserEndpoint | None = None
    tags: tuple[tuple[str, str], ...] = ()
    assigned: HeldTasks = NO_TASKS
    revoking: HeldTasks = NO_TASKS

    def has_reached(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    def moved(
        self, epoch: int, state: MemberState, assigned: HeldTasks, revoking: HeldTasks
    ) -> "StreamsMember":
        """The member after its next step; its previous epoch is kept."""
        check_transition(self.id, self.state, state, has_revocations=bool(revoking))
        return replace(
            self,
            epoch=epoch,
            previous_epoch=self.epoch,
            state=state,
            assigned=assigned,
            revoking=revoking,
        )

    def metadata_bytes(self) -> int:
        """The memory for its names."""
        names = (self.id, self.rack or "", self.client_id, self.process_id)
        host = "" if self.endpoint is None else self.endpoint.host
        tags = (text for tag in self.tags for text in tag)
        return sum(map(len, (*names, host, *tags)))

    def held_since(self, subtopology: str, partition: int) -> int | None:
        """Of an active task, also one that it must release."""
        for held in (self.assigned, self.revoking):
            since = held.active.get(subtopology, {}).get(partition)
            if since is not None:
                return since
        return None

    # Records

    def with_metadata(self, value: StreamsMemberValue) -> "StreamsMember":
        endpoint = value.user_endpoint
        return replace(
            self,
            rack=value.rack_id,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            client_id=value.client_id,
            client_host=value.client_host,
            topology_epoch=value.topology_epoch,
            process_id=value.process_id,
            endpoint=None if endpoint is None else UserEndpoint(endpoint.host, endpoint.port),
            tags=tuple((tag.key, tag.value) for tag in value.client_tags),
        )

    def with_assignment(self, value: StreamsCurrentValue) -> "StreamsMember":
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=_RECORDED_STATES.get(value.state, MemberState.UNKNOWN),
            assigned=HeldTasks(
                _epochs(value.active_tasks, value.member_epoch),
                by_subtopology(listed_ids(value.standby_tasks)),
            ),
            revoking=HeldTasks(
                _epochs(value.active_tasks_pending_revocation, value.member_epoch),
                by_subtopology(listed_ids(value.standby_tasks_pending_revocation)),
            ),
        )

    def metadata_record(self, group: str) -> StreamsGroupRecord:
        """Its client and its process."""
        endpoint = self.endpoint
        value = StreamsMemberValue(
            instance_id=None,
            rack_id=self.rack,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            topology_epoch=self.topology_epoch,
            process_id=self.process_id,
            user_endpoint=None
            if endpoint is None
            else RecordedEndpoint(host=endpoint.host, port=endpoint.port),
            client_tags=[ClientTag(key=key, value=text) for key, text in self.tags],
        )
        return StreamsGroupRecord(STREAMS_MEMBER_KEY, group, self.id, value)

    def assignment_record(self, group: str) -> StreamsGroupRecord:
        """Its epoch and its tasks."""
        value = StreamsCurrentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=_STATE_NUMBERS.get(self.state, MemberState.UNKNOWN),
            active_tasks=_current_epochs(self.assigned.active),
            standby_tasks=_current(self.assigned.standby),
            warmup_tasks=[],
            active_tasks_pending_revocation=_current_epochs(self.revoking.active),
            standby_tasks_pending_revocation=_current(self.revoking.standby),
            warmup_tasks_pending_revocation=[],
        )
        return StreamsGroupRecord(STREAMS_CURRENT_KEY, group, self.id, value)


def removal_records(group: str, member_id: str) -> list[StreamsGroupRecord]:
    """Remove a member and everything about it, in the order that Kafka requires."""
    keys = (STREAMS_CURRENT_KEY, STREAMS_TARGET_KEY, STREAMS_MEMBER_KEY)
    return [StreamsGroupRecord(key, group, member_id, None) for key in keys]


def target_record(group: str, member_id: str, target: TargetOfTasks) -> StreamsGroupRecord:
    value = StreamsTargetValue(
        active_tasks=_targeted(target.active),
        standby_tasks=_targeted(target.standby),
        warmup_tasks=[],
    )
    return StreamsGroupRecord(STREAMS_TARGET_KEY, group, member_id, value)


def target_of(value: StreamsTargetValue) -> TargetOfTasks:
    return TargetOfTasks(
        by_subtopology(listed_ids(value.active_tasks)),
        by_subtopology(listed_ids(value.standby_tasks)),
    )


def _epochs(listed: Iterable[CurrentTasks], epoch: int) -> TaskEpochs:
    """Where the record has no epoch for each task, the member's epoch is taken."""
    held: dict[str, Mapping[int, int]] = {}
    for each in listed:
        epochs = each.assignment_epochs
        if epochs is None or len(epochs) != len(each.partitions):
            epochs = [max(epoch, 0)] * len(each.partitions)
        held[each.subtopology_id] = dict(sorted(zip(each.partitions, epochs, strict=True)))
    return dict(sorted(held.items()))


def _current_epochs(tasks: TaskEpochs) -> list[CurrentTasks]:
    return [
        CurrentTasks(
            subtopology_id=subtopology,
            partitions=list(partitions),
            assignment_epochs=list(partitions.values()),
        )
        for subtopology, partitions in tasks.items()
    ]


def _current(tasks: Tasks) -> list[CurrentTasks]:
    return [
        CurrentTasks(subtopology_id=subtopology, partitions=list(partitions))
        for subtopology, partitions in tasks.items()
    ]


def _targeted(tasks: Tasks) -> list[TargetTasks]:
    return [
        TargetTasks(subtopology_id=subtopology, partitions=list(partitions))
        for subtopology, partitions in tasks.items()
    ]

"""Computes one step of one member of a streams group: from its heartbeat to the records.

In: the group, the member before and as it describes itself now, the topics. Out: records, and
facts for the response, the timers and the history.
Always: everything that it decides is in its records; of the group it changes only what is lost with
the broker.
Not here: whether the member may send the heartbeat (heartbeats.py).
"""

from barnabas.coordinators.groups.consumer.states import MemberState
from barnabas.coordinators.groups.streams.group import StreamsGroup
from barnabas.coordinators.groups.streams.member import StreamsMember, target_record
from barnabas.coordinators.groups.streams.reconcile import reconciled
from barnabas.coordinators.groups.streams.records import (
    STREAMS_TARGET_EPOCH_KEY,
    StreamsGroupRecord,
    StreamsTargetEpochValue,
)
from barnabas.coordinators.groups.streams.stored import NOT_VALIDATED, epoch_record
from barnabas.coordinators.groups.streams.target import gathering_ms, make_targets, wait_ms
from barnabas.coordinators.groups.streams.tasks import NO_TARGET, OwnedTasks, TargetOfTasks
from barnabas.coordinators.groups.streams.topics import (
    DETAIL_CHARS_MAX,
    ConfiguredTopology,
    StreamsStatus,
    configure,
)
from barnabas.coordinators.groups.streams.topology import (
    StreamsTopology,
    from_record,
    recorded,
    topology_record,
)
from barnabas.coordinators.groups.topics import metadata_hash
from barnabas.coordinators.runtime import Now
from barnabas.model.errors import Code, InvalidRequest
from barnabas.wire.messages.streams_group_heartbeat import Status, Topology

WAITING_INTERVAL_MS = 200  # of a member that waits for tasks of others
CREATING_INTERVAL_MS = 50  # while topics are created; then as long as it has taken so far


class StreamsStep:
    """One heartbeat. `member`: as it will be."""

    def __init__(self, group: StreamsGroup, began: StreamsMember, member: StreamsMember) -> None:
        stored = group.stored
        self.records: list[StreamsGroupRecord] = []
        self.group = group
        self.began = began
        self.member = member
        self.is_new = began.id not in stored.members
        self.described = self.is_new or member != began
        self.epoch = stored.epoch
        self.digest = stored.metadata_hash
        self.target_epoch = stored.target_epoch
        self.targets: dict[str, TargetOfTasks] | None = None
        self.statuses: list[Status] = []
        self.delay_ms = 0  # until the next target
        if self.described:
            self.records.append(member.metadata_record(group.id))

    def take_topology(self, sent: Topology | None) -> StreamsTopology:
        """The group's. The first member brings it; later ones must bring the same."""
        known = self.group.stored.topology
        if sent is None:
            if known is None:
                raise InvalidRequest(
                    Code.INVALID_REQUEST,
                    f"group {self.group.id!r} has no topology; a member must join with one",
                )
        elif known is None:
            value = recorded(sent)
            self.records.append(topology_record(self.group.id, value))
            known = from_record(value)
        elif sent.epoch >= known.epoch and from_record(recorded(sent)) != known:
            raise InvalidRequest(
                Code.INVALID_REQUEST,
                f"the topology is not the one of group {self.group.id!r}; stop all members, delete"
                " the group, and start again, or use another application.id",
            )
        if self.member.topology_epoch < known.epoch:
            self._status(
                StreamsStatus.STALE_TOPOLOGY,
                f"the member has epoch {self.member.topology_epoch} of the topology, the group"
                f" {known.epoch}",
            )
        return known

    def configure(self, topology: StreamsTopology) -> ConfiguredTopology:
        group = self.group
        if group.configured is not None and not group.topics_stale and group.stored.topology:
            return group.configured
        self.digest = metadata_hash(set(topology.required_topics()), group.topics_port)
        group.configured = configure(topology, group.topics_port)
        return group.configured

    def bump(self, configured: ConfiguredTopology) -> None:
        """A new epoch of the group, if something has changed."""
        stored = self.group.stored
        standbys = self.group.limits.streams_num_standby_replicas
        validated = configured.epoch if configured.is_ready else NOT_VALIDATED
        if (
            self.described
            or self.digest != stored.metadata_hash
            or validated != stored.validated
            or standbys != stored.standbys
        ):
            self.epoch += 1
            self.records.append(
                epoch_record(self.group.id, self.epoch, self.digest, validated, standbys)
            )

    def gather(self, now: Now) -> None:
        """The first members of a group wait until no other has joined for a moment."""
        group = self.group
        if not group.stored.members and group.limits.streams_initial_rebalance_delay_ms > 0:
            group.gathering = (now.ms, now.ms)
        elif self.is_new and group.gathering is not None:
            group.gathering = (group.gathering[0], now.ms)

    def retarget(self, configured: ConfiguredTopology, now: Now) -> None:
        """A new target, unless there is one for this epoch or it is too soon."""
        group, stored = self.group, self.group.stored
        self.delay_ms = gathering_ms(group, now)
        if self.delay_ms > 0:
            self._status(StreamsStatus.ASSIGNMENT_DELAYED, "the group waits for more members")
            return
        group.gathering = None
        if stored.target_epoch >= self.epoch:
            return
        self.delay_ms = wait_ms(stored, group.limits, now)
        if self.delay_ms > 0:
            text = "the last assignment is less than streams.assignment.interval.ms ago"
            self._status(StreamsStatus.ASSIGNMENT_DELAYED, text)
            return
        members = {**stored.members, self.member.id: self.member}
        standbys = group.limits.streams_num_standby_replicas
        self.targets = make_targets(stored, members.values(), configured, standbys)
        self.target_epoch = self.epoch
        self.records += (
            target_record(group.id, member_id, target)
            for member_id, target in self.targets.items()
            if target != stored.targets.get(member_id)
        )
        value = StreamsTargetEpochValue(
            assignment_epoch=self.epoch, assignment_timestamp=now.wall_ms
        )
        self.records.append(StreamsGroupRecord(STREAMS_TARGET_EPOCH_KEY, group.id, "", value))

    def reconcile(self, owned: OwnedTasks | None) -> None:
        stored, member = self.group.stored, self.member
        targets = stored.targets if self.targets is None else self.targets
        target = targets.get(member.id, NO_TARGET)
        self.member = reconciled(stored, member, target, self.target_epoch, owned)
        if self.member != member or self.is_new:
            self.records.append(self.member.assignment_record(self.group.id))

    def note_problems(self, now: Now) -> None:
        group = self.group
        assert group.configured is not None
        problem = group.configured.problem
        if not group.configured.missing:
            group.missing_since_ms = None
        elif group.missing_since_ms is None:
            group.missing_since_ms = now.ms
        if problem is not None:
            self._status(problem.status, problem.detail)
        if group.shutdown_by is not None:
            self._status(
                StreamsStatus.SHUTDOWN_APPLICATION,
                f"member {group.shutdown_by} asked all members of the application to stop",
            )

    def _status(self, status: StreamsStatus, detail: str) -> None:
        """`detail` may have names from requests; a text above 32 KiB cannot be sent."""
        shown = detail[:DETAIL_CHARS_MAX]
        self.statuses.append(Status(status_code=status, status_detail=shown))

    def interval_ms(self, now: Now) -> int:
        group = self.group
        interval_ms = group.limits.streams_heartbeat_interval_ms
        problem = None if group.configured is None else group.configured.problem
        if problem is not None and problem.status is not StreamsStatus.MISSING_INTERNAL_TOPICS:
            return interval_ms
        waits_ms = [interval_ms]
        if self.delay_ms > 0:
            waits_ms.append(self.delay_ms)
        if group.missing_since_ms is not None:
            waits_ms.append(max(CREATING_INTERVAL_MS, now.ms - group.missing_since_ms))
        elif self.member.state is MemberState.UNRELEASED:
            waits_ms.append(WAITING_INTERVAL_MS)
        return min(waits_ms)

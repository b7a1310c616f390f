"""The assignor of streams groups: who processes each task, and who keeps copies of its state.

In: the members in the order in which they joined, with their tasks so far; the subtopologies, with
their number of tasks; how many standby tasks each stateful task has. Out: member id to tasks.
Always: every task is active at one member. A process, which may have several members, has a task
at most once, active or standby. A task stays where it is as long as the members have equally many;
otherwise it moves to a member that has its state. Deterministic; Kafka's `sticky` has the same
counts, but depends on the order of a hash table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, heapreplace
from typing import NamedTuple


class TaskId(NamedTuple):
    """A partition of the source topics of a subtopology."""

    subtopology: str
    partition: int


@dataclass(frozen=True, slots=True)
class TaskMember:
    """A member, and its target so far."""

    member_id: str
    process_id: str
    active: tuple[TaskId, ...] = ()
    standby: tuple[TaskId, ...] = ()


class SubtopologyTasks(NamedTuple):
    """`stateful`: its tasks have state, of which standby tasks keep copies."""

    tasks: int
    stateful: bool


@dataclass(slots=True)
class AssignedTasks:
    active: list[TaskId] = field(default_factory=list)
    standby: list[TaskId] = field(default_factory=list)


def assign_sticky_tasks(
    members: Sequence[TaskMember],
    subtopologies: Mapping[str, SubtopologyTasks],
    standbys: int = 0,
) -> dict[str, AssignedTasks]:
    """Lists are sorted. Without members there is nothing to assign."""
    assigned = {member.member_id: AssignedTasks() for member in members}
    if not members:
        return assigned
    active = [TaskId(name, n) for name, each in subtopologies.items() for n in range(each.tasks)]
    copied = [task for task in active if subtopologies[task.subtopology].stateful]
    plan = _Plan(members, assigned, len(active), len(copied) * standbys)
    plan.assign_active(active)
    if standbys > 0:
        plan.assign_standby(copied, standbys)
    for each in assigned.values():
        each.active.sort()
        each.standby.sort()
    return assigned


class _Quota:
    """How many tasks a member may keep: an equal part of those that are left."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self.limit = -(-tasks // members)

    def took(self, count: int) -> None:
        """A member has this many now. One that has all of its part is out of the calculation."""
        if count == self.limit and self._members > 1:
            self._tasks -= count
            self._members -= 1
            self.limit = -(-self._tasks // self._members)


class _Process:
    """The members of one process. `order`: of its first member, to break ties."""

    __slots__ = ("_heap", "counts", "order", "tasks")

    def __init__(self, order: int) -> None:
        self.order = order
        self.counts: dict[str, int] = {}  # tasks by member
        self.tasks: set[TaskId] = set()
        self._heap: list[tuple[int, int, str]] = []  # may have counts that have grown since

    def add_member(self, member_id: str) -> None:
        self._heap.append((0, len(self.counts), member_id))
        self.counts[member_id] = 0

    @property
    def load(self) -> float:
        return len(self.tasks) / len(self.counts)

    def least_loaded(self) -> str:
        while True:
            count, order, member_id = self._heap[0]
            now = self.counts[member_id]
            if now == count:
                return member_id
            heapreplace(self._heap, (now, order, member_id))


class _Plan:
    def __init__(
        self,
        members: Sequence[TaskMember],
        assigned: dict[str, AssignedTasks],
        active: int,
        standby: int,
    ) -> None:
        self._assigned = assigned
        self._active_quota = _Quota(active, len(members))
        self._quota = _Quota(active + standby, len(members))
        self._processes: dict[str, _Process] = {}
        self._process_of: dict[str, _Process] = {}
        self._was_active: dict[TaskId, str] = {}
        self._was_standby: dict[TaskId, list[str]] = {}
        for order, member in enumerate(members):
            process = self._processes.setdefault(member.process_id, _Process(order))
            process.add_member(member.member_id)
            self._process_of[member.member_id] = process
            self._was_active.update(dict.fromkeys(member.active, member.member_id))
            for task in member.standby:
                self._was_standby.setdefault(task, []).append(member.member_id)

    # Active tasks

    def assign_active(self, tasks: list[TaskId]) -> None:
        """To the member that has it, else to one that has its state, else to the least loaded."""
        tasks.sort(key=lambda task: (task.partition, task.subtopology))
        left = [task for task in tasks if not self._keep_active(task, self._was_active.get(task))]
        left = [task for task in left if not self._keep_active(task, self._copy_of(task))]
        left.sort()
        loads = self._by_load()
        for task in left:
            process = heappop(loads)[2]
            self._add(process.least_loaded(), task, active=True)
            heappush(loads, (process.load, process.order, process))

    def _keep_active(self, task: TaskId, member_id: str | None) -> bool:
        if member_id is None:
            return False
        if self._process_of[member_id].counts[member_id] >= self._active_quota.limit:
            return False
        self._add(member_id, task, active=True)
        return True

    # Standby tasks

    def assign_standby(self, tasks: list[TaskId], copies: int) -> None:
        """To the member that had the task before, active or standby; else to the least loaded
        process without it. With too few processes, there are fewer copies."""
        tasks.sort(key=lambda task: (task.partition, task.subtopology), reverse=True)
        left: list[tuple[TaskId, int]] = []
        for task in tasks:
            missing = copies
            while missing and self._keep_standby(task):
                missing -= 1
            if missing:
                left.append((task, missing))
        left.sort(reverse=True)
        loads = self._by_load()
        for task, missing in left:
            for _ in range(missing):
                if not self._add_copy(task, loads):
                    break

    def _keep_standby(self, task: TaskId) -> bool:
        was_active = self._was_active.get(task)
        candidates = [] if was_active is None else [was_active]
        copy = self._copy_of(task)
        if copy is not None:
            candidates.append(copy)
        for member_id in candidates:
            process = self._process_of[member_id]
            if task not in process.tasks and process.counts[member_id] < self._quota.limit:
                self._add(member_id, task, active=False)
                return True
        return False

    def _add_copy(self, task: TaskId, loads: list[tuple[float, int, _Process]]) -> bool:
        passed = []
        added = False
        while loads and not added:
            load, order, process = heappop(loads)
            if task not in process.tasks:
                self._add(process.least_loaded(), task, active=False)
                load = process.load
                added = True
            passed.append((load, order, process))
        for each in passed:
            heappush(loads, each)
        return added

    # Both

    def _copy_of(self, task: TaskId) -> str | None:
        """Of the members that have a copy, and whose process is not yet used: the least loaded."""
        found = [
            member_id
            for member_id in self._was_standby.get(task, ())
            if task not in self._process_of[member_id].tasks
        ]
        return min(found, key=self._load_of, default=None)

    def _load_of(self, member_id: str) -> tuple[float, int]:
        process = self._process_of[member_id]
        return process.load, process.counts[member_id]

    def _by_load(self) -> list[tuple[float, int, _Process]]:
        loads = [(each.load, each.order, each) for each in self._processes.values()]
        heapify(loads)
        return loads

    def _add(self, member_id: str, task: TaskId, *, active: bool) -> None:
        process = self._process_of[member_id]
        process.tasks.add(task)
        process.counts[member_id] = count = process.counts[member_id] + 1
        tasks = self._assigned[member_id]
        (tasks.active if active else tasks.standby).append(task)
        if active:
            self._active_quota.took(count)
        self._quota.took(count)

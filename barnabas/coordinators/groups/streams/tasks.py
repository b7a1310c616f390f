"""Tasks of a member: those that it has, those that it is to have, those that it says it owns.

In: lists of tasks in records and heartbeats. Out: immutable values, and lists again.
Always: partitions in ascending order, subtopologies in the order of their ids.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from barnabas.assignment.sticky_tasks import TaskId

TaskEpochs: TypeAlias = Mapping[str, Mapping[int, int]]
"""By subtopology and partition: the epoch of the group since which a member has had the task."""
Tasks: TypeAlias = Mapping[str, tuple[int, ...]]
"""By subtopology: partitions in ascending order."""


class ListedTasks(Protocol):
    """As messages and records list them."""

    @property
    def subtopology_id(self) -> str: ...

    @property
    def partitions(self) -> list[int]: ...


@dataclass(frozen=True, slots=True)
class HeldTasks:
    """What a member has, or must release."""

    active: TaskEpochs = field(default_factory=dict)
    standby: Tasks = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.active or self.standby)

    def active_ids(self) -> Iterator[TaskId]:
        return ids(self.active)

    def standby_ids(self) -> Iterator[TaskId]:
        return ids(self.standby)


@dataclass(frozen=True, slots=True)
class TargetOfTasks:
    """What a member is to have."""

    active: Tasks = field(default_factory=dict)
    standby: Tasks = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.active or self.standby)


NO_TASKS = HeldTasks()
NO_TARGET = TargetOfTasks()


@dataclass(frozen=True, slots=True)
class OwnedTasks:
    """What a member says it owns."""

    active: frozenset[TaskId] = frozenset()
    standby: frozenset[TaskId] = frozenset()

    def has_any(self, held: HeldTasks) -> bool:
        return any(task in self.active for task in held.active_ids()) or any(
            task in self.standby for task in held.standby_ids()
        )

    def is_within(self, held: HeldTasks) -> bool:
        return self.active <= {*held.active_ids()} and self.standby <= {*held.standby_ids()}

    def is_all_of(self, held: HeldTasks) -> bool:
        return self.active == {*held.active_ids()} and self.standby == {*held.standby_ids()}


def ids(tasks: Mapping[str, Iterable[int]]) -> Iterator[TaskId]:
    for subtopology, partitions in tasks.items():
        for partition in partitions:
            yield TaskId(subtopology, partition)


def listed_ids(tasks: Iterable[ListedTasks]) -> frozenset[TaskId]:
    return frozenset(TaskId(each.subtopology_id, n) for each in tasks for n in each.partitions)


def by_subtopology(tasks: Iterable[TaskId]) -> Tasks:
    found: dict[str, list[int]] = {}
    for task in sorted(tasks):
        found.setdefault(task.subtopology, []).append(task.partition)
    return {subtopology: tuple(partitions) for subtopology, partitions in found.items()}


def with_epochs(tasks: Mapping[TaskId, int]) -> TaskEpochs:
    found: dict[str, dict[int, int]] = {}
    for task in sorted(tasks):
        found.setdefault(task.subtopology, {})[task.partition] = tasks[task]
    return found

"""The assignor of streams groups."""

from random import Random

import pytest

from barnabas.assignment.sticky_tasks import (
    AssignedTasks,
    SubtopologyTasks,
    TaskId,
    TaskMember,
    assign_sticky_tasks,
)

Targets = dict[str, AssignedTasks]


def member(id_: str, process: str | None = None, before: Targets | None = None) -> TaskMember:
    tasks = (before or {}).get(id_, AssignedTasks())
    return TaskMember(id_, process or id_, tuple(tasks.active), tuple(tasks.standby))


def numbers(tasks: list[TaskId]) -> list[int]:
    return [task.partition for task in tasks]


STATEFUL = {"0": SubtopologyTasks(4, stateful=True)}


def test_tasks_are_assigned_in_ranges_at_first() -> None:
    found = assign_sticky_tasks([member("a"), member("b")], {"0": SubtopologyTasks(3, False)})
    assert {id_: numbers(each.active) for id_, each in found.items()} == {"a": [0, 2], "b": [1]}


def test_a_copy_is_never_in_the_process_of_its_task() -> None:
    members = [member("a1", "a"), member("a2", "a"), member("b1", "b")]
    found = assign_sticky_tasks(members, STATEFUL, standbys=1)
    in_a = {*found["a1"].active, *found["a2"].active}
    assert {*found["b1"].standby} == in_a
    assert {*found["a1"].standby, *found["a2"].standby} == {*found["b1"].active}


def test_one_process_has_no_copies() -> None:
    found = assign_sticky_tasks([member("a1", "a"), member("a2", "a")], STATEFUL, standbys=2)
    assert not found["a1"].standby
    assert not found["a2"].standby


def test_tasks_without_state_have_no_copies() -> None:
    parts = {"0": SubtopologyTasks(2, stateful=False), "1": SubtopologyTasks(2, stateful=True)}
    found = assign_sticky_tasks([member("a"), member("b")], parts, standbys=1)
    copies = {task for each in found.values() for task in each.standby}
    assert copies == {TaskId("1", 0), TaskId("1", 1)}


def test_a_task_continues_where_its_copy_is() -> None:
    parts = {"0": SubtopologyTasks(3, stateful=True)}
    before = assign_sticky_tasks([member("a"), member("b"), member("c")], parts, standbys=1)
    lost = before["a"].active
    after = assign_sticky_tasks(
        [member("b", before=before), member("c", before=before)], parts, standbys=1
    )
    for task in lost:
        holder = next(id_ for id_, each in after.items() if task in each.active)
        assert task in before[holder].standby


def test_a_new_member_takes_its_part_and_no_more() -> None:
    before = assign_sticky_tasks([member("a"), member("b")], STATEFUL)
    members = [member("a", before=before), member("b", before=before), member("c")]
    after = assign_sticky_tasks(members, STATEFUL)
    assert sorted(len(each.active) for each in after.values()) == [1, 1, 2]
    for id_ in ("a", "b"):
        assert {*after[id_].active} <= {*before[id_].active}


def test_a_settled_assignment_stays() -> None:
    members = [member("a1", "a"), member("a2", "a"), member("b1", "b"), member("b2", "b")]
    parts = {"0": SubtopologyTasks(5, True), "1": SubtopologyTasks(3, False)}
    before = assign_sticky_tasks(members, parts, standbys=1)
    again = [member(each.member_id, each.process_id, before) for each in members]
    assert assign_sticky_tasks(again, parts, standbys=1) == before


def test_nobody_gets_nothing() -> None:
    assert assign_sticky_tasks([], STATEFUL, standbys=1) == {}


@pytest.mark.parametrize("seed", range(200))
def test_every_task_is_active_once_and_the_members_are_balanced(seed: int) -> None:
    """Whatever the members had before: also tasks that are gone, and the same task twice."""
    random = Random(seed)
    parts = {
        str(n): SubtopologyTasks(random.randint(1, 8), random.random() < 0.6)
        for n in range(random.randint(1, 3))
    }
    standbys = random.randint(0, 2)
    every = [TaskId(id_, n) for id_, part in parts.items() for n in range(part.tasks + 1)]
    members = [
        TaskMember(
            f"m{n}",
            f"p{random.randint(0, 3)}",
            tuple(random.sample(every, random.randint(0, len(every)))),
            tuple(random.sample(every, random.randint(0, len(every)))),
        )
        for n in range(random.randint(1, 6))
    ]
    found = assign_sticky_tasks(members, parts, standbys)
    process_of = {each.member_id: each.process_id for each in members}
    processes = set(process_of.values())
    active = [task for each in found.values() for task in each.active]
    wanted = [TaskId(id_, n) for id_, part in parts.items() for n in range(part.tasks)]
    assert sorted(active) == sorted(wanted)
    assert found.keys() == process_of.keys()
    for task in wanted:
        holders = [
            process_of[id_]
            for id_, each in found.items()
            for held in (each.active, each.standby)
            if task in held
        ]
        assert len(holders) == len(set(holders)), "a process has a task twice"
        copies = min(standbys, len(processes) - 1) if parts[task.subtopology].stateful else 0
        assert len(holders) == 1 + copies
    counts = [len(each.active) for each in found.values()]
    assert max(counts) <= -(-len(wanted) // len(members)) + 1

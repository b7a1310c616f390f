"""Streams groups: who gets which task, and when; what members may do."""

from dataclasses import replace
from typing import Any

import pytest

from barnabas.coordinators.groups.classic.group import ClassicGroup
from barnabas.coordinators.groups.memory import MemberMemory
from barnabas.coordinators.groups.streams.stored import StreamsGroupState
from barnabas.coordinators.groups.streams.topics import StreamsStatus
from barnabas.model.errors import Code
from barnabas.wire.messages.streams_group_heartbeat import KeyValue, Topology
from tests.coordinators.groups.streams.streams_world import (
    COUNT,
    active,
    beat,
    join,
    standby,
    statuses,
    streams_group,
    subtopology,
    topology,
    world,
)
from tests.coordinators.world import GROUP, Call, World, broken_disk

READY = {"t": 4, "g-store-changelog": 4}


def epoch_of(call: Call) -> int:
    return int(call.response.member_epoch)


def settled(*members: str, **limits: Any) -> tuple[World, dict[str, int]]:
    """A world with these members, each at the group's epoch with its tasks; their epochs."""
    w = world(streams_assignment_interval_ms=0, **limits)
    epochs = dict.fromkeys(members, 0)
    for member in members:
        epochs[member] = epoch_of(join(w, member))
    settle(w, epochs)
    return w, epochs


def settle(w: World, epochs: dict[str, int]) -> None:
    """Heartbeats of members that release at once what they must."""
    for _ in range(6):
        for member, epoch in epochs.items():
            held = streams_group(w).stored.members[member].assigned
            call = beat(
                w,
                member,
                epoch,
                active={id_: [*tasks] for id_, tasks in held.active.items()},
                standby={id_: [*tasks] for id_, tasks in held.standby.items()},
            )
            epochs[member] = epoch_of(call)
    assert streams_group(w).state is StreamsGroupState.STABLE


# Joining


def test_the_first_member_gets_every_task() -> None:
    w = world()
    call = join(w, "a")
    assert active(call) == {"0": [0, 1, 2, 3]}
    assert statuses(call) == []
    assert streams_group(w).state is StreamsGroupState.STABLE


def test_a_task_is_handed_over_when_its_owner_has_released_it() -> None:
    w = world(streams_assignment_interval_ms=0)
    first = epoch_of(join(w, "a"))
    second = join(w, "b")
    assert active(second) == {}, "its tasks are still with the other member"
    assert second.response.heartbeat_interval_ms == 200
    told = beat(w, "a", first)
    assert active(told) == {"0": [0, 1]}
    assert epoch_of(told) == first, "it has not released anything yet"
    assert active(beat(w, "b", epoch_of(second))) is None
    assert epoch_of(beat(w, "a", first, active={"0": [0, 1, 2, 3]})) == first
    assert epoch_of(beat(w, "a", first, active={"0": [0, 1]})) == first + 1
    assert active(beat(w, "b", epoch_of(second))) == {"0": [2, 3]}


def test_members_that_join_together_are_assigned_together() -> None:
    w = world(streams_initial_rebalance_delay_ms=3_000, streams_join_pause_ms=100)
    first = join(w, "a")
    assert (active(first), statuses(first)) == ({}, [StreamsStatus.ASSIGNMENT_DELAYED])
    assert first.response.heartbeat_interval_ms == 100
    w.advance(60)
    join(w, "b")
    w.advance(60)
    assert statuses(beat(w, "a", epoch_of(first))) == [StreamsStatus.ASSIGNMENT_DELAYED]
    w.advance(40)
    assert active(beat(w, "a", epoch_of(first))) == {"0": [0, 2]}


def test_the_first_members_wait_no_longer_than_the_delay() -> None:
    w = world(streams_initial_rebalance_delay_ms=150, streams_join_pause_ms=100)
    epoch = epoch_of(join(w, "a"))
    w.advance(90)
    join(w, "b")
    w.advance(60)
    assert active(beat(w, "a", epoch)) == {"0": [0, 2]}


def test_assignments_keep_their_interval() -> None:
    w = world(streams_assignment_interval_ms=1_000)
    epoch = epoch_of(join(w, "a"))
    call = join(w, "b")
    assert statuses(call) == [StreamsStatus.ASSIGNMENT_DELAYED]
    assert call.response.heartbeat_interval_ms == 1_000
    w.advance(1_000)
    assert active(beat(w, "a", epoch)) == {"0": [0, 1]}


def test_a_group_has_as_many_members_as_the_broker_allows() -> None:
    w = world(streams_members_max=1)
    join(w, "a")
    assert join(w, "b").code is Code.GROUP_MAX_SIZE_REACHED
    assert join(w, "a").code is Code.NONE


@pytest.mark.parametrize(
    "wrong",
    [
        {"member": ""},
        {"member": "a", "group": " "},
        {"member": "a", "rack_id": ""},
        {"member": "a", "instance_id": "i"},
        {"member": "a", "rebalance_timeout_ms": -1},
        {"member": "a", "of": None},
        {"member": "a", "active": {"0": [1]}},
        {"member": "a", "task_offsets": []},
    ],
)
def test_a_join_that_says_too_little_or_too_much_is_refused(wrong: dict[str, Any]) -> None:
    w = world()
    options: dict[str, Any] = {
        "epoch": 0, "of": COUNT, "active": {}, "rebalance_timeout_ms": 1, "process": "p"
    }  # fmt: skip
    assert beat(w, **(options | wrong)).code is Code.INVALID_REQUEST
    assert not w.journal.batches


def test_the_tags_of_a_member_are_bounded() -> None:
    w = world(member_metadata_bytes_max=1_000)
    tags = [KeyValue(key="rack", value="r" * 1_000)]
    assert join(w, "a", client_tags=tags).code is Code.INVALID_REQUEST
    assert join(w, "a", client_tags=[KeyValue(key="rack", value="r")]).code is Code.NONE


def test_members_need_memory() -> None:
    w = world(memory=MemberMemory(3_000))
    assert join(w, "a").code is Code.NONE
    assert join(w, "b").code is Code.COORDINATOR_NOT_AVAILABLE
    beat(w, "a", -1)
    assert join(w, "b").code is Code.NONE


@pytest.mark.parametrize("epoch", [-2, -3])
def test_epochs_of_static_members_are_refused(epoch: int) -> None:
    assert beat(world(), "a", epoch).code is Code.INVALID_REQUEST


def test_a_topology_is_only_sent_to_join() -> None:
    w, epochs = settled("a")
    assert beat(w, "a", epochs["a"], of=COUNT).code is Code.INVALID_REQUEST


def test_a_task_that_the_topology_does_not_have_is_refused() -> None:
    w, epochs = settled("a")
    for task in ({"0": [4]}, {"1": [0]}, {"0": [-1]}):
        assert beat(w, "a", epochs["a"], active=task).code is Code.INVALID_REQUEST


# Topologies and topics


def test_another_topology_is_refused_and_an_older_one_is_stale() -> None:
    w = world({**READY, "u": 1})
    newer = topology(*COUNT.subtopologies, epoch=3)
    join(w, "a", newer)
    other = topology(subtopology("0", ["u"]), epoch=3)
    assert join(w, "b", other).code is Code.INVALID_REQUEST
    late = join(w, "c", COUNT)
    assert StreamsStatus.STALE_TOPOLOGY in statuses(late)


@pytest.mark.parametrize(
    ("topics", "status"),
    [
        ({}, StreamsStatus.MISSING_SOURCE_TOPICS),
        ({"t": 4}, StreamsStatus.MISSING_INTERNAL_TOPICS),
        ({"t": 4, "g-store-changelog": 3}, StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS),
    ],
)
def test_nothing_is_assigned_until_the_topics_are_right(
    topics: dict[str, int], status: StreamsStatus
) -> None:
    w = world(topics)
    call = join(w, "a")
    assert (active(call), statuses(call)) == ({}, [status])
    assert streams_group(w).state is StreamsGroupState.NOT_READY
    for name, count in READY.items():
        if w.topics.find(name) is None:
            w.topics.create(name, count)
        else:
            w.topics.grow(name, count)
    w.topics_changed(*READY)
    call = beat(w, "a", epoch_of(call))
    assert (active(call), statuses(call)) == ({"0": [0, 1, 2, 3]}, [])


def test_a_member_that_waits_for_a_source_topic_keeps_its_interval() -> None:
    """Kafka Streams gives up after two of them."""
    missing = join(world({}), "a")
    assert missing.response.heartbeat_interval_ms == 5_000
    creating = join(world({"t": 4}), "a")
    assert creating.response.heartbeat_interval_ms == 50


def test_tasks_are_taken_away_when_a_topic_is_deleted() -> None:
    w, epochs = settled("a")
    w.topics.delete("t")
    w.topics_changed("t")
    call = beat(w, "a", epochs["a"])
    assert (active(call), statuses(call)) == ({}, [StreamsStatus.MISSING_SOURCE_TOPICS])


def test_a_topology_that_has_no_answer_is_refused() -> None:
    w = world()
    loop = topology(subtopology("0", [], repartitions={"r": 0}, sinks=("r",)))
    assert join(w, "a", loop).code is Code.STREAMS_INVALID_TOPOLOGY
    assert not w.journal.batches


# Standby tasks


def test_standby_tasks_are_with_the_other_process() -> None:
    w, _ = settled("a", "b", streams_num_standby_replicas=1)
    members = streams_group(w).stored.members
    for one, other in (("a", "b"), ("b", "a")):
        held = {id_: [*tasks] for id_, tasks in members[one].assigned.active.items()}
        assert {id_: [*t] for id_, t in members[other].assigned.standby.items()} == held


def test_a_copy_becomes_the_task_when_its_owner_is_gone() -> None:
    w, epochs = settled("a", "b", streams_num_standby_replicas=1)
    assert beat(w, "b", -1).code is Code.NONE
    held = {"0": [*streams_group(w).stored.members["a"].assigned.active["0"]]}
    told = beat(w, "a", epochs["a"])
    assert (active(told), standby(told)) == (held, {}), "a copy is released before it is a task"
    assert active(beat(w, "a", epochs["a"], active=held, standby={})) == {"0": [0, 1, 2, 3]}


def test_another_number_of_standby_tasks_is_a_new_assignment() -> None:
    w, epochs = settled("a", "b")
    epoch = streams_group(w).stored.epoch
    group = streams_group(w)
    group.limits = replace(group.limits, streams_num_standby_replicas=1)
    settle(w, epochs)
    assert streams_group(w).stored.epoch == epoch + 1
    assert streams_group(w).stored.members["a"].assigned.standby


def test_a_task_waits_for_the_copy_of_another_thread_of_its_process() -> None:
    """A process has a task once: its threads share a state directory."""
    w = world({"t": 1, "g-store-changelog": 1}, streams_assignment_interval_ms=0)
    stored = streams_group_of_two_threads(w)
    task = next(iter(stored.active))
    thread = stored.members["a2"]
    assert not stored.is_free_as_standby(task, thread)
    assert stored.is_free_as_standby(task, stored.members["b"])


def streams_group_of_two_threads(w: World) -> Any:
    join(w, "a1", process="a")
    join(w, "a2", process="a")
    join(w, "b", process="b")
    return streams_group(w).stored


# Staying, leaving, dying


def test_a_heartbeat_that_changes_nothing_writes_nothing() -> None:
    w, epochs = settled("a")
    beat(w, "a", epochs["a"], knows=0)
    written = len(w.journal.batches)
    call = beat(w, "a", epochs["a"], knows=0)
    assert active(call) is None
    assert call.response.partitions_by_user_endpoint is None
    assert len(w.journal.batches) == written


def test_a_lost_reply_is_repeated() -> None:
    w, epochs = settled("a")
    join(w, "b")
    beat(w, "a", epochs["a"])  # its reply says that two tasks must go, and is lost
    again = beat(w, "a", epochs["a"], active={"0": [0, 1, 2, 3]})
    assert active(again) == {"0": [0, 1]}
    moved = beat(w, "a", epochs["a"], active={"0": [0, 1]})
    assert epoch_of(moved) == epochs["a"] + 1
    assert active(beat(w, "a", epochs["a"], active={"0": [0, 1]})) == {"0": [0, 1]}


@pytest.mark.parametrize("epoch", [1, 99])
def test_another_epoch_is_fenced(epoch: int) -> None:
    w, epochs = settled("a", "b")
    assert epoch not in epochs.values()
    assert beat(w, "a", epoch).code is Code.FENCED_MEMBER_EPOCH


def test_a_member_that_rejoins_gets_its_tasks_again() -> None:
    w, _ = settled("a", "b")
    epoch = streams_group(w).stored.epoch
    assert active(join(w, "a")) == {"0": [0, 1]}
    assert streams_group(w).stored.epoch == epoch


def test_unknown_groups_and_members_are_refused() -> None:
    w = world()
    assert beat(w, "a", 1).code is Code.GROUP_ID_NOT_FOUND
    assert beat(w, "a", -1).code is Code.GROUP_ID_NOT_FOUND
    join(w, "a")
    assert beat(w, "b", 1).code is Code.UNKNOWN_MEMBER_ID
    assert beat(w, "b", -1).code is Code.UNKNOWN_MEMBER_ID


def test_a_silent_member_is_removed_and_its_tasks_move() -> None:
    w, epochs = settled("a", "b", streams_session_timeout_ms=10_000)
    w.advance(9_000)
    beat(w, "a", epochs["a"])
    w.advance(1_000)
    assert [*streams_group(w).stored.members] == ["a"]
    call = beat(w, "a", epochs["a"])
    assert active(call) == {"0": [0, 1, 2, 3]}


def test_a_member_that_does_not_release_its_tasks_is_removed() -> None:
    w, epochs = settled("a")
    join(w, "b")
    beat(w, "a", epochs["a"])
    for _ in range(3):
        w.advance(20_000)
        beat(w, "a", epochs["a"])
        beat(w, "b", streams_group(w).stored.members["b"].epoch)
    assert [*streams_group(w).stored.members] == ["b"]


def test_one_member_may_stop_all() -> None:
    w, epochs = settled("a", "b")
    call = beat(w, "a", epochs["a"], shutdown_application=True)
    assert statuses(call) == [StreamsStatus.SHUTDOWN_APPLICATION]
    assert statuses(beat(w, "b", epochs["b"])) == [StreamsStatus.SHUTDOWN_APPLICATION]
    beat(w, "a", -1)
    beat(w, "b", -1)
    assert streams_group(w).state is StreamsGroupState.EMPTY
    assert statuses(join(w, "a")) == []


def test_the_text_of_a_status_is_short_whatever_a_member_is_called() -> None:
    w, long = world(), "m" * 32_750
    call = join(w, long, process="p")
    call = beat(w, long, call.response.member_epoch, shutdown_application=True)
    assert statuses(call) == [StreamsStatus.SHUTDOWN_APPLICATION]
    assert len(call.response.status[0].status_detail) == 1_000


def test_a_group_comes_back_from_the_log_as_it_was() -> None:
    w, epochs = settled("a", "b", streams_num_standby_replicas=1)
    before = streams_group(w).stored
    w.start()
    assert streams_group(w).stored == before
    assert active(beat(w, "a", epochs["a"])) is None
    assert streams_group(w).state is StreamsGroupState.STABLE


def test_a_join_that_could_not_be_written_leaves_no_member() -> None:
    w = world()
    w.journal.error = broken_disk()
    assert join(w, "a").code is Code.NOT_COORDINATOR
    assert w.shard.group(GROUP) is None
    w.journal.error = None
    assert active(join(w, "a")) == {"0": [0, 1, 2, 3]}


# Interactive queries


def test_all_members_learn_where_the_partitions_are() -> None:
    w = world(streams_num_standby_replicas=1, streams_assignment_interval_ms=0)
    epochs = {}
    for number, member in enumerate(("a", "b")):
        call = join(w, member, endpoint=("host", number))
        epochs[member] = epoch_of(call)
    settle(w, epochs)
    call = beat(w, "a", epochs["a"], knows=-1)
    found = {
        each.user_endpoint.port: (
            [(p.topic, p.partitions) for p in each.active_partitions],
            [(p.topic, p.partitions) for p in each.standby_partitions],
        )
        for each in call.response.partitions_by_user_endpoint
    }
    assert found == {
        0: ([("t", [0, 1])], [("t", [2, 3])]),
        1: ([("t", [2, 3])], [("t", [0, 1])]),
    }
    knows = call.response.endpoint_information_epoch
    assert beat(w, "a", epochs["a"], knows=knows).response.partitions_by_user_endpoint is None
    beat(w, "b", -1)
    left = beat(w, "a", epochs["a"], knows=knows).response.partitions_by_user_endpoint
    assert [each.user_endpoint.port for each in left] == [0]


def test_the_threads_of_a_process_are_one_endpoint() -> None:
    w = world(streams_assignment_interval_ms=0)
    epochs = {m: epoch_of(join(w, m, process="p", endpoint=("host", 1))) for m in ("a", "b")}
    settle(w, epochs)
    (only,) = beat(w, "a", epochs["a"], knows=-1).response.partitions_by_user_endpoint
    assert sorted(only.active_partitions[0].partitions) == [0, 1, 2, 3]


def test_after_a_restart_nobody_is_taken_to_know_the_endpoints() -> None:
    w = world()
    call = join(w, "a", endpoint=("host", 1))
    knows = call.response.endpoint_information_epoch
    w.start()
    call = beat(w, "a", epoch_of(call), knows=knows)
    assert [e.user_endpoint.port for e in call.response.partitions_by_user_endpoint] == [1]


# Offsets, and groups of other types


def commit(w: World, member: str, epoch: int, partition: int = 0, topic: str = "t") -> Code:
    return w.commit_code(
        1, member=member, generation=epoch, partition=partition, topic=topic, version=9
    )


def test_members_commit_what_they_own() -> None:
    w, epochs = settled("a", "b")
    assert commit(w, "a", epochs["a"]) is Code.NONE
    assert commit(w, "a", epochs["a"] + 1) is Code.STALE_MEMBER_EPOCH
    assert commit(w, "c", 1) is Code.UNKNOWN_MEMBER_ID
    assert commit(w, "", -1) is Code.UNKNOWN_MEMBER_ID
    join(w, "c")
    # Task 0 has been with the member since an earlier epoch: what it read then counts.
    since = streams_group(w).stored.members["a"].assigned.active["0"][0]
    assert since < epochs["a"]
    assert commit(w, "a", since) is Code.NONE
    assert commit(w, "a", since - 1) is Code.STALE_MEMBER_EPOCH
    assert commit(w, "a", since, partition=3) is Code.STALE_MEMBER_EPOCH
    assert commit(w, "a", since, topic="other") is Code.STALE_MEMBER_EPOCH


def test_an_empty_group_accepts_commits_of_tools_and_is_deleted() -> None:
    w, _ = settled("a")
    assert w.delete(GROUP) is Code.NON_EMPTY_GROUP
    beat(w, "a", -1)
    assert commit(w, "", -1) is Code.NONE
    assert w.delete(GROUP) is Code.NONE
    assert w.shard.group(GROUP) is None
    w.start()
    assert w.shard.group(GROUP) is None


def test_a_group_without_members_goes_with_its_last_offset() -> None:
    w, epochs = settled("a", offsets_retention_ms=3_600_000)
    assert commit(w, "a", epochs["a"]) is Code.NONE
    beat(w, "a", -1)
    w.advance(3_000_000)
    assert w.shard.group(GROUP) is not None
    w.advance(3_000_000)
    assert w.shard.group(GROUP) is None
    assert w.shard.limits.memory.used == 0


def test_other_protocols_do_not_find_a_streams_group() -> None:
    w, _ = settled("a")
    assert w.enter("x").code is Code.GROUP_ID_NOT_FOUND
    assert w.share("x", 0, topics=["t"]).code is Code.GROUP_ID_NOT_FOUND
    assert w.join().code is Code.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("kind", ["consumer", "share"])
def test_a_group_of_another_type_is_not_a_streams_group(kind: str) -> None:
    w = world()
    if kind == "consumer":
        w.enter("x")
    else:
        w.share("x", 0, topics=["t"])
    assert join(w, "a").code is Code.GROUP_ID_NOT_FOUND
    assert beat(w, "a", 1).code is Code.GROUP_ID_NOT_FOUND


def test_a_classic_group_without_members_becomes_a_streams_group_and_back() -> None:
    w = world()
    assert w.commit_code(7, member="", generation=-1, topic="t", partition=0) is Code.NONE
    call = join(w, "a")
    assert active(call) == {"0": [0, 1, 2, 3]}
    beat(w, "a", -1)
    w.new()
    assert isinstance(w.shard.group(GROUP), ClassicGroup)
    w.start()
    assert w.shard.streams == {}
    assert w.fetch("t", 0)[0] == 7


def test_a_plain_topology_needs_no_internal_topics() -> None:
    w = world({"t": 2})
    plain: Topology = topology(subtopology("0", ["t"]))
    assert active(join(w, "a", plain)) == {"0": [0, 1]}

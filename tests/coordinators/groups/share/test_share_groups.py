"""Share groups: what their members may do, and how their offsets are changed."""

from typing import Any

import pytest

from barnabas.coordinators.groups.limits import GroupLimits
from barnabas.coordinators.groups.share.group import ShareGroup
from barnabas.coordinators.groups.share.heartbeats import StateInitialization
from barnabas.model.errors import Code
from barnabas.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from barnabas.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from tests.coordinators.world import GROUP, PARTITION, Call, Cluster, World, broken_disk


def world(**limits: Any) -> World:
    return World(GroupLimits(**limits), topics=Cluster({"t": 2, "u": 1}))


def share_group(w: World) -> ShareGroup:
    found = w.shard.group(GROUP)
    assert isinstance(found, ShareGroup)
    return found


def partitions(call: Call) -> list[int] | None:
    assert call.code is Code.NONE, call.response
    if call.response.assignment is None:
        return None
    return [n for topic in call.response.assignment.topic_partitions for n in topic.partitions]


def joined(w: World, member: str = "a") -> int:
    """The epoch of a member that has its partitions."""
    w.share(member, 0, topics=["t"])
    w.initialize()
    w.advance(1_000)
    return int(w.share(member, 0, topics=["t"]).response.member_epoch)


def alter(w: World, topic: str, starts: dict[int, int]) -> Call:
    caller = w._caller(0, "admin")
    request = AlterShareGroupOffsetsRequest(
        group_id=GROUP,
        topics=[
            AlterShareGroupOffsetsRequestTopic(
                topic_name=topic,
                partitions=[
                    AlterShareGroupOffsetsRequestPartition(partition_index=n, start_offset=start)
                    for n, start in starts.items()
                ],
            )
        ],
    )
    return w._run(caller, lambda shard: shard.share.begin_alter(request, caller))


def finish(w: World, numbers: tuple[int, ...], first: Call, topic: str = "t") -> Call:
    caller = w._caller(0, "admin")
    keys = tuple((w.topics.id_of(topic), number) for number in numbers)
    return w._run(
        caller, lambda shard: shard.share.finish_alter(GROUP, keys, first.response, caller)
    )


def delete(w: World, *topics: str) -> Call:
    caller = w._caller(0, "admin")
    request = DeleteShareGroupOffsetsRequest(
        group_id=GROUP, topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=t) for t in topics]
    )
    return w._run(caller, lambda shard: shard.share.begin_delete_offsets(request, caller))


@pytest.mark.parametrize(
    "wrong",
    [
        {"member": "", "topics": ["t"]},
        {"member": "m" * 37, "topics": ["t"]},
        {"member": "a", "topics": ["t"], "group": ""},
        {"member": "a", "topics": ["t"], "rack": ""},
        {"member": "a", "topics": []},
        {"member": "a"},
        {"member": "a", "epoch": -2, "topics": ["t"]},
    ],
)
def test_a_heartbeat_that_says_too_little_is_refused(wrong: dict[str, Any]) -> None:
    w = world()
    call = w.share(**wrong)
    assert call.code is Code.INVALID_REQUEST
    assert not w.journal.batches


def test_a_member_of_no_group_and_an_unknown_member_are_refused() -> None:
    w = world()
    assert w.share("a", 1).code is Code.GROUP_ID_NOT_FOUND
    assert w.share("a", -1).code is Code.GROUP_ID_NOT_FOUND
    joined(w)
    assert w.share("b", 1).code is Code.UNKNOWN_MEMBER_ID
    assert w.share("b", -1).code is Code.UNKNOWN_MEMBER_ID


def test_a_group_has_as_many_members_as_the_broker_allows() -> None:
    w = world(share_members_max=2)
    assert w.share("a", 0, topics=["t"]).code is Code.NONE
    assert w.share("b", 0, topics=["t"]).code is Code.NONE
    assert w.share("c", 0, topics=["t"]).code is Code.GROUP_MAX_SIZE_REACHED
    assert w.share("b", 0, topics=["t"]).code is Code.NONE


def test_groups_of_other_types_are_not_share_groups() -> None:
    w = world()
    w.enter("x", ["t"])
    assert w.share("a", 0, topics=["t"]).code is Code.GROUP_ID_NOT_FOUND
    w.commit(5, group="offsets")
    assert w.share("a", 0, topics=["t"], group="offsets").code is Code.GROUP_ID_NOT_FOUND


def test_a_partition_is_assigned_once_its_state_has_begun() -> None:
    w = world()
    first = w.share("a", 0, topics=["t"])
    assert (partitions(first), first.response.heartbeat_interval_ms) == ([], 50)
    topic = w.topics.id_of("t")
    assert w.initialize() == [StateInitialization(GROUP, 1, ((topic, 0), (topic, 1)))]
    second = w.share("a", first.response.member_epoch)
    assert (partitions(second), second.response.heartbeat_interval_ms) == ([0, 1], 5_000)


def test_a_refused_initialization_is_asked_for_again_after_a_second() -> None:
    w = world()
    epoch = w.share("a", 0, topics=["t"]).response.member_epoch
    assert w.initialize(refused=True)
    assert w.share("a", epoch).response.heartbeat_interval_ms == 1_000
    assert not w.initialize()
    w.advance(1_000)
    w.share("a", epoch)
    assert w.initialize()
    assert partitions(w.share("a", epoch)) == [0, 1]


def test_an_initialization_without_an_answer_is_asked_for_again_after_30_s() -> None:
    w = world()
    epoch = w.share("a", 0, topics=["t"]).response.member_epoch
    w.shard.share.take_initializations()
    w.advance(29_000)
    w.share("a", epoch)
    assert not w.shard.share.asks
    w.advance(1_000)
    w.share("a", epoch)
    assert w.shard.share.asks


def test_another_coordinator_asks_for_what_was_not_finished() -> None:
    w = world()
    epoch = w.share("a", 0, topics=["t"]).response.member_epoch
    w.start()
    w.share("a", epoch)
    assert w.initialize()
    assert partitions(w.share("a", epoch)) == [0, 1]


def test_a_join_that_the_log_refuses_asks_for_nothing() -> None:
    w = world()
    w.journal.error = broken_disk()
    assert w.share("a", 0, topics=["t"]).code is Code.NOT_COORDINATOR
    assert not w.shard.share.asks
    assert w.shard.group(GROUP) is None
    w.journal.error = None
    assert joined(w) > 0


def test_a_silent_member_is_removed_after_its_session_timeout() -> None:
    w = world(share_session_timeout_ms=6_000)
    joined(w)
    w.advance(5_999)
    assert share_group(w).size == 1
    w.advance(1)
    assert share_group(w).size == 0


def test_a_deleted_topic_leaves_the_group() -> None:
    w = world()
    epoch = joined(w)
    w.topics.delete("t")
    w.topics_changed("t")
    w.runtime.carry_out(PARTITION, w.shard.share.forget_topics(frozenset(("t",))), w.now)
    assert not share_group(w).stored.states.topics()
    w.advance(1_000)
    assert partitions(w.share("a", epoch)) == []
    w.topics.create("t", 2)
    w.topics_changed("t")
    w.advance(1_000)
    epoch = w.share("a", share_group(w).stored.epoch).response.member_epoch
    ((_, _, keys),) = w.initialize()
    assert {topic_id for topic_id, _ in keys} == {w.topics.id_of("t")}


# Offsets


def test_altering_offsets_creates_the_group_with_a_new_epoch() -> None:
    w = world()
    first = alter(w, "t", {0: 7, 9: 1, 1: -1})
    codes = [each.error_code for each in first.response.responses[0].partitions]
    assert codes == [Code.NONE, Code.UNKNOWN_TOPIC_OR_PARTITION, Code.INVALID_REQUEST]
    assert share_group(w).stored.epoch == 1
    assert not share_group(w).stored.states.has(w.topics.id_of("t"), 0)
    assert finish(w, (0,), first).code is Code.NONE
    assert share_group(w).stored.states.has(w.topics.id_of("t"), 0)
    alter(w, "t", {0: 9})
    assert share_group(w).stored.epoch == 2


def test_offsets_of_a_group_with_members_stay() -> None:
    w = world()
    joined(w)
    assert alter(w, "t", {0: 7}).code is Code.NON_EMPTY_GROUP
    assert delete(w, "t").code is Code.NON_EMPTY_GROUP


def test_nobody_joins_while_offsets_are_changed() -> None:
    w = world()
    first = alter(w, "t", {0: 7})
    assert w.share("a", 0, topics=["t"]).code is Code.COORDINATOR_NOT_AVAILABLE
    assert alter(w, "t", {0: 8}).code is Code.COORDINATOR_NOT_AVAILABLE
    finish(w, (0,), first)
    w.share("a", 0, topics=["t"])
    ((_, _, keys),) = w.initialize()
    assert keys == ((w.topics.id_of("t"), 1),), "the altered offset is not initialized again"


def test_an_alteration_that_names_nothing_known_creates_no_group() -> None:
    w = world()
    assert alter(w, "missing", {0: 7}).code is Code.NONE
    assert w.shard.group(GROUP) is None


def test_deleted_offsets_are_forgotten_in_two_steps() -> None:
    w = world()
    epoch = joined(w)
    w.share("a", -1)
    first = delete(w, "t", "u", "missing")
    codes = [topic.error_code for topic in first.response.responses]
    assert codes == [Code.NONE, *[Code.UNKNOWN_TOPIC_OR_PARTITION] * 2]
    states = share_group(w).stored.states
    topic = w.topics.id_of("t")
    assert (list(states.deleting), states.initialized) == ([topic], {})
    w.start()  # a coordinator that fails here knows what is unfinished
    assert list(share_group(w).stored.states.deleting) == [topic]
    caller = w._caller(0, "admin")
    w._run(
        caller,
        lambda shard: shard.share.finish_delete_offsets(GROUP, [topic], first.response, caller),
    )
    assert not share_group(w).stored.states.topics()
    assert epoch


def test_a_deleted_group_leaves_nothing_behind() -> None:
    w = world()
    joined(w)
    assert w.delete(GROUP) == Code.NON_EMPTY_GROUP
    w.share("a", -1)
    assert w.delete(GROUP) == Code.NONE
    assert w.shard.group(GROUP) is None
    w.start()
    assert w.shard.group(GROUP) is None
    assert not w.limits.memory.used

"""Static members: restarts without a rebalance, twins fenced."""

from barnabas.model.errors import Code
from tests.coordinators.world import Call, World, assignment


def static_group(world: World, *instances: str) -> tuple[list[str], int]:
    """A stable group of static members: their ids, the leader first, and the generation."""
    joins = [world.join(instance=name) for name in instances]
    world.advance(9_000)
    ids = [join.response.member_id for join in joins]
    generation = joins[0].response.generation_id
    given = {id_: assignment({"t": [i]}) for i, id_ in enumerate(ids)}
    for id_, name in zip(ids[1:], instances[1:], strict=True):
        world.sync(id_, generation, instance=name)
    world.sync(ids[0], generation, given, instance=instances[0])
    return ids, generation


def test_a_static_member_joins_in_one_step_under_a_name_made_from_its_instance() -> None:
    world = World()
    ids, generation = static_group(world, "a", "b")
    assert ids == ["a-1", "b-2"]
    assert generation == 1


def test_a_restarted_static_member_finds_its_share_without_a_rebalance() -> None:
    world = World()
    ids, generation = static_group(world, "a", "b")
    back = world.join(instance="b")
    assert (back.code, back.response.generation_id) == (Code.NONE, generation)
    assert back.response.leader == ids[0]
    found = world.sync(back.response.member_id, generation, instance="b")
    assert found.response.assignment == assignment({"t": [1]})
    assert world.heartbeat(ids[0], generation, instance="a") is Code.NONE


def test_a_restarted_static_leader_must_skip_the_assignment() -> None:
    world = World()
    _, generation = static_group(world, "a", "b")
    back = world.join(instance="a").response
    assert (back.generation_id, back.skip_assignment) == (generation, True)
    assert back.leader == back.member_id
    assert len(back.members) == 2


def test_a_restarted_static_leader_of_an_old_version_does_not_learn_that_it_leads() -> None:
    world = World()
    ids, generation = static_group(world, "a", "b")
    back = world.join(instance="a", version=8).response
    assert (back.generation_id, back.skip_assignment) == (generation, False)
    assert back.leader == ids[0] != back.member_id
    assert back.members == []
    found = world.sync(back.member_id, generation, instance="a")
    assert found.response.assignment == assignment({"t": [0]})


def test_the_twin_under_the_old_id_is_fenced_everywhere() -> None:
    world = World()
    (old, _), generation = static_group(world, "a", "b")
    world.join(instance="a")
    fenced = Code.FENCED_INSTANCE_ID
    assert world.heartbeat(old, generation, instance="a") is fenced
    assert world.sync(old, generation, instance="a").code is fenced
    assert world.join(old, instance="a").code is fenced
    assert world.commit_code(5, member=old, generation=generation, instance="a") is fenced
    assert world.leave(old, instance="a").response.members[0].error_code == fenced


def test_a_twin_that_waits_is_fenced_at_once() -> None:
    world = World()
    first = world.join(instance="a")
    second = world.join(instance="a")
    assert first.code is Code.FENCED_INSTANCE_ID
    world.advance(9_000)
    assert second.code is Code.NONE
    assert len(second.response.members) == 1


def test_a_twin_that_waits_for_its_assignment_is_fenced_at_once() -> None:
    world = World()
    joins = [world.join(instance=name) for name in ("a", "b")]
    world.advance(9_000)
    waiting = world.sync(joins[1].response.member_id, 1, instance="b")
    again = world.join(instance="b")
    assert waiting.code is Code.FENCED_INSTANCE_ID
    assert again.waits  # the leader may have been told the old id: start over
    world.join(joins[0].response.member_id, instance="a")
    assert again.response.generation_id == 2


def test_a_static_member_that_is_away_keeps_its_place_until_its_session_ends() -> None:
    world = World()
    ids, generation = static_group(world, "a", "b")
    for _ in range(3):
        world.advance(3_000)
        assert world.heartbeat(ids[0], generation, instance="a") is Code.NONE
    world.advance(1_000)
    assert world.heartbeat(ids[0], generation, instance="a") is Code.REBALANCE_IN_PROGRESS


def test_an_administrator_removes_a_static_member_by_its_instance() -> None:
    world = World()
    ids, generation = static_group(world, "a", "b")
    assert world.leave("", instance="b").response.members[0].error_code == 0
    assert world.leave("", instance="x").response.members[0].error_code == Code.UNKNOWN_MEMBER_ID
    assert world.heartbeat(ids[0], generation, instance="a") is Code.REBALANCE_IN_PROGRESS


def test_a_restart_with_other_protocols_rebalances() -> None:
    world = World()
    joins = [world.join(instance=name, protocols=["range", "sticky"]) for name in ("a", "b")]
    world.advance(9_000)
    ids = [join.response.member_id for join in joins]
    world.share_out(ids, 1)
    back: Call = world.join(instance="b", protocols=["sticky"])
    assert back.waits
    world.join(ids[0], instance="a", protocols=["range", "sticky"])
    assert back.response.protocol_name == "sticky"


def test_a_restarted_member_is_found_under_its_new_id_after_the_broker_restarts_too() -> None:
    world = World()
    _, generation = static_group(world, "a", "b")
    back = world.join(instance="b").response.member_id
    world.start()
    assert world.heartbeat(back, generation, instance="b") is Code.NONE


def test_an_unknown_instance_with_a_member_id_is_unknown() -> None:
    world = World()
    (one, _), generation = static_group(world, "a", "b")
    assert world.heartbeat(one, generation, instance="x") is Code.UNKNOWN_MEMBER_ID
    assert world.join("made-up", instance="x").code is Code.UNKNOWN_MEMBER_ID

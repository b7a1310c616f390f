"""Every generation keeps its causes."""

from barnabas.coordinators.groups.story import CAUSES_MAX, CHAPTERS_MAX, Chapter, Kind, Move, Story
from barnabas.model.ids import TopicPartition
from tests.coordinators.world import World, assignment


def story(world: World) -> Story:
    group = world.shard.group("g")
    assert group is not None
    return group.story


def last(world: World) -> Chapter:
    chapter = story(world).current
    assert chapter is not None
    return chapter


def causes(world: World) -> list[tuple[Kind, str]]:
    return [(cause.kind, cause.member) for cause in last(world).causes]


def test_the_first_chapter_names_those_who_joined_and_how_long_it_took() -> None:
    world = World()
    (one, two), generation = world.stable(2)
    chapter = last(world)
    assert causes(world) == [(Kind.JOINED, one), (Kind.JOINED, two)]
    assert (chapter.generation, chapter.members, chapter.leader) == (generation, 2, one)
    assert (chapter.join_ms, chapter.sync_ms) == (6_000, 3_000)
    assert chapter.protocol == "range"


def test_a_late_member_is_named_with_how_late_it_was() -> None:
    world = World()
    (one, two), generation = world.stable(2, session=10_000)
    world.advance(9_000)
    world.heartbeat(one, generation)
    world.ms += 4_000  # the loop itself was late too
    world.deliver(world.runtime.expire(world.now))
    (cause,) = last(world).causes
    assert (cause.kind, cause.member) == (Kind.LATE_HEARTBEAT, two)
    assert (cause.waited_ms, cause.allowed_ms, cause.late_ms) == (13_000, 10_000, 3_000)


def test_a_member_that_polls_too_rarely_is_told_apart_from_a_dead_one() -> None:
    world = World()
    (one, two), _ = world.stable(2, session=1_000_000, rebalance=5_000)
    world.join(one, session=1_000_000, rebalance=5_000, reason="new partitions")
    world.advance(5_000)
    kinds = causes(world)
    assert kinds == [(Kind.LEADER_REJOINED, one), (Kind.LATE_JOIN, two)]
    assert last(world).causes[0].reason == "new partitions"


def test_a_changed_subscription_says_which_topics_came_and_went() -> None:
    world = World()
    (_, two), _ = world.stable(2, topics=["a", "b"])
    world.join(two, topics=["b", "c"])
    (cause,) = last(world).causes
    assert (cause.kind, cause.member) == (Kind.RESUBSCRIBED, two)
    assert (cause.topics_added, cause.topics_dropped) == (("c",), ("a",))


def test_what_moved_from_whom_to_whom() -> None:
    world = World()
    (one, two), generation = world.stable(2)
    world.leave(two)
    assert world.join(one).response.generation_id == generation + 1
    world.sync(one, generation + 1, {one: assignment({"t": [0, 1]})})
    chapter = last(world)
    assert [cause.kind for cause in chapter.causes] == [Kind.LEFT]
    assert chapter.moves() == [Move(TopicPartition("t", 1), two, one)]


def test_what_moved_is_known_across_a_restart() -> None:
    world = World()
    (one, two), generation = world.stable(2)
    world.start()
    world.leave(two)
    world.join(one)
    world.sync(one, generation + 1, {one: assignment({"t": [0, 1]})})
    assert last(world).moves() == [Move(TopicPartition("t", 1), two, one)]


def test_assignments_of_other_programs_have_no_moves() -> None:
    world = World()
    (one, two), generation = world.stable(2, kind="connect")
    world.leave(two)
    world.join(one, kind="connect")
    world.sync(one, generation + 1, {one: b"\xff\xff"})
    assert last(world).moves() is None


def test_a_generation_that_never_got_its_assignment_keeps_its_chapter() -> None:
    world = World()
    (one, _), (_, _) = world.new(), world.new()
    world.advance(9_000)
    world.leave(one)
    told = story(world)
    assert [chapter.generation for chapter in told.chapters] == [1]
    assert told.chapters[0].sync_ms == -1
    assert causes(world) == [(Kind.LEFT, one)]


def test_a_story_does_not_grow_without_end() -> None:
    world = World()
    (one, two), generation = world.stable(2)
    for turn in range(1, CHAPTERS_MAX + 10):
        world.join(one)
        world.join(two)
        world.share_out([one, two], generation + turn)
    told = story(world)
    assert len(told.chapters) == CHAPTERS_MAX
    for _ in range(CAUSES_MAX + 5):
        world.new()
    assert len(last(world).causes) == CAUSES_MAX
    assert last(world).more_causes == 5

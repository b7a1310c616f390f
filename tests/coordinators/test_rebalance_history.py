"""Every generation keeps its causes."""

from typing import Any

from barnabas.coordinators.groups.history.rebalance_history import (
    CAUSES_MAX,
    ENTRIES_MAX,
    LEFT_MAX,
    NOTES_MAX,
    CauseKind,
    PartitionMove,
    RebalanceCause,
    RebalanceEntry,
    RebalanceHistory,
    difference,
    is_late_poll,
)
from barnabas.coordinators.groups.history.statistics import SECONDS, RebalanceStatistics
from barnabas.coordinators.groups.history.text import cause_text, reason_text
from barnabas.coordinators.runtime import Now
from barnabas.model.ids import TopicPartition
from tests.coordinators.world import World, assignment, subscription

PLACE = "10.0.0.1:4711"


def history(world: World) -> RebalanceHistory:
    group = world.shard.group("g")
    assert group is not None
    return group.history


def last(world: World) -> RebalanceEntry:
    entry = history(world).current
    assert entry is not None
    return entry


def causes(world: World) -> list[tuple[CauseKind, str]]:
    return [(cause.kind, cause.member) for cause in last(world).causes]


def test_the_first_entry_names_those_who_joined_and_how_long_it_took() -> None:
    world = World()
    (one, two), generation = world.stable(2)
    entry = last(world)
    assert causes(world) == [(CauseKind.JOINED, one), (CauseKind.JOINED, two)]
    assert (entry.generation, entry.members, entry.leader) == (generation, 2, one)
    assert (entry.join_ms, entry.sync_ms) == (6_000, 3_000)
    assert entry.protocol == "range"


def test_a_late_member_is_named_with_how_late_it_was() -> None:
    world = World()
    (one, two), generation = world.stable(2, session=10_000)
    world.advance(9_000)
    world.heartbeat(one, generation)
    world.ms += 4_000  # the loop itself was late too
    world.deliver(world.runtime.expire(world.now))
    (cause,) = last(world).causes
    assert (cause.kind, cause.member) == (CauseKind.LATE_HEARTBEAT, two)
    assert (cause.waited_ms, cause.allowed_ms) == (13_000, 10_000)


def test_a_member_that_polls_too_rarely_is_distinguished_from_a_dead_one() -> None:
    world = World()
    (one, two), _ = world.stable(2, session=1_000_000, rebalance=5_000)
    world.join(one, session=1_000_000, rebalance=5_000, reason="new partitions")
    world.advance(5_000)
    kinds = causes(world)
    assert kinds == [(CauseKind.LEADER_REJOINED, one), (CauseKind.LATE_JOIN, two)]
    assert last(world).causes[0].reason == "new partitions"


def test_a_changed_subscription_says_which_topics_came_and_went() -> None:
    world = World()
    (_, two), _ = world.stable(2, topics=["a", "b"])
    world.join(two, topics=["b", "c"])
    (cause,) = last(world).causes
    assert (cause.kind, cause.member) == (CauseKind.RESUBSCRIBED, two)
    assert (cause.topics_added, cause.topics_dropped) == (("c",), ("a",))


def test_members_that_own_other_partitions_when_they_rejoin_are_no_cause() -> None:
    """Sticky members say what they own, so their metadata is another after every rebalance."""
    world = World()
    (one, two, three), generation = world.stable(3, protocols=["range", "cooperative-sticky"])
    world.leave(three)
    for index, member in enumerate((one, two)):
        metadata = subscription(["t"], {"t": [index]})
        call = world.join(member, protocols=["range", "cooperative-sticky"], metadata=metadata)
    assert call.response.generation_id == generation + 1
    assert causes(world) == [(CauseKind.LEFT, three)]


def test_a_member_that_rejoins_after_a_restart_has_not_changed_its_protocols() -> None:
    """The log has one protocol of each member only."""
    world = World()
    protocols = ["range", "cooperative-sticky"]
    (one, two), _ = world.stable(2, protocols=protocols)
    world.start()
    world.leave(two)
    world.join(one, protocols=protocols)
    assert causes(world) == [(CauseKind.LEFT, two)]


def test_a_member_that_rejoins_after_a_restart_with_other_topics_has_changed_them() -> None:
    world = World()
    (one, two), _ = world.stable(2)
    world.start()
    world.leave(two)
    world.join(one, topics=["u"])
    assert causes(world) == [(CauseKind.LEFT, two), (CauseKind.RESUBSCRIBED, one)]


def test_a_member_that_adds_a_protocol_during_a_rebalance_is_a_cause() -> None:
    world = World()
    (one, two, three), _ = world.stable(3)
    world.leave(three)
    world.join(one)
    world.join(two, protocols=["range", "roundrobin"])
    assert causes(world) == [(CauseKind.LEFT, three), (CauseKind.RESUBSCRIBED, two)]


def test_a_member_that_gives_up_partitions_asks_for_a_new_assignment() -> None:
    """The second rebalance of the cooperative assignor."""
    world = World()
    (_, two), _ = world.stable(2)
    world.join(two, metadata=subscription(["t"], {"t": []}), reason="need to revoke [t-1]")
    (cause,) = last(world).causes
    assert (cause.kind, cause.member) == (CauseKind.METADATA_CHANGED, two)
    assert cause_text(cause).endswith("other metadata than before: need to revoke [t-1]")


def test_metadata_of_other_programs_that_changes_is_no_new_subscription() -> None:
    world = World()
    (one, two), _ = world.stable(2, kind="connect")
    world.leave(two)
    world.join(one, kind="connect", metadata=b"\0\x01 other bytes")
    assert causes(world) == [(CauseKind.LEFT, two)]


def test_what_moved_from_whom_to_whom() -> None:
    world = World()
    (one, two), generation = world.stable(2)
    world.leave(two)
    assert world.join(one).response.generation_id == generation + 1
    world.sync(one, generation + 1, {one: assignment({"t": [0, 1]})})
    entry = last(world)
    assert [cause.kind for cause in entry.causes] == [CauseKind.LEFT]
    assert entry.moves() == [PartitionMove(TopicPartition("t", 1), two, one)]


def test_what_moved_is_known_across_a_restart() -> None:
    world = World()
    (one, two), generation = world.stable(2)
    world.start()
    world.leave(two)
    world.join(one)
    world.sync(one, generation + 1, {one: assignment({"t": [0, 1]})})
    assert last(world).moves() == [PartitionMove(TopicPartition("t", 1), two, one)]


def test_assignments_of_other_programs_have_no_moves() -> None:
    world = World()
    (one, two), generation = world.stable(2, kind="connect")
    world.leave(two)
    world.join(one, kind="connect")
    world.sync(one, generation + 1, {one: b"\xff\xff"})
    assert last(world).moves() is None


def test_a_generation_that_never_got_its_assignment_keeps_its_entry() -> None:
    world = World()
    (one, _), (_, _) = world.new(), world.new()
    world.advance(9_000)
    world.leave(one)
    told = history(world)
    assert [entry.generation for entry in told.entries] == [1]
    assert told.entries[0].sync_ms == -1
    assert causes(world) == [(CauseKind.LEFT, one)]


def test_a_history_does_not_grow_without_end() -> None:
    world = World()
    (one, two), generation = world.stable(2)
    for turn in range(1, ENTRIES_MAX + 10):
        world.join(one)
        world.join(two)
        world.share_out([one, two], generation + turn)
    told = history(world)
    assert len(told.entries) == ENTRIES_MAX
    for _ in range(CAUSES_MAX + 5):
        world.new()
    assert len(last(world).causes) == CAUSES_MAX
    assert last(world).more_causes == 5


def at(ms: int) -> Now:
    return Now(ms, ms)


def tell(told: RebalanceHistory, *causes: RebalanceCause, ms: int = 0) -> None:
    """One whole rebalance."""
    for cause in causes:
        told.happened(cause, at(ms))
    told.joined(1, 1, "range", "a", at(ms))
    told.assigned({"a": b""}, at(ms))


def test_a_member_that_returns_on_its_connection_has_lived_on() -> None:
    """Not a restart: a process that ends closes its connections."""
    told = RebalanceHistory()
    tell(told, RebalanceCause(CauseKind.LEFT, "a", connection=PLACE), ms=1_000)
    tell(told, RebalanceCause(CauseKind.JOINED, "b", connection="10.0.0.1:9999"), ms=2_000)
    tell(told, RebalanceCause(CauseKind.JOINED, "c", connection=PLACE), ms=6_000)
    tell(told, RebalanceCause(CauseKind.JOINED, "d", connection=PLACE), ms=7_000)
    kinds = [(entry.causes[0].kind, entry.causes[0].waited_ms) for entry in told.entries]
    assert kinds == [
        (CauseKind.LEFT, 0),
        (CauseKind.JOINED, 0),
        (CauseKind.RETURNED, 5_000),
        (CauseKind.JOINED, 0),
    ]


def test_those_who_left_are_not_remembered_without_end() -> None:
    told = RebalanceHistory()
    for port in range(LEFT_MAX + 1):
        tell(told, RebalanceCause(CauseKind.LEFT, "a", connection=f"h:{port}"))
    tell(told, RebalanceCause(CauseKind.JOINED, "a", connection="h:0"))
    tell(told, RebalanceCause(CauseKind.JOINED, "a", connection="h:1"))
    assert [entry.causes[0].kind for entry in told.entries][-2:] == [
        CauseKind.JOINED,
        CauseKind.RETURNED,
    ]


def test_a_client_that_says_why_it_leaves_is_believed() -> None:
    assert is_late_poll("consumer poll timeout has expired.")
    assert is_late_poll("no messages were asked for in 300000 ms (max.poll.interval.ms)")
    assert not is_late_poll("the consumer is being closed")
    assert not is_late_poll(None)


def test_the_last_to_join_is_who_the_others_waited_for() -> None:
    world = World()
    (one, two), _ = world.stable(2)
    third, _ = world.new()
    world.advance(1_000)
    world.join(two)
    world.advance(4_000)
    world.join(one)
    last_one = last(world).last
    assert last_one is not None
    assert (last_one.member, last_one.after_ms) == (one, 5_000)
    assert third != one


def test_a_static_member_that_comes_back_in_peace_is_a_note() -> None:
    world = World()
    first = world.join(instance="i")
    world.advance(9_000)
    old = first.response.member_id
    world.share_out([old], first.response.generation_id)
    back = world.join(instance="i")
    told = history(world)
    assert [(note.cause.kind, note.cause.instance) for note in told.notes] == [
        (CauseKind.REPLACED, "i")
    ]
    assert len(told.entries) == 1
    # The one it replaced was not gone after all.
    world.heartbeat(old, back.response.generation_id, instance="i")
    world.heartbeat(old, back.response.generation_id, instance="i")
    note = told.notes[-1]
    assert (note.cause.kind, note.cause.member, note.times) == (CauseKind.FENCED, old, 2)


def test_notes_do_not_grow_without_end() -> None:
    told = RebalanceHistory()
    for number in range(NOTES_MAX + 5):
        told.noted(RebalanceCause(CauseKind.REPLACED, str(number)), at(number))
    assert len(told.notes) == NOTES_MAX


def test_all_stories_together_stay_within_their_bound() -> None:
    """The oldest entries go first, whosever they are."""
    statistics = RebalanceStatistics(bytes_max=10_000)
    old, new = (
        RebalanceHistory(group="old", listener=statistics),
        RebalanceHistory(group="new", listener=statistics),
    )
    tell(old, RebalanceCause(CauseKind.JOINED, "a"))
    for _ in range(30):
        tell(new, RebalanceCause(CauseKind.JOINED, "a" * 500))
    assert not old.entries
    assert 5 <= len(new.entries) < 10
    assert statistics.bytes <= 10_000
    assert statistics.rebalances[CauseKind.JOINED] == 31
    assert [told.group for told in statistics.take()] == ["old"] + ["new"] * 30
    assert statistics.take() == []


def test_phases_are_counted_in_buckets() -> None:
    statistics = RebalanceStatistics()
    told = RebalanceHistory(listener=statistics)
    told.happened(RebalanceCause(CauseKind.JOINED), at(0))
    told.joined(1, 1, "range", "a", at(3_000))
    told.assigned({}, at(3_020))
    assert statistics.join.counts[SECONDS.index(3.0)] == 1
    assert statistics.sync.counts[SECONDS.index(0.05)] == 1
    assert (statistics.join.sum_s, statistics.sync.sum_s) == (3.0, 0.02)
    told.happened(RebalanceCause(CauseKind.JOINED), at(4_000))
    told.joined(2, 1, "range", "a", at(4_000))
    told.happened(RebalanceCause(CauseKind.LEFT), at(5_000))
    assert statistics.overtaken == 1


def test_topics_of_a_subscription_are_listed_up_to_a_limit() -> None:
    added, dropped = difference(["a"], [f"t{number}" for number in range(1_000)])
    assert (len(added), dropped) == (20, ("a",))


def test_causes_read_as_sentences() -> None:
    def by(kind: CauseKind, **given: Any) -> RebalanceCause:
        return RebalanceCause(kind, "c-1", "c", "/10.0.0.1", **given)

    said = {
        cause_text(by(CauseKind.JOINED)): "c-1 at 10.0.0.1 joined",
        cause_text(RebalanceCause(CauseKind.JOINED, "Uw3rTg0qQmS", "c")): "c-Uw3rTg0q joined",
        cause_text(by(CauseKind.LEFT, reason="closed")): "c-1 at 10.0.0.1 left: closed",
        cause_text(
            by(CauseKind.LATE_HEARTBEAT, waited_ms=45_200, allowed_ms=45_000)
        ): "c-1 at 10.0.0.1 sent no heartbeat for 45.2 s; its session timeout is 45 s",
        cause_text(
            by(CauseKind.REPLACED, instance="i")
        ): "c-1, instance i at 10.0.0.1 came back under its instance id",
        cause_text(
            by(CauseKind.RESUBSCRIBED, topics_added=("t", "u"), topics_dropped=("v",))
        ): "c-1 at 10.0.0.1 changed its subscription or protocols, added t, u, dropped v",
        cause_text(
            RebalanceCause(CauseKind.NOT_STORED)
        ): "the broker could not write the assignment to its log",
    }
    for sentence, expected in said.items():
        assert sentence == expected


def test_why_names_the_first_cause_and_counts_the_others() -> None:
    entry = RebalanceEntry(
        at(0),
        [RebalanceCause(CauseKind.JOINED, "a"), RebalanceCause(CauseKind.LEFT, "b")],
        more_causes=3,
    )
    assert reason_text(entry) == "a joined, and 4 more"
    assert reason_text(RebalanceEntry(at(0))) == "the cause is not known"

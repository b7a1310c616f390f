"""Consumer groups: topics, patterns, commits, and what survives a restart."""

from barnabas.coordinators.groups.limits import GroupLimits
from barnabas.model.errors import Code
from tests.coordinators.consumer_groups import stored, told, two_members, world
from tests.coordinators.world import GROUP, Cluster, World, broken_disk, given

# --- topics ---------------------------------------------------------------------------------------


def test_partitions_that_are_added_are_shared_out() -> None:
    w = world()
    two_members(w)
    w.advance(1_000)
    w.topics.grow("t", 6)
    w.topics_changed("t")
    shares = [told(w, w.beat(name, 2))[1] for name in "ab"]
    assert sorted(p for share in shares for p in share or []) == [0, 1, 2, 3, 4, 5]
    assert stored(w).epoch == 3


def test_topics_of_others_change_nothing() -> None:
    w = world()
    two_members(w)
    w.topics.create("other", 3)
    w.topics_changed("other")
    assert told(w, w.beat("a", 2)) == (2, None)
    assert stored(w).epoch == 2


def test_a_deleted_topic_is_given_up_and_its_namesake_is_another() -> None:
    w = world()
    w.enter("a")
    w.advance(1_000)
    w.topics.delete("t")
    w.topics_changed("t")
    assert told(w, w.beat("a", 1)) == (1, [])
    assert told(w, w.beat("a", 1, owned={})) == (2, None)
    w.topics.create("t", 2)
    w.topics_changed("t")
    w.advance(1_000)
    assert told(w, w.beat("a", 2)) == (3, [0, 1])


def test_what_is_unsubscribed_from_goes_before_the_next_target() -> None:
    w = World(topics=Cluster({"t": 2, "u": 2}))
    w.enter("a", ["t", "u"])
    gone = w.beat("a", 1, topics=["t"])
    assert given(gone, w.topics) == {"t": [0, 1]}
    assert gone.response.member_epoch == 1
    w.advance(1_000)
    assert w.beat("a", 1, owned={"t": [0, 1]}).response.member_epoch == 2


# --- patterns -------------------------------------------------------------------------------------


def test_a_pattern_follows_the_topics() -> None:
    w = World(topics=Cluster({"logs-a": 1, "logs-b": 1, "other": 1}))
    assert given(w.enter("a", [], regex="logs-.*"), w.topics) == {"logs-a": [0], "logs-b": [0]}
    assert stored(w).regexes == {"logs-.*": ("logs-a", "logs-b")}
    w.advance(1_000)
    w.topics.create("logs-c", 1)
    w.topics_changed("logs-c")
    assert given(w.beat("a", 1), w.topics) == {"logs-a": [0], "logs-b": [0], "logs-c": [0]}
    w.advance(1_000)
    assert given(w.beat("a", 2, topics=["other"], regex=""), w.topics) == {}
    assert stored(w).regexes == {}


def test_a_pattern_goes_with_the_last_who_had_it() -> None:
    w = World(topics=Cluster({"logs": 2}))
    w.enter("a", [], regex="l.*")
    w.enter("b", [], regex="l.*")
    w.beat("a", -1)
    assert stored(w).regexes
    w.beat("b", -1)
    assert not stored(w).regexes


def test_a_pattern_that_cannot_be_read_is_refused_and_changes_nothing() -> None:
    w = world()
    refused = w.enter("a", regex="(")
    assert refused.code is Code.INVALID_REGULAR_EXPRESSION
    assert w.state() is None


# --- commits --------------------------------------------------------------------------------------


def test_commits_carry_the_epoch_of_their_member() -> None:
    w = world()
    two_members(w)
    assert w.commit_code(5, member="a", generation=2) is Code.NONE
    assert w.commit_code(5, member="b", generation=2) is Code.NONE  # it may commit anything
    assert w.commit_code(5, member="a", generation=3) is Code.STALE_MEMBER_EPOCH
    assert w.commit_code(5, member="x", generation=2) is Code.UNKNOWN_MEMBER_ID
    assert w.commit_code(5, generation=-1) is Code.UNKNOWN_MEMBER_ID
    assert w.commit_code(5, member="a", generation=2, version=8) is Code.UNSUPPORTED_VERSION
    assert w.commit_code(5, member="a", generation=2, group="x") is Code.GROUP_ID_NOT_FOUND


def test_an_older_epoch_may_commit_what_it_already_had() -> None:
    w = world()
    two_members(w)
    assert w.commit_code(7, member="a", generation=1, partition=0) is Code.NONE
    assert w.commit_code(7, member="a", generation=1, partition=2) is Code.STALE_MEMBER_EPOCH
    assert w.commit_code(7, member="b", generation=1, partition=2) is Code.STALE_MEMBER_EPOCH


def test_offsets_are_returned_to_members_of_the_right_epoch_and_to_non_members() -> None:
    w = world()
    w.enter("a")
    check = w.shard.check_fetch
    assert check(GROUP, None, -1) is Code.NONE
    assert check(GROUP, "a", 1) is Code.NONE
    assert check(GROUP, "a", 0) is Code.STALE_MEMBER_EPOCH
    assert check(GROUP, "b", 1) is Code.UNKNOWN_MEMBER_ID
    assert check("nothing", "b", 1) is Code.NONE


# --- the group as such ----------------------------------------------------------------------------


def test_a_group_with_members_is_not_deleted_an_empty_one_leaves_nothing() -> None:
    w = world()
    w.enter("a")
    w.commit(3, member="a", generation=1)
    assert w.delete() is Code.NON_EMPTY_GROUP
    w.beat("a", -1)
    assert w.delete() is Code.NONE
    assert w.state() is None
    w.start()
    assert w.state() is None
    assert not w.shard.consumers


def test_an_empty_group_out_of_retention_leaves_nothing() -> None:
    w = world()
    w.enter("a")
    w.commit(3, member="a", generation=1)
    w.beat("a", -1)
    w.advance(8 * 24 * 3_600_000)
    assert w.state() is None
    assert w.fetch()[0] == -1


def test_offsets_of_what_is_subscribed_to_stay() -> None:
    w = world(consumer_session_timeout_ms=2**31)
    w.enter("a")
    w.commit(3, member="a", generation=1)
    w.commit(3, member="a", generation=1, topic="u")
    w.advance(8 * 24 * 3_600_000)
    assert w.fetch("t")[0] == 3
    assert w.fetch("u")[0] == -1


def test_a_restart_finds_everybody_where_they_were() -> None:
    w = world()
    two_members(w)
    before = w.shard.consumers
    w.start()
    assert w.shard.consumers == before
    assert told(w, w.beat("a", 2)) == (2, None)
    w.advance(44_000)
    w.beat("a", 2)
    w.advance(1_000)  # b has not been heard since the restart
    assert list(stored(w).members) == ["a"]


def test_a_restart_between_giving_up_and_saying_so() -> None:
    w = world()
    w.enter("a", rebalance=10_000)
    w.advance(1_000)
    w.enter("b")
    w.beat("a", 1)
    w.start()
    assert told(w, w.beat("b", 2)) == (2, None)
    w.advance(10_000)  # the rebalance timeout counts from the restart
    assert w.beat("a", 1).code is Code.UNKNOWN_MEMBER_ID
    assert told(w, w.beat("b", 2)) == (3, [0, 1, 2, 3])


def test_what_the_log_does_not_take_has_not_happened() -> None:
    w = world()
    two_members(w)
    w.advance(1_000)
    w.journal.error = broken_disk()
    assert w.enter("c").code is Code.NOT_COORDINATOR
    assert w.beat("b", -1).code is Code.NOT_COORDINATOR
    w.journal.error = None
    assert list(stored(w).members) == ["a", "b"]
    assert told(w, w.beat("b", 2)) == (2, None)
    w.topics.grow("t", 5)
    w.topics_changed("t")
    w.journal.error = broken_disk()
    w.beat("a", 2)
    w.journal.error = None
    w.beat("a", 2)
    assert stored(w).epoch == 3


def test_an_answer_waits_until_its_records_are_committed() -> None:
    w = world()
    w.journal.lagging = True
    joined = w.enter("a")
    assert joined.waits
    w.journal.high_watermark = w.journal.end
    w.deliver(w.runtime.watermark_moved(0))
    assert told(w, joined) == (1, [0, 1, 2, 3])


def test_a_heartbeat_with_nothing_new_writes_nothing() -> None:
    w = world()
    two_members(w)
    written = len(w.journal.batches)
    for _ in range(10):
        w.beat("a", 2)
        w.beat("b", 2, owned={"t": [2, 3]})
    assert len(w.journal.batches) == written


def test_a_group_keeps_a_history_of_its_rebalances() -> None:
    w = world()
    w.enter("a", client="one")
    w.advance(1_000)
    w.enter("b", client="two")
    w.beat("a", 1, client="one")
    w.advance(300)
    w.beat("a", 1, owned={"t": [0, 1]}, client="one")
    w.advance(100)
    w.beat("b", 2, client="two")
    group = w.shard.group(GROUP)
    assert group is not None
    first, second = group.history.entries
    assert [cause.kind.name for cause in first.causes + second.causes] == ["JOINED", "JOINED"]
    assert (second.generation, second.members, second.sync_ms) == (2, 2, 400)
    assert second.last is not None
    assert second.last.client == "one"  # for whom two had to wait
    moves = second.moves()
    assert moves is not None
    assert [(m.partition.partition, m.before, m.after) for m in moves] == [
        (2, "a", "b"),
        (3, "a", "b"),
    ]


def test_members_that_say_again_what_they_subscribe_to_are_no_cause_of_an_epoch() -> None:
    w = world()
    two_members(w)
    w.advance(1_000)
    w.beat("b", -1)
    w.beat("a", 2, topics=["t", "t"], owned={"t": [0, 1]}, rebalance=60_000)
    w.enter("a")  # as after an error: it joins again
    group = w.shard.group(GROUP)
    assert group is not None
    entry = group.history.current
    assert entry is not None
    assert [(cause.kind.name, cause.member) for cause in entry.causes] == [("LEFT", "b")]


def test_a_missing_group_is_distinguished_from_a_classic_one() -> None:
    w = world()
    absent = w.beat("a", 3)
    assert absent.code is Code.GROUP_ID_NOT_FOUND
    assert absent.response.error_message == f"there is no consumer group {GROUP!r}"
    w.new()
    classic = w.beat("a", -1)
    assert classic.code is Code.GROUP_ID_NOT_FOUND
    assert "uses the classic protocol" in classic.response.error_message


# --- settings of single groups --------------------------------------------------------------------


def test_a_group_has_the_session_timeout_of_its_own_settings() -> None:
    own: dict[str, dict[str, int]] = {"other": {"consumer_session_timeout_ms": 90_000}}
    w = World(GroupLimits(groups=own), topics=Cluster({"t": 4}))
    w.enter("a")
    own[GROUP] = {"consumer_session_timeout_ms": 60_000}
    w.shard.configured(GROUP)
    w.beat("a", 1)
    w.advance(59_000)
    assert w.beat("a", 1).code is Code.NONE, "45 s are the broker's"
    del own[GROUP]
    w.shard.configured(GROUP)
    w.beat("a", 1)
    w.advance(46_000)
    assert w.beat("a", 1).code is Code.UNKNOWN_MEMBER_ID


def test_settings_of_a_group_outlive_a_restart() -> None:
    own = {GROUP: {"consumer_heartbeat_interval_ms": 9_000}}
    w = World(GroupLimits(groups=own), topics=Cluster({"t": 4}))
    w.enter("a")
    w.start()
    assert w.beat("a", 1).response.heartbeat_interval_ms == 9_000

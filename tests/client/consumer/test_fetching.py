"""What is fetched from whom, and what answers mean: no socket in sight."""

from barnabas.client.consumer.fetch_session import FetchSession, PartitionFetch
from barnabas.client.consumer.fetching import FetchLimits, FetchPlanner
from barnabas.client.consumer.positions import FetchPosition, ReadPositions
from barnabas.model.errors import Code
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.fetch import EpochEndOffset, FetchRequest
from tests.client.fetched import AT, ID, OTHER, batch, fetched, response, view

LIMITS = FetchLimits(partition_bytes_max=1000, bytes_max=5000)


def started(*partitions: TopicPartition) -> tuple[ReadPositions, FetchPlanner]:
    progress = ReadPositions()
    progress.add(partitions or (AT,))
    for at in partitions or (AT,):
        progress[at].seek(FetchPosition(0))
    return progress, FetchPlanner(progress, LIMITS, committed_only=True)


def asked(request: FetchRequest) -> list[tuple[int, int]]:
    return [(p.partition, p.fetch_offset) for topic in request.topics for p in topic.partitions]


def test_each_leader_is_asked_for_its_partitions_once_at_a_time() -> None:
    _, fetching = started(AT, OTHER)
    asks, stale = fetching.plan(view(1, 2), now=0)
    assert [(ask.broker, asked(ask.request)) for ask in asks] == [(1, [(0, 0)]), (2, [(1, 0)])]
    assert not stale
    assert fetching.plan(view(1, 2), now=0) == ([], False)


def test_a_session_names_only_what_changed() -> None:
    progress, fetching = started(AT, OTHER)
    fetching.plan(view(1, 1), now=0)
    answer = response(fetched(batch(0, 2)), fetched(partition=1), session=9)
    fetching.answered(1, answer, view(1, 1), now=0)
    [(_, request, _)], _ = fetching.plan(view(1, 1), now=0)
    assert (request.session_id, request.session_epoch) == (9, 1)
    assert asked(request) == [(0, 2)]
    fetching.answered(1, response(session=9), view(1, 1), now=0)
    progress.remove([AT])
    [(_, request, _)], _ = fetching.plan(view(1, 1), now=0)
    assert request.session_epoch == 2
    assert request.forgotten_topics_data[0].partitions == [0]


def test_a_session_the_broker_forgot_starts_again() -> None:
    _, fetching = started(AT)
    fetching.plan(view(1), now=0)
    fetching.answered(1, response(fetched(), session=9), view(1), now=0)
    fetching.plan(view(1), now=0)
    lost = response(error=Code.FETCH_SESSION_ID_NOT_FOUND)
    assert fetching.answered(1, lost, view(1), now=0).stale is False
    [(_, request, _)], _ = fetching.plan(view(1), now=0)
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert asked(request) == [(0, 0)]


def test_a_leader_of_before_is_not_asked_though_a_broker_names_it_again() -> None:
    """It may lack what was read from the leader after it, and call it out of range (KIP-320)."""
    _, fetching = started(AT)
    fetching.plan(view(2, epoch=4), now=0)
    fetching.answered(2, response(fetched(batch(0, 5, leader_epoch=4))), view(2, epoch=4), now=0)
    assert fetching.plan(view(1, epoch=3), now=0) == ([], True)
    later = LIMITS.backoff_ms
    [(broker, request, _)], stale = fetching.plan(view(2, epoch=4), now=later)
    assert (broker, asked(request), stale) == (2, [(0, 5)], False)


def test_a_leader_from_before_the_committed_offset_is_not_asked() -> None:
    """Unless no newer one is named for long: the offset may be of a topic that was deleted."""
    progress, fetching = started(AT)
    one = progress.get(AT)
    assert one is not None
    one.seek(FetchPosition(5, 4))
    assert fetching.plan(view(1, epoch=3), now=1) == ([], True)
    assert fetching.plan(view(1, epoch=3), now=9_999) == ([], True)
    asks, stale = fetching.plan(view(1, epoch=3), now=20_000)
    assert ([broker for broker, *_ in asks], stale) == ([1], False)


def test_a_topic_made_again_begins_with_low_leader_epochs_and_is_read() -> None:
    _, fetching = started(AT)
    fetching.plan(view(2, epoch=4), now=0)
    fetching.answered(2, response(fetched(batch(0, 5, leader_epoch=4))), view(2, epoch=4), now=0)
    again = type(ID)(int=8)
    [(broker, _, _)], stale = fetching.plan(view(1, epoch=0, topic_id=again), now=0)
    assert (broker, stale) == (1, False)


def test_a_topic_created_again_is_forgotten_under_its_old_id() -> None:
    session = FetchSession()
    session.request({AT: PartitionFetch(ID, 0, 0, -1, 10)})
    session.answered(response(session=5))
    other = type(ID)(int=8)
    parts = session.request({AT: PartitionFetch(other, 0, 0, -1, 10)})
    assert [topic.topic_id for topic in parts.forgotten] == [ID]
    assert [topic.topic_id for topic in parts.topics] == [other]


def test_a_partition_with_enough_fetched_ahead_waits_and_the_others_do_not_wait_long() -> None:
    progress, fetching = started(AT, OTHER)
    fetching.plan(view(1, 1), now=0)
    fetching.answered(1, response(fetched(batch(0, 5, size=300))), view(1, 1), now=0)
    [(_, request, _)], _ = fetching.plan(view(1, 1), now=0)
    assert asked(request) == [(1, 0)]
    assert request.max_wait_ms < LIMITS.wait_ms_max
    fetching.answered(1, response(), view(1, 1), now=0)
    while progress.readable:
        progress.take(100)
    [(_, request, _)], _ = fetching.plan(view(1, 1), now=0)
    assert asked(request) == [(0, 5), (1, 0)]
    assert request.max_wait_ms == LIMITS.wait_ms_max


def test_nothing_is_fetched_while_all_of_the_memory_is_taken() -> None:
    progress, fetching = started(AT, OTHER)
    progress[AT].buffered = LIMITS.bytes_max
    assert fetching.plan(view(1, 1), now=0) == ([], False)


def test_paused_and_unplaced_partitions_are_not_asked_for() -> None:
    progress, fetching = started(AT, OTHER)
    progress[AT].paused = True
    progress.remove([OTHER])
    progress.add([OTHER])
    assert fetching.plan(view(1, 1), now=0) == ([], False)


def test_the_answer_to_a_fetch_from_elsewhere_is_dropped() -> None:
    progress, fetching = started(AT)
    fetching.plan(view(1), now=0)
    progress[AT].seek(FetchPosition(50))
    fetching.answered(1, response(fetched(batch(0, 2))), view(1), now=0)
    assert not progress.readable
    assert progress[AT].offset == 50


def test_what_the_old_leader_and_the_new_one_both_send_is_taken_once() -> None:
    progress, fetching = started(AT)
    fetching.plan(view(1), now=0)
    [(broker, request, _)], _ = fetching.plan(view(2), now=0)
    assert (broker, asked(request)) == (2, [(0, 0)])
    for each in (2, 1):
        fetching.answered(each, response(fetched(batch(0, 2))), view(2), now=0)
    assert [message.offset for message in progress.take(100)] == [0, 1]
    assert progress[AT].failed is None
    assert asked(fetching.plan(view(2), now=0)[0][0].request) == [(0, 2)]


def test_a_partition_that_moved_is_asked_for_after_a_new_picture_and_a_pause() -> None:
    progress, fetching = started(AT)
    fetching.plan(view(1), now=0)
    moved = response(fetched(error=Code.NOT_LEADER_OR_FOLLOWER))
    assert fetching.answered(1, moved, view(1), now=0).stale
    assert fetching.plan(view(2), now=1) == ([], False)
    assert fetching.next_deadline() == LIMITS.backoff_ms
    [ask], _ = fetching.plan(view(2), now=LIMITS.backoff_ms)
    assert ask.broker == 2
    assert fetching.next_deadline() is None
    assert progress[AT].failed is None


def test_no_leader_means_that_the_picture_is_out_of_date() -> None:
    _, fetching = started(AT)
    assert fetching.plan(view(-1), now=0) == ([], True)


def test_what_will_not_pass_is_kept_for_the_reader() -> None:
    progress, fetching = started(AT)
    fetching.plan(view(1), now=0)
    refused = response(fetched(error=Code.TOPIC_AUTHORIZATION_FAILED))
    assert not fetching.answered(1, refused, view(1), now=0).stale
    assert "t-0, offset 0" in str(progress[AT].failed)


def test_a_near_replica_is_read_until_it_fails() -> None:
    progress, fetching = started(AT)
    fetching.plan(view(1), now=0)
    fetching.answered(1, response(fetched(replica=2)), view(1), now=0)
    [ask], _ = fetching.plan(view(1), now=0)
    assert ask.broker == 2
    behind = response(fetched(error=Code.OFFSET_OUT_OF_RANGE))
    assert fetching.answered(2, behind, view(1), now=0).out_of_range == ()
    [ask], _ = fetching.plan(view(1), now=0)
    assert ask.broker == 1
    assert fetching.answered(1, behind, view(1), now=0).out_of_range == (AT,)
    assert progress[AT].replica == -1


def test_a_log_that_was_cut_says_where_it_ends_now() -> None:
    progress, fetching = started(AT)
    progress[AT].seek(FetchPosition(50, 3))
    [ask], _ = fetching.plan(view(1), now=0)
    assert ask.request.topics[0].partitions[0].last_fetched_epoch == 3
    fields = {name: getattr(fetched(), name) for name in fetched().creation_order}
    cut = type(fetched())(**(fields | {"diverging_epoch": EpochEndOffset(epoch=2, end_offset=40)}))
    assert fetching.answered(1, response(cut), view(1), now=0).truncated == {
        AT: FetchPosition(40, 2)
    }


def test_a_broker_that_is_lost_is_asked_again_with_everything() -> None:
    _, fetching = started(AT)
    fetching.plan(view(1), now=0)
    fetching.answered(1, response(fetched(), session=9), view(1), now=0)
    fetching.plan(view(1), now=0)
    fetching.lost(1, now=0)
    [(_, request, _)], _ = fetching.plan(view(1), now=1000)
    assert (request.session_id, request.session_epoch) == (9, 0)
    assert asked(request) == [(0, 0)]
    assert fetching.closing_requests() == []  # one is under way


def test_an_epoch_that_the_leader_does_not_know_is_not_the_end_of_a_place() -> None:
    progress, fetching = started(AT)
    progress[AT].seek(FetchPosition(50, 3))
    fetching.plan(view(1), now=0)
    unknown = response(fetched(error=Code.OFFSET_OUT_OF_RANGE))
    assert fetching.answered(1, unknown, view(1), now=0).out_of_range == ()
    [ask], _ = fetching.plan(view(1), now=0)
    asked_again = ask.request.topics[0].partitions[0]
    assert (asked_again.fetch_offset, asked_again.last_fetched_epoch) == (50, -1)
    assert fetching.answered(1, unknown, view(1), now=0).out_of_range == (AT,)

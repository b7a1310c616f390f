"""Markers on their way to the leaders of partitions."""

from itertools import count

from barnabas.coordinators.transactions.markers import (
    NO_LEADER,
    REQUEST_PARTITIONS_MAX,
    RETRY_MS,
    RETRY_MS_MAX,
    MarkerQueue,
    MarkersDue,
    MarkersWritten,
)
from barnabas.model.errors import Code
from barnabas.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

SHARD = 3


class Cluster:
    """Who leads what; what is not named is deleted."""

    def __init__(self, leaders: dict[tuple[str, int], int]) -> None:
        self.leaders = leaders

    def leader_of(self, topic: str, partition: int) -> int | None:
        return self.leaders.get((topic, partition))


_ids = count(1)


def due(id_: str, *partitions: tuple[str, int], producer_id: int | None = None) -> MarkersDue:
    named: dict[str, frozenset[int]] = {}
    for topic, index in partitions:
        named[topic] = named.get(topic, frozenset()) | {index}
    producer_id = next(_ids) if producer_id is None else producer_id
    return MarkersDue(id_, producer_id, 4, True, 9, 2, named)


def answer(
    request: WriteTxnMarkersRequest, codes: dict[tuple[str, int], Code] | None = None
) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(
                                partition_index=index,
                                error_code=(codes or {}).get((topic.name, index), Code.NONE),
                            )
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def told(request: WriteTxnMarkersRequest) -> set[tuple[str, int]]:
    return {
        (topic.name, index)
        for marker in request.markers
        for topic in marker.topics
        for index in topic.partition_indexes
    }


def test_each_leader_gets_its_partitions_of_all_transactions_in_one_request() -> None:
    queue = MarkerQueue(Cluster({("t", 0): 1, ("t", 1): 2, ("u", 0): 1}))
    first, second = due("a", ("t", 0), ("t", 1)), due("b", ("u", 0))
    queue.add(SHARD, first)
    queue.add(SHARD + 1, second)
    requests, done = queue.requests(0)
    assert not done
    sent = dict(requests)
    assert told(sent[1]) == {("t", 0), ("u", 0)}
    assert told(sent[2]) == {("t", 1)}
    marker = sent[2].markers[0]
    assert (marker.producer_id, marker.producer_epoch) == (first.producer_id, 4)
    assert (marker.transaction_result, marker.coordinator_epoch) == (True, 9)
    assert marker.transaction_version == 2
    assert queue.answered(1, answer(sent[1]), 0) == {
        SHARD: [MarkersWritten("a", first.producer_id, 4, [("t", 0)])],
        SHARD + 1: [MarkersWritten("b", second.producer_id, 4, [("u", 0)])],
    }
    assert len(queue) == 1
    queue.answered(2, answer(sent[2]), 0)
    assert len(queue) == 0
    assert queue.requests(0) == ([], {})


def test_a_broker_has_one_request_at_a_time_and_the_rest_goes_together() -> None:
    queue = MarkerQueue(Cluster({("t", 0): 1, ("t", 1): 1}))
    queue.add(SHARD, due("a", ("t", 0)))
    ((_, first),), _ = queue.requests(0)
    queue.add(SHARD, due("b", ("t", 0)))
    queue.add(SHARD, due("c", ("t", 1)))
    assert queue.requests(0) == ([], {})
    queue.answered(1, answer(first), 0)
    ((_, second),), _ = queue.requests(0)
    assert len(second.markers) == 2


def test_what_failed_goes_to_the_new_leader_after_a_pause() -> None:
    cluster = Cluster({("t", 0): 1, ("t", 1): 1})
    queue = MarkerQueue(cluster)
    queue.add(SHARD, due("a", ("t", 0), ("t", 1), producer_id=7))
    ((_, request),), _ = queue.requests(0)
    cluster.leaders["t", 1] = 2
    done = queue.answered(1, answer(request, {("t", 1): Code.NOT_LEADER_OR_FOLLOWER}), 0)
    assert done == {SHARD: [MarkersWritten("a", 7, 4, [("t", 0)])]}
    assert queue.next_deadline() == RETRY_MS
    assert queue.requests(RETRY_MS - 1) == ([], {})
    ((broker, request),), _ = queue.requests(RETRY_MS)
    assert broker == 2
    assert told(request) == {("t", 1)}


def test_a_lost_answer_is_asked_for_again_at_growing_pauses() -> None:
    queue = MarkerQueue(Cluster({("t", 0): 1}))
    queue.add(SHARD, due("a", ("t", 0)))
    now, pauses = 0, []
    for _ in range(12):
        requests, _ = queue.requests(now)
        assert len(requests) == 1
        queue.answered(1, None, now)
        deadline = queue.next_deadline()
        assert deadline is not None
        pauses.append(deadline - now)
        now = deadline
    assert pauses[0] == RETRY_MS
    assert pauses[-1] == RETRY_MS_MAX
    assert pauses == sorted(pauses)


def test_an_answer_that_leaves_a_partition_out_did_not_write_it() -> None:
    queue = MarkerQueue(Cluster({("t", 0): 1}))
    queue.add(SHARD, due("a", ("t", 0)))
    queue.requests(0)
    assert queue.answered(1, WriteTxnMarkersResponse(markers=[]), 0) == {}
    assert len(queue) == 1


def test_a_partition_without_leader_waits_and_a_deleted_one_needs_no_marker() -> None:
    cluster = Cluster({("t", 0): NO_LEADER})
    queue = MarkerQueue(cluster)
    queue.add(SHARD, due("a", ("t", 0), ("gone", 0), producer_id=7))
    assert queue.requests(0) == ([], {SHARD: [MarkersWritten("a", 7, 4, [("gone", 0)])]})
    cluster.leaders["t", 0] = 5
    ((broker, request),), _ = queue.requests(RETRY_MS)
    assert broker == 5
    assert told(request) == {("t", 0)}


def test_a_topic_deleted_while_its_marker_is_refused_needs_none() -> None:
    cluster = Cluster({("t", 0): 1})
    queue = MarkerQueue(cluster)
    queue.add(SHARD, due("a", ("t", 0), producer_id=7))
    ((_, request),), _ = queue.requests(0)
    queue.answered(1, answer(request, {("t", 0): Code.UNKNOWN_TOPIC_OR_PARTITION}), 0)
    cluster.leaders.clear()
    assert queue.requests(RETRY_MS) == ([], {SHARD: [MarkersWritten("a", 7, 4, [("t", 0)])]})
    assert len(queue) == 0


def test_a_partition_with_a_newer_epoch_of_the_producer_needs_no_marker() -> None:
    """Else the transaction would stay decided and never be complete."""
    queue = MarkerQueue(Cluster({("t", 0): 1}))
    queue.add(SHARD, due("a", ("t", 0), producer_id=7))
    ((_, request),), _ = queue.requests(0)
    done = queue.answered(1, answer(request, {("t", 0): Code.INVALID_PRODUCER_EPOCH}), 0)
    assert done == {SHARD: [MarkersWritten("a", 7, 4, [("t", 0)])]}


def test_a_fenced_coordinator_stops() -> None:
    queue = MarkerQueue(Cluster({("t", 0): 1, ("t", 1): 2}))
    queue.add(SHARD, due("a", ("t", 0), ("t", 1)))
    requests, _ = queue.requests(0)
    sent = dict(requests)
    refused = answer(sent[1], {("t", 0): Code.TRANSACTION_COORDINATOR_FENCED})
    assert queue.answered(1, refused, 0) == {}
    assert queue.answered(2, answer(sent[2]), 0) == {}
    assert len(queue) == 0
    assert queue.requests(10_000) == ([], {})


def test_answers_after_the_shard_has_gone_are_nobodys() -> None:
    queue = MarkerQueue(Cluster({("t", 0): 1}))
    queue.add(SHARD, due("a", ("t", 0)))
    queue.add(SHARD + 1, due("b", ("t", 0), producer_id=8))
    ((_, request),), _ = queue.requests(0)
    queue.drop(SHARD)
    assert queue.answered(1, answer(request), 0) == {
        SHARD + 1: [MarkersWritten("b", 8, 4, [("t", 0)])]
    }
    assert len(queue) == 0


def test_a_shard_that_came_back_sends_its_markers_itself() -> None:
    """The answer to a request from before says nothing about the newer decision."""
    queue = MarkerQueue(Cluster({("t", 0): 1}))
    queue.add(SHARD, due("a", ("t", 0), producer_id=7))
    ((_, request),), _ = queue.requests(0)
    queue.drop(SHARD)
    queue.add(SHARD, due("a", ("t", 0), producer_id=7))
    assert queue.answered(1, answer(request), 0) == {}
    ((_, again),), _ = queue.requests(0)
    assert told(again) == {("t", 0)}


def test_a_request_is_bounded() -> None:
    cluster = Cluster({("t", index): 1 for index in range(REQUEST_PARTITIONS_MAX + 5)})
    queue = MarkerQueue(cluster)
    queue.add(SHARD, due("a", *cluster.leaders))
    ((_, first),), _ = queue.requests(0)
    assert len(told(first)) == REQUEST_PARTITIONS_MAX
    queue.answered(1, answer(first), 0)
    ((_, second),), _ = queue.requests(0)
    assert len(told(second)) == 5
    queue.answered(1, answer(second), 0)
    assert len(queue) == 0

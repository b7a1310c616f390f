"""Offsets that are committed with a transaction."""

from random import Random
from typing import Any

import pytest

from barnabas.coordinators.groups.limits import GroupLimits
from barnabas.coordinators.ports import TransactionMarker
from barnabas.model.errors import Code, Failed
from barnabas.wire.batch import CONTROL, TRANSACTIONAL, read_header
from barnabas.wire.messages.offset_fetch import OffsetFetchRequestTopics
from barnabas.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from barnabas.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from tests.coordinators.world import CODES, GROUP, Call, Cluster, World

P, Q = 7, 8
WEEK_MS = 7 * 24 * 3_600_000


def commit(
    world: World,
    offset: int,
    producer: int = P,
    *,
    topic: str = "t",
    partition: int = 0,
    group: str = GROUP,
    generation: int = -1,
    member: str = "",
    instance: str | None = None,
    metadata: str = "",
) -> Call:
    caller = world._caller(5, "c")
    request = TxnOffsetCommitRequest(
        transactional_id="tx",
        group_id=group,
        producer_id=producer,
        producer_epoch=0,
        generation_id=generation,
        member_id=member,
        group_instance_id=instance,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=offset,
                        committed_metadata=metadata,
                    )
                ],
            )
        ],
    )
    return world._run(
        caller, lambda shard: shard.commit_in_transaction(request, None, caller, world.now)
    )


def commit_code(world: World, offset: int, **options: Any) -> Code:
    return CODES[commit(world, offset, **options).response.topics[0].partitions[0].error_code]


def end(world: World, producer: int = P, *, commit: bool = True) -> Call:
    caller = world._caller(0, "c")
    marker = TransactionMarker(producer, 0, commit, 1, 0)
    response = WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=producer,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name="__consumer_offsets",
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=0, error_code=0)
                        ],
                    )
                ],
            )
        ]
    )
    return world._run(caller, lambda shard: shard.end_transaction_of(marker, response, caller))


def marker_code(call: Call) -> Code:
    return CODES[call.response.markers[0].topics[0].partitions[0].error_code]


def stable(world: World, topic: str = "t", partition: int = 0) -> tuple[int, Code]:
    wanted = OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])
    found = world.shard.fetch(GROUP, [wanted], stable=True)[0].partitions[0]
    return found.committed_offset, CODES[found.error_code]


UNSTABLE = (-1, Code.UNSTABLE_OFFSET_COMMIT)


def test_an_offset_takes_effect_with_the_commit_marker() -> None:
    world = World()
    world.commit(5)
    assert commit_code(world, 9, metadata="m") is Code.NONE
    assert world.fetch() == (5, "")
    assert stable(world) == UNSTABLE
    assert marker_code(end(world)) is Code.NONE
    assert world.fetch() == (9, "m")
    assert stable(world) == (9, Code.NONE)


def test_an_aborted_offset_leaves_no_trace() -> None:
    world = World()
    commit(world, 9)
    end(world, commit=False)
    assert world.fetch() == (-1, "")
    assert stable(world) == (-1, Code.NONE)
    assert world.state() is None


def test_the_log_has_transactional_batches_of_their_own_and_markers() -> None:
    world = World()
    commit(world, 9)
    end(world)
    headers = [read_header(batch) for batch in world.journal.batches]
    assert [header.attributes for header in headers] == [TRANSACTIONAL, TRANSACTIONAL | CONTROL]
    assert {header.producer_id for header in headers} == {P}
    assert {header.base_sequence for header in headers} == {-1}


def test_only_what_the_transaction_has_is_unstable() -> None:
    world = World()
    world.commit(5, partition=1)
    commit(world, 9)
    assert stable(world, partition=1) == (5, Code.NONE)
    assert stable(world, "u") == (-1, Code.NONE)


def test_a_commit_in_between_wins() -> None:
    """The offset of the older record must not replace it."""
    world = World()
    commit(world, 3)
    world.commit(7)
    assert stable(world) == UNSTABLE
    end(world)
    assert world.fetch() == (7, "")


def test_of_two_transactions_the_later_record_wins_whatever_ends_first() -> None:
    world = World()
    commit(world, 3, P)
    commit(world, 4, Q)
    end(world, Q)
    assert stable(world) == UNSTABLE
    end(world, P)
    assert stable(world) == (4, Code.NONE)
    commit(world, 5, P)
    commit(world, 6, Q)
    end(world, P)
    assert world.fetch() == (5, "")
    end(world, Q)
    assert world.fetch() == (6, "")


def test_a_marker_without_offsets_changes_nothing() -> None:
    world = World()
    world.commit(5)
    end(world)
    end(world, commit=False)
    assert world.fetch() == (5, "")


def test_the_marker_is_answered_when_it_is_committed() -> None:
    """Before, another coordinator may have neither the marker nor its effect."""
    world = World()
    commit(world, 9)
    world.journal.lagging = True
    call = end(world)
    assert call.waits
    world.journal.high_watermark = world.journal.end
    world.deliver(world.runtime.watermark_moved(0))
    assert marker_code(call) is Code.NONE


def test_what_the_log_refuses_is_not_pending() -> None:
    """Else nobody would ever end it, and readers of stable offsets would wait for ever."""
    world = World()
    world.journal.error = Failed(Code.INVALID_TXN_STATE, "no open transaction")
    assert commit_code(world, 9) is Code.INVALID_TXN_STATE
    world.journal.error = None
    assert stable(world) == (-1, Code.NONE)
    commit(world, 9)
    world.journal.error = Failed(Code.KAFKA_STORAGE_ERROR, "disk")
    assert marker_code(end(world)) is Code.KAFKA_STORAGE_ERROR
    world.journal.error = None
    assert stable(world) == UNSTABLE


@pytest.mark.parametrize(
    ("member", "generation", "instance", "code"),
    [
        ("right", 0, None, Code.NONE),
        ("right", 1, None, Code.ILLEGAL_GENERATION),
        ("right", -1, None, Code.ILLEGAL_GENERATION),
        ("nobody", 0, None, Code.UNKNOWN_MEMBER_ID),
        ("right", 0, "other", Code.UNKNOWN_MEMBER_ID),
        ("", -1, None, Code.NONE),
    ],
)
def test_a_member_of_the_past_commits_nothing(
    member: str, generation: int, instance: str | None, code: Code
) -> None:
    world = World()
    ids, current = world.stable(1)
    assert (
        commit_code(
            world,
            9,
            member=ids[0] if member == "right" else member,
            generation=current + generation if generation >= 0 else -1,
            instance=instance,
        )
        is code
    )


def test_a_group_that_is_not_there_takes_commits_without_generation_only() -> None:
    world = World()
    assert commit_code(world, 9, generation=3, member="m") is Code.ILLEGAL_GENERATION
    assert commit_code(world, 9) is Code.NONE


def test_a_member_of_a_consumer_group_gets_illegal_generation() -> None:
    """The producer knows that code, and not the one for stale member epochs."""
    world = World(topics=Cluster({"t": 2}))
    epoch = world.enter("m").response.member_epoch
    assert commit_code(world, 9, member="m", generation=epoch) is Code.NONE
    assert commit_code(world, 9, member="m", generation=epoch + 1) is Code.ILLEGAL_GENERATION
    assert commit_code(world, 9, member="x", generation=epoch) is Code.UNKNOWN_MEMBER_ID
    assert commit_code(world, 9) is Code.NONE


def test_metadata_that_is_too_long_fails_its_partition() -> None:
    world = World(GroupLimits(offset_metadata_chars_max=3))
    assert commit_code(world, 9, metadata="long") is Code.OFFSET_METADATA_TOO_LARGE
    assert stable(world) == (-1, Code.NONE)


def test_deleting_a_group_or_an_offset_drops_what_is_pending() -> None:
    world = World()
    commit(world, 9)
    assert world.delete() is Code.NONE
    end(world)
    assert world.fetch() == (-1, "")
    commit(world, 9)
    world.delete_offset()
    assert stable(world) == (-1, Code.NONE)
    end(world)
    assert world.fetch() == (-1, "")


def test_pending_offsets_and_their_group_do_not_expire() -> None:
    world = World()
    world.commit(5)
    world.commit(6, partition=1)
    commit(world, 9)
    world.advance(2 * WEEK_MS)
    assert world.fetch() == (5, "")
    assert world.fetch(partition=1) == (-1, "")
    end(world)
    assert world.fetch() == (9, "")


@pytest.mark.parametrize("seed", range(40))
def test_what_is_read_back_is_what_was_there(seed: int) -> None:
    rng = Random(seed)
    world = World()
    for _ in range(60):
        producer, partition = rng.choice((P, Q, 9)), rng.randrange(3)
        chance = rng.random()
        if chance < 0.4:
            commit(world, rng.randrange(100), producer, partition=partition)
        elif chance < 0.6:
            world.commit(rng.randrange(100), partition=partition)
        elif chance < 0.7:
            world.delete_offset(partition=partition)
        else:
            end(world, producer, commit=rng.random() < 0.6)
    before = dict(world.shard.offsets.by_group)
    pending = [stable(world, partition=each) for each in range(3)]
    world.start()
    assert dict(world.shard.offsets.by_group) == before
    assert [stable(world, partition=each) for each in range(3)] == pending
    for producer in (P, Q, 9):
        end(world, producer)
    assert not world.shard.pending

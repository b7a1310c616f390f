"""One decision for the transactions of several producers."""

import pytest

from barnabas.coordinators.transactions.decision import Identity
from barnabas.coordinators.transactions.group_commit import CommittedBatch, TransactionGroupRecord
from barnabas.coordinators.transactions.group_records import (
    GROUP_KEY_VERSION,
    decode_group,
    encode_group,
)
from barnabas.coordinators.transactions.limits import TransactionLimits
from barnabas.coordinators.transactions.records import decode
from barnabas.coordinators.transactions.shard import GROUP_EXPIRATION_MS
from barnabas.model.errors import Code, Corrupt, Retriable
from tests.coordinators.transactions.world import World


def world_2() -> World:
    return World(TransactionLimits(version=2))


def opened(world: World, *ids: str) -> dict[str, Identity]:
    """Transactions of tasks that have written."""
    found = {}
    for id_ in ids:
        found[id_] = world.new(id_)
        assert world.add_code(found[id_], id_=id_, version=4) is Code.NONE
    return found


def states(world: World, *ids: str) -> list[str]:
    return [world.state(id_) for id_ in ids]


def test_all_transactions_of_a_group_are_committed_in_one_record_batch() -> None:
    world = world_2()
    tasks = opened(world, "g/0", "g/1", "g/2")
    before = len(world.journal.batches)
    assert world.end_group(tasks, 0, "a").code is Code.NONE
    assert len(world.journal.batches) == before + 1
    assert states(world, *tasks) == ["PrepareCommit"] * 3
    assert {due.transactional_id for due in world.markers} == set(tasks)


def test_one_transaction_that_is_not_open_refuses_them_all() -> None:
    world = world_2()
    tasks = opened(world, "g/0", "g/1")
    tasks["g/2"] = world.new("g/2")  # has written nothing
    said = world.end_group(tasks, 0, "a")
    assert said.code is Code.INVALID_TXN_STATE
    assert "'g/2'" in said.response.error_message
    assert states(world, *tasks) == ["Ongoing", "Ongoing", "Empty"]
    assert not world.shard.table.groups


@pytest.mark.parametrize("change", [(1, 0), (0, 1)])
def test_a_transaction_of_another_producer_refuses_them_all(change: tuple[int, int]) -> None:
    world = world_2()
    tasks = opened(world, "g/0", "g/1")
    found = tasks["g/1"]
    tasks["g/1"] = Identity(found.producer_id + change[0], found.epoch + change[1])
    assert world.end_group(tasks, 0, "a").code is Code.INVALID_TXN_STATE
    assert states(world, *tasks) == ["Ongoing", "Ongoing"]


def test_a_transaction_that_timed_out_refuses_them_all() -> None:
    world = world_2()
    late = {"g/0": world.new("g/0", timeout=1_000)}
    world.add(late["g/0"], id_="g/0", version=4)
    tasks = late | opened(world, "g/1")
    world.advance(30_000)
    assert world.end_group(tasks, 0, "a").code is Code.INVALID_TXN_STATE
    assert world.state("g/1") == "Ongoing"


def test_a_batch_that_is_committed_is_not_committed_again_and_its_repetition_is_aborted() -> None:
    world = world_2()
    world.end_group(opened(world, "g/0"), 4, "a")
    world.written()
    again = opened(world, "g/0", "g/1")
    said = world.end_group(again, 4, "a")
    assert said.code is Code.NONE
    assert said.response.already_committed
    assert states(world, *again) == ["PrepareAbort", "PrepareAbort"]


def test_a_lost_reply_is_given_again() -> None:
    world = world_2()
    tasks = opened(world, "g/0")
    for already in (False, True):
        said = world.end_group(tasks, 4, "a")
        assert (said.code, said.response.already_committed) == (Code.NONE, already)
    assert world.state("g/0") == "PrepareCommit"


@pytest.mark.parametrize(("batch", "identity"), [(4, "b"), (3, "a"), (0, "")])
def test_an_older_batch_and_the_same_number_for_other_records_are_refused(
    batch: int, identity: str
) -> None:
    world = world_2()
    world.end_group(opened(world, "g/0"), 4, "a", note="begin at 7")
    world.written()
    said = world.end_group(opened(world, "g/0"), batch, identity)
    assert said.code is Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert said.response.last_batch == 4
    assert said.response.last_note == "begin at 7"
    assert world.state("g/0") == "Ongoing"


def test_transactions_of_the_group_that_are_not_named_are_aborted_and_no_others() -> None:
    world = world_2()
    opened(world, "g/loser", "other/0", "gg/0")
    tasks = opened(world, "g/0")
    world.end_group(tasks, 0, "a")
    ids = ("g/0", "g/loser", "other/0", "gg/0")
    assert states(world, *ids) == ["PrepareCommit", "PrepareAbort", "Ongoing", "Ongoing"]


def test_a_batch_without_rows_is_stored_too() -> None:
    world = world_2()
    assert world.end_group({}, 0, "a").code is Code.NONE
    assert world.shard.table.groups["g"].number == 0


def test_without_a_number_nothing_is_stored_and_a_lost_reply_is_given_again() -> None:
    world = world_2()
    tasks = opened(world, "g/0", "g/1")
    first, second = world.end_group(tasks), world.end_group(tasks)
    assert (first.code, first.response.already_committed) == (Code.NONE, False)
    assert (second.code, second.response.already_committed) == (Code.NONE, True)
    assert not world.shard.table.groups
    for due in list(world.markers):
        world.written(due)
    assert world.end_group(tasks).response.already_committed


def test_an_abort_ends_what_is_open_and_commits_nothing() -> None:
    world = world_2()
    tasks = opened(world, "g/0", "g/1")
    world.end_group(tasks | {"g/9": Identity(5, 5)}, commit=False)
    assert states(world, *tasks) == ["PrepareAbort", "PrepareAbort"]
    assert world.end_group(tasks).code is Code.INVALID_TXN_STATE


def test_another_coordinator_goes_on_with_the_decision() -> None:
    world = world_2()
    tasks = opened(world, "g/0", "g/1")
    world.end_group(tasks, 7, "a", note="n")
    world.start()
    assert {due.transactional_id for due in world.markers} == set(tasks)
    assert world.shard.table.groups["g"].note == "n"
    assert world.end_group(tasks, 7, "a").response.already_committed


def test_a_decision_is_answered_when_it_is_committed() -> None:
    world = world_2()
    tasks = opened(world, "g/0")
    world.journal.lagging = True
    said = world.end_group(tasks, 0, "a")
    assert said.waits
    assert not world.markers
    world.commit_log()
    assert said.code is Code.NONE
    assert len(world.markers) == 1


def test_a_refused_append_changes_nothing() -> None:
    world = world_2()
    tasks = opened(world, "g/0")
    world.journal.error = Retriable(Code.NOT_ENOUGH_REPLICAS, "")
    assert world.end_group(tasks, 0, "a").code is Code.COORDINATOR_NOT_AVAILABLE
    world.journal.error = Retriable(Code.MESSAGE_TOO_LARGE, "")
    assert world.end_group(tasks, 0, "a").code is Code.MESSAGE_TOO_LARGE
    world.journal.error = None
    assert world.state("g/0") == "Ongoing"
    assert not world.shard.table.groups
    assert world.end_group(tasks, 0, "a").code is Code.NONE


def test_epochs_run_out_in_a_group_too() -> None:
    world = world_2()
    tasks = opened(world, "g/0")
    world.ids.is_empty = True
    table = world.shard.table
    from msgspec.structs import replace

    table.transactions["g/0"] = replace(table.transactions["g/0"], producer_epoch=0x7FFE)
    tasks["g/0"] = Identity(tasks["g/0"].producer_id, 0x7FFE)
    assert world.end_group(tasks).code is Code.COORDINATOR_LOAD_IN_PROGRESS
    world.ids.is_empty = False
    assert world.end_group(tasks).code is Code.NONE
    world.written()
    assert world.transaction("g/0").producer_epoch == 0
    assert world.end_group(tasks).response.already_committed


def test_requests_that_make_no_sense_are_refused() -> None:
    world = world_2()
    asked = [
        world.end_group({}, group=""),
        world.end_group({}, group="g" * 1_001),
        world.end_group({}, batch=-2),
        world.end_group({}, 0, "i" * 201),
        world.end_group({}, 0, note="n" * 16_001),
        world.end_group({"h/0": Identity(1, 1)}),
        world.end_group({f"g/{n}": Identity(1, 1) for n in range(10_001)}),
    ]
    assert {each.code for each in asked} == {Code.INVALID_REQUEST}


def test_a_group_is_forgotten_a_year_after_its_last_batch_and_its_room_is_free_again() -> None:
    world = world_2()
    world.end_group({}, 0, "a")
    used = world.limits.room.used
    world.end_group({}, 1, "b")
    assert world.limits.room.used == used > 0
    world.ms += GROUP_EXPIRATION_MS - 1
    world.advance(0)
    assert "g" in world.shard.table.groups
    world.advance(2 * 3_600_000)
    assert not world.shard.table.groups
    assert world.limits.room.used == 0
    world.start()
    assert not world.shard.table.groups


def test_the_record_of_a_group_is_one_that_kafka_skips() -> None:
    record = TransactionGroupRecord("g", CommittedBatch(7, "identity", "note", 123))
    key, value = encode_group(record)
    assert int.from_bytes(key[:2], "big") == GROUP_KEY_VERSION
    assert decode(key, value) is None  # to a reader of Kafka's records
    assert decode_group(key, value) == record
    assert decode_group(key, None) == TransactionGroupRecord("g", None)
    assert decode_group(key, b"\x00\x09rest") is None
    for broken in (b"", b"\x00", b"\x00\x00\x00"):
        with pytest.raises(Corrupt):
            decode_group(key, broken)

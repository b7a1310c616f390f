"""EndTxn: how a transaction is decided and carried out, in both versions of the protocol."""

import pytest

from barnabas.coordinators.transactions.causes import AbortedBy
from barnabas.coordinators.transactions.decision import Identity
from barnabas.coordinators.transactions.limits import TransactionLimits
from barnabas.model.errors import Code, Retriable
from tests.coordinators.transactions.test_initialising import at_epoch
from tests.coordinators.transactions.world import ID, World


def open_(world: World) -> Identity:
    producer = world.new()
    world.add(producer, {"t": [0, 1], "u": [0]})
    return producer


@pytest.mark.parametrize(("commit", "after"), [(True, "Commit"), (False, "Abort")])
def test_a_decision_is_answered_then_marked_then_complete(commit: bool, after: str) -> None:
    world = World()
    producer = open_(world)
    assert world.end(producer, commit=commit).code is Code.NONE
    assert world.state() == f"Prepare{after}"
    (due,) = world.markers
    assert due.partitions == {"t": {0, 1}, "u": {0}}
    assert (due.commit, due.coordinator_epoch, due.transaction_version) == (commit, 1, 0)
    assert (due.producer_id, due.producer_epoch) == producer
    world.written(only=2)
    assert world.state() == f"Prepare{after}"
    world.written()
    assert world.state() == f"Complete{after}"
    assert world.transaction().partitions == {}


def test_no_marker_leaves_before_its_decision_is_committed() -> None:
    """A new coordinator that does not have the decision may decide otherwise."""
    world = World()
    producer = open_(world)
    world.journal.lagging = True
    call = world.end(producer)
    assert call.waits
    assert not world.markers
    world.commit_log()
    assert call.code is Code.NONE
    assert len(world.markers) == 1


def test_a_decision_that_got_lost_is_not_carried_out() -> None:
    world = World()
    producer = open_(world)
    world.journal.lagging = True
    end = world.journal.end
    world.end(producer)
    world.journal.cut(end)
    world.start()
    assert world.state() == "Ongoing"
    assert not world.markers
    assert world.end(producer, commit=False).waits
    world.commit_log()
    assert [due.commit for due in world.markers] == [False]


def test_a_new_coordinator_sends_the_markers_again() -> None:
    world = World()
    producer = open_(world)
    world.end(producer)
    world.written(only=1)
    world.start()
    (due,) = world.markers
    assert due.partitions == {"t": {0, 1}, "u": {0}}
    assert due.coordinator_epoch == 2
    world.written()
    assert world.state() == "CompleteCommit"


def test_a_new_coordinator_waits_until_a_decision_it_found_is_committed() -> None:
    world = World()
    producer = open_(world)
    world.journal.lagging = True
    world.end(producer)
    world.start()
    assert not world.markers
    world.commit_log()
    assert len(world.markers) == 1


def test_answers_about_markers_of_another_epoch_are_nobodys() -> None:
    world = World()
    producer = open_(world)
    world.end(producer)
    late = world.markers[0]
    world.written()
    world.add(world.init(producer=producer).identity)
    world.end(Identity(producer.producer_id, 1))
    world.written(late)
    assert world.state() == "PrepareCommit"
    world.written()
    world.written()
    assert world.state() == "CompleteCommit"


def test_completion_is_tried_again_until_the_log_takes_it() -> None:
    world = World()
    producer = open_(world)
    world.end(producer)
    world.journal.error = Retriable(Code.NOT_ENOUGH_REPLICAS)
    world.written()
    world.advance(5_000)
    assert world.state() == "PrepareCommit"
    world.journal.error = None
    world.advance(1_000)
    assert world.state() == "CompleteCommit"


@pytest.mark.parametrize("commit", [True, False])
def test_version_1_a_repeated_request_is_answered_and_another_result_refused(
    commit: bool,
) -> None:
    world = World()
    producer = open_(world)
    world.end(producer, commit=commit)
    assert world.end(producer, commit=commit).code is Code.CONCURRENT_TRANSACTIONS
    assert world.end(producer, commit=not commit).code is Code.INVALID_TXN_STATE
    world.written()
    assert world.end(producer, commit=commit).code is Code.NONE
    assert world.end(producer, commit=not commit).code is Code.INVALID_TXN_STATE
    assert world.transaction().producer_epoch == producer.epoch


def test_version_1_nothing_ends_without_a_transaction() -> None:
    world = World()
    producer = world.new()
    assert world.end(producer).code is Code.INVALID_TXN_STATE
    assert world.end(producer, commit=False).code is Code.INVALID_TXN_STATE
    assert world.end(producer, id_="other").code is Code.INVALID_PRODUCER_ID_MAPPING
    assert world.end(Identity(9, 0)).code is Code.INVALID_PRODUCER_ID_MAPPING
    assert world.end(Identity(1000, 1)).code is Code.PRODUCER_FENCED
    assert world.end(Identity(1000, 1), version=1).code is Code.INVALID_PRODUCER_EPOCH
    assert world.end(producer, id_="").code is Code.INVALID_REQUEST


def test_version_2_every_transaction_has_its_own_epoch() -> None:
    world = World(TransactionLimits(version=2))
    producer = open_(world)
    for number in range(1, 4):
        call = world.end(producer, version=5)
        assert call.identity == Identity(1000, number)
        assert world.markers[-1].producer_epoch == number
        assert world.markers[-1].transaction_version == 2
        world.written()
        producer = call.identity
        assert world.add_code(producer, version=5) is Code.NONE


def test_version_2_a_late_end_does_not_end_the_next_transaction() -> None:
    """Of an EndTxn that was delayed in the network the answer is no more than an error."""
    world = World()
    producer = open_(world)
    following = world.end(producer, version=5).identity
    world.written()
    world.add(following, version=5)
    assert world.end(producer, version=5).code is Code.PRODUCER_FENCED
    assert world.end(producer, commit=False, version=5).code is Code.PRODUCER_FENCED
    assert world.state() == "Ongoing"


EMPTY, ABORTED, COMMITTED = "Empty", "CompleteAbort", "CompleteCommit"
FENCED, INVALID, NONE = Code.PRODUCER_FENCED, Code.INVALID_TXN_STATE, Code.NONE


@pytest.mark.parametrize(
    ("state", "commit", "repeated", "code", "bumped"),
    [
        (EMPTY, False, True, FENCED, False),
        (EMPTY, False, False, NONE, True),
        (EMPTY, True, True, FENCED, False),
        (EMPTY, True, False, INVALID, False),
        (ABORTED, False, True, NONE, False),
        (ABORTED, False, False, NONE, True),
        (ABORTED, True, True, INVALID, False),
        (ABORTED, True, False, INVALID, False),
        (COMMITTED, False, True, INVALID, False),
        (COMMITTED, False, False, NONE, True),
        (COMMITTED, True, True, NONE, False),
        (COMMITTED, True, False, INVALID, False),
    ],
)
def test_version_2_ends_without_an_open_transaction(
    state: str, commit: bool, repeated: bool, code: Code, bumped: bool
) -> None:
    world = World()
    before = world.new()
    current = before
    if state == EMPTY:
        current = world.init(producer=before).identity
    else:
        world.add(before, version=5)
        current = world.end(before, commit=state == COMMITTED, version=5).identity
        world.written()
    assert world.state() == state
    call = world.end(before if repeated else current, commit=commit, version=5)
    assert call.code is code
    if code is NONE:
        assert call.identity == Identity(1000, current.epoch + bumped)
    world.advance(0)
    assert world.transaction().producer_epoch == current.epoch + bumped
    assert world.state() == (ABORTED if bumped else state)


def test_version_2_nothing_is_ended_until_the_transaction_before_is_complete() -> None:
    world = World()
    producer = open_(world)
    following = world.end(producer, version=5).identity
    assert world.end(producer, version=5).code is Code.CONCURRENT_TRANSACTIONS
    assert world.end(producer, commit=False, version=5).code is Code.INVALID_TXN_STATE
    assert world.end(following, version=5).code is Code.CONCURRENT_TRANSACTIONS


def test_version_2_an_abort_of_nothing_completes_by_itself() -> None:
    world = World()
    producer = world.new()
    assert world.end(producer, commit=False, version=5).identity == Identity(1000, 1)
    assert not world.markers
    world.advance(0)
    assert world.state() == "CompleteAbort"
    world.start()
    assert world.state() == "CompleteAbort"


def test_version_2_an_abort_of_nothing_completes_after_a_failover() -> None:
    world = World()
    producer = world.new()
    world.end(producer, commit=False, version=5)
    world.start()
    world.advance(0)
    assert world.state() == "CompleteAbort"


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("failover", [True, False])
def test_version_2_the_last_epoch_ends_in_another_producer_id(commit: bool, failover: bool) -> None:
    world = World(TransactionLimits(version=2))
    world.new()
    last = at_epoch(world, 32_766)
    world.add(last, version=5)
    assert world.end(last, commit=commit, version=5).identity == Identity(1001, 0)
    assert (world.markers[0].producer_id, world.markers[0].producer_epoch) == (1000, 32_767)
    assert world.end(last, commit=commit, version=5).code is Code.CONCURRENT_TRANSACTIONS
    assert world.add_code(Identity(1001, 0), version=5) is Code.CONCURRENT_TRANSACTIONS
    assert world.end(Identity(1001, 0), version=5).code is Code.CONCURRENT_TRANSACTIONS
    if failover:
        world.start()
    world.written()
    assert world.end(last, commit=commit, version=5).identity == Identity(1001, 0)
    assert world.end(last, commit=not commit, version=5).code is Code.INVALID_TXN_STATE
    following = Identity(1001, 0)
    assert world.add_code(following, version=5) is Code.NONE
    assert world.end(last, commit=commit, version=5).code is not Code.NONE
    assert world.end(following, version=5).identity == Identity(1001, 1)


def test_version_2_without_producer_ids_at_hand_nothing_is_decided() -> None:
    world = World()
    world.new()
    last = at_epoch(world, 32_766)
    world.add(last, version=5)
    world.ids.is_empty = True
    assert world.end(last, version=5).code is Code.COORDINATOR_LOAD_IN_PROGRESS
    assert world.state() == "Ongoing"


def test_the_version_of_the_request_decides_not_that_of_the_cluster() -> None:
    world = World(TransactionLimits(version=2))
    producer = open_(world)
    assert world.end(producer, version=4).identity == Identity(-1, -1)
    assert world.transaction().producer_epoch == producer.epoch
    assert world.markers[0].transaction_version == 0


def test_an_abort_keeps_its_cause() -> None:
    world = World()
    producer = open_(world)
    world.end(producer, commit=False)
    cause = world.shard.table.causes[ID]
    assert (cause.kind, cause.at_ms) == (AbortedBy.CLIENT, world.now.wall_ms)
    world.start()
    assert world.shard.table.causes[ID].kind is AbortedBy.UNKNOWN


def test_version_2_a_fenced_producer_does_not_get_the_epoch_of_one_of_version_1() -> None:
    """Only an end of version 2 leaves an epoch that its own producer has not heard of."""
    world = World()
    fenced = world.new()
    current = world.new()
    world.add(current)
    world.end(current, commit=False, version=4)
    world.written()
    assert world.state() == "CompleteAbort"
    assert world.end(fenced, commit=False, version=5).code is Code.PRODUCER_FENCED


def test_version_2_the_next_transaction_may_end_before_the_one_before_is_complete() -> None:
    """Its producer aborts at once. It is not fenced, and tries again."""
    world = World(TransactionLimits(version=2))
    producer = world.new()
    world.add(producer, version=5)
    following = world.end(producer, version=5).identity
    assert following is not None
    assert world.end(following, commit=False, version=5).code is Code.CONCURRENT_TRANSACTIONS
    world.written()
    assert world.end(following, commit=False, version=5).code is Code.NONE

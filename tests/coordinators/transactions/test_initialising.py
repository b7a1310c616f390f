"""InitProducerId: ids, epochs, and who is fenced."""

import pytest
from msgspec.structs import replace

from barnabas.coordinators.transactions.causes import AbortedBy
from barnabas.coordinators.transactions.decision import Identity
from barnabas.coordinators.transactions.limits import IdRoom, TransactionLimits
from barnabas.coordinators.transactions.records import TransactionRecord
from barnabas.model.errors import Code, Retriable
from tests.coordinators.transactions.world import ID, SHARD, World


def at_epoch(world: World, epoch: int, id_: str = ID) -> Identity:
    """As if it had been initialised that often."""
    then = replace(world.transaction(id_), producer_epoch=epoch)
    assert world.runtime.write(SHARD, (TransactionRecord(id_, then),), world.now)
    return Identity(then.producer_id, epoch)


def test_a_new_id_gets_a_producer_id_and_epoch_0() -> None:
    world = World()
    assert world.init().identity == Identity(1000, 0)
    assert world.init("other").identity == Identity(1001, 0)
    assert world.state() == "Empty"


def test_a_second_producer_gets_the_next_epoch_and_the_first_is_fenced() -> None:
    world = World()
    first = world.new()
    second = world.new()
    assert second == Identity(first.producer_id, 1)
    assert world.add_code(first) is Code.PRODUCER_FENCED
    assert world.init(producer=first).code is Code.PRODUCER_FENCED
    assert world.add_code(second) is Code.NONE


def test_a_producer_that_says_who_it_is_gets_the_next_epoch() -> None:
    world = World()
    first = world.new()
    assert world.init(producer=first).identity == Identity(1000, 1)


def test_a_repeated_request_gets_the_same_answer() -> None:
    world = World()
    first = world.new()
    second = world.init(producer=first).identity
    assert world.init(producer=first).identity == second
    assert world.init(producer=second).identity == Identity(1000, 2)
    assert world.init(producer=first).code is Code.PRODUCER_FENCED


def test_a_repeated_request_is_fenced_after_another_producer_came() -> None:
    world = World()
    first = world.new()
    world.init(producer=first)
    world.new()
    assert world.init(producer=first).code is Code.PRODUCER_FENCED


def test_another_producer_id_is_fenced() -> None:
    world = World()
    world.new()
    assert world.init(producer=Identity(77, 0)).code is Code.PRODUCER_FENCED


def test_an_id_that_has_expired_accepts_any_producer() -> None:
    assert World().init(producer=Identity(77, 5)).identity == Identity(1000, 0)


@pytest.mark.parametrize(("version", "code"), [(3, Code.INVALID_PRODUCER_EPOCH), (4, None)])
def test_old_clients_get_invalid_producer_epoch(version: int, code: Code | None) -> None:
    world = World()
    first = world.new()
    world.new()
    call = world.init(producer=first, version=version)
    assert call.code is (code or Code.PRODUCER_FENCED)


@pytest.mark.parametrize("timeout", [0, -1, 900_001, 0x7FFF_FFFF])
def test_a_timeout_outside_the_bounds_is_refused(timeout: int) -> None:
    world = World()
    assert world.init(timeout=timeout).code is Code.INVALID_TRANSACTION_TIMEOUT
    assert world.init(timeout=900_000).code is Code.NONE


def test_the_last_producer_decides_the_timeout() -> None:
    world = World()
    world.new(timeout=1_000)
    world.new(timeout=2_000)
    assert world.transaction().timeout_ms == 2_000


@pytest.mark.parametrize("producer", [Identity(5, -1), Identity(-1, 5)])
def test_half_an_identity_is_refused(producer: Identity) -> None:
    assert World().init(producer=producer).code is Code.INVALID_REQUEST


@pytest.mark.parametrize("id_", ["", "x" * 32_768, "é" * 20_000, "x" * 1_000_000])
def test_an_id_that_no_record_can_hold_is_refused(id_: str) -> None:
    world = World()
    assert world.init(id_).code is Code.INVALID_REQUEST
    assert not world.journal.batches


def test_without_producer_ids_at_hand_the_client_asks_again() -> None:
    world = World()
    world.ids.is_empty = True
    assert world.init().code is Code.COORDINATOR_LOAD_IN_PROGRESS
    world.ids.is_empty = False
    assert world.init().code is Code.NONE


def test_too_many_ids_are_refused_and_the_old_ones_go_on() -> None:
    world = World(TransactionLimits(room=IdRoom(2_500)))
    assert world.init("a").code is Code.NONE
    assert world.init("b").code is Code.NONE
    assert world.init("c").code is Code.COORDINATOR_NOT_AVAILABLE
    assert world.init("a").code is Code.NONE
    world.runtime.unload(SHARD)
    assert world.limits.room.used == 0


def test_an_open_transaction_is_aborted_before_the_next_producer_begins() -> None:
    """The epoch of the fence is nobody's: 0 becomes 2."""
    world = World()
    first = world.new()
    world.add(first)
    call = world.init(client="second")
    assert call.code is Code.CONCURRENT_TRANSACTIONS
    assert world.state() == "PrepareAbort"
    assert world.end(first).code is Code.PRODUCER_FENCED
    assert (world.markers[0].producer_epoch, world.markers[0].commit) == (1, False)
    assert world.init().code is Code.CONCURRENT_TRANSACTIONS
    world.written()
    assert world.init().identity == Identity(1000, 2)
    cause = world.shard.table.causes[ID]
    assert cause.kind is AbortedBy.FENCED
    assert cause.by is not None
    assert cause.by.client_id == "second"


def test_a_fence_that_the_log_refuses_uses_up_no_epoch() -> None:
    world = World()
    first = world.new()
    world.add(first)
    world.journal.error = Retriable(Code.NOT_ENOUGH_REPLICAS)
    for _ in range(100):
        assert world.init().code is Code.COORDINATOR_NOT_AVAILABLE
    world.journal.error = None
    assert world.transaction().producer_epoch == first.epoch
    assert world.end(first).code is Code.NONE


def test_requests_repeated_before_the_first_is_committed_use_up_no_epoch() -> None:
    world = World()
    world.new()
    world.journal.lagging = True
    first = world.init()
    again = [world.init() for _ in range(100)]
    assert first.waits
    world.commit_log()
    assert first.identity == Identity(1000, 1)
    assert {call.code for call in again} == {Code.CONCURRENT_TRANSACTIONS}


@pytest.mark.parametrize("known", [False, True])
def test_an_exhausted_epoch_goes_on_with_another_producer_id(known: bool) -> None:
    world = World()
    world.new()
    last = at_epoch(world, 32_766)
    assert world.init(producer=last if known else Identity()).identity == Identity(1001, 0)
    repeated = world.init(producer=last)
    if known:
        assert repeated.identity == Identity(1001, 0)
    else:
        assert repeated.code is Code.PRODUCER_FENCED


def test_no_producer_ever_gets_the_last_epoch() -> None:
    world = World()
    world.new()
    seen = [at_epoch(world, 32_760), *(world.new() for _ in range(10))]
    assert max(each.epoch for each in seen) == 32_766
    assert seen[-1] == Identity(1001, 3)


@pytest.mark.parametrize("version", [0, 2])
def test_fencing_at_the_last_epoch_ends_in_another_producer_id(version: int) -> None:
    world = World(TransactionLimits(version=version))
    world.new()
    last = at_epoch(world, 32_766)
    world.add(last)
    assert world.init().code is Code.CONCURRENT_TRANSACTIONS
    assert world.markers[0].producer_epoch == 32_767
    world.written()
    assert world.init().identity == Identity(1001, 0 if version == 0 else 1)


def test_who_initialised_an_id_is_remembered() -> None:
    world = World()
    world.init(client="me")
    world.init(client="you")
    assert world.shard.table.owners[ID].client_id == "you"

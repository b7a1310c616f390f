"""Ids and registrations, on keepers in memory with sessions that expire."""

import asyncio
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import TypeVar

import pytest

from barnabas.broker.cluster.registration import (
    KeeperCall,
    check_remembered,
    claim,
    first_id,
    prepare,
)
from barnabas.broker.producer_id_blocks import BLOCK_SIZE, next_block
from barnabas.keeper import paths
from barnabas.keeper.keeper import BadVersion, Keeper
from barnabas.keeper.memory import MemoryKeeper, MemoryStore
from barnabas.log.directory.checkpoints import META_PROPERTIES, MetaProperties, encode_meta
from barnabas.model.errors import Code, Failed
from barnabas.system.disk import SystemDisk
from barnabas.system.logs import Logger

T = TypeVar("T")
HOME = paths.Registration((paths.Endpoint("PLAINTEXT", "here.example", 9092),), "rack-1")
DATA = paths.broker_data(HOME, 1)


def opened(store: MemoryStore, timeout_ms: int = 1000) -> MemoryKeeper:
    return MemoryKeeper(store, timeout_ms)


def running(keeper: Keeper) -> KeeperCall:
    async def run(call: Callable[[Keeper], T]) -> T:
        return call(keeper)

    return run


async def register(keeper: Keeper, id_: int, wait_ms: int, said: StringIO | None = None) -> int:
    log = Logger(said or StringIO())
    return await claim(id_, DATA, keeper.session, running(keeper), wait_ms, log)


async def test_each_registration_has_a_later_epoch_and_reads_back() -> None:
    store = MemoryStore()
    first = opened(store)
    prepare(first, 1, "c")
    epoch = await register(first, 1, 0)
    assert paths.read_broker("", first.get(paths.broker(1)).data) == HOME
    first.close()
    assert await register(opened(store), 1, 0) > epoch


async def test_an_id_that_a_live_broker_has_is_refused_with_its_address() -> None:
    store = MemoryStore()
    first = opened(store)
    prepare(first, 1, "c")
    await register(first, 1, 0)
    with pytest.raises(Failed, match=r"broker id 1 is taken .* here.example:9092.*node.id") as why:
        await register(opened(store), 1, 0)
    assert why.value.code == Code.DUPLICATE_BROKER_REGISTRATION


async def test_the_session_of_a_dead_broker_is_waited_for() -> None:
    store = MemoryStore()
    first = opened(store)
    prepare(first, 1, "c")
    await register(first, 1, 0)
    said = StringIO()
    second = asyncio.ensure_future(register(opened(store), 1, 60_000, said))
    while "waiting for the session of a broker with this id" not in said.getvalue():
        await asyncio.sleep(0)
    store.expire(first.session)
    await second


async def test_a_registration_whose_answer_was_lost_is_found_to_be_ours() -> None:
    store = MemoryStore()
    keeper = opened(store)
    prepare(keeper, 1, "c")
    store.fail_next_write(keeper.session, done=True)
    claiming = asyncio.ensure_future(register(keeper, 1, 60_000))
    await asyncio.sleep(0)
    keeper.reconnect()
    await claiming
    assert keeper.get(paths.broker(1)).owner == keeper.session


async def test_an_unreachable_keeper_does_not_mean_a_broker_with_the_same_id() -> None:
    store = MemoryStore()
    keeper = opened(store)
    prepare(keeper, 1, "c")
    store.disconnect(keeper.session)
    registering = asyncio.ensure_future(register(keeper, 1, 0))
    await asyncio.sleep(0)
    assert not registering.done()
    keeper.reconnect()
    await registering


def test_brokers_without_an_id_get_different_ones_above_a_thousand() -> None:
    store = MemoryStore()
    ids = [prepare(opened(store), None, "c")[1] for _ in range(3)]
    assert ids == [1001, 1002, 1003]


def test_the_first_to_come_names_the_cluster() -> None:
    store = MemoryStore()
    assert prepare(opened(store), 1, "first")[0] == "first"
    assert prepare(opened(store), 2, "second")[0] == "first"


def test_an_empty_keeper_is_refused_by_who_was_in_a_cluster(tmp_path: Path) -> None:
    keeper, disk = opened(MemoryStore()), SystemDisk()
    check_remembered(keeper, disk, [str(tmp_path), f"{tmp_path}/none"])
    (tmp_path / META_PROPERTIES).write_bytes(encode_meta(MetaProperties("c", 1007, "d")))
    with pytest.raises(Failed, match="belongs to cluster 'c', but the keeper is empty"):
        check_remembered(keeper, disk, [str(tmp_path)])
    prepare(keeper, 1, "other")
    check_remembered(keeper, disk, [str(tmp_path)])


def test_an_id_comes_from_the_settings_or_else_from_the_log_directory(tmp_path: Path) -> None:
    disk = SystemDisk()
    directory = str(tmp_path)
    assert first_id({}, disk, [directory]) is None
    meta = encode_meta(MetaProperties("c", 1007, "d"))
    (tmp_path / META_PROPERTIES).write_bytes(meta)
    assert first_id({}, disk, [f"{directory}/none", directory]) == 1007
    assert first_id({"broker.id": "-1"}, disk, [directory]) == 1007
    assert first_id({"node.id": "4"}, disk, [directory]) == 4
    assert first_id({"broker.id": "5"}, disk, [directory]) == 5


class Racing:
    """A keeper that another broker writes to whenever this one is about to."""

    def __init__(self, keeper: Keeper, other: Keeper) -> None:
        self._keeper = keeper
        self._other = other
        self.races = 3

    def __getattr__(self, name: str) -> object:
        return getattr(self._keeper, name)

    def set(self, path: str, data: bytes, version: int) -> int:
        if self.races:
            self.races -= 1
            next_block(self._other, 2)
        return self._keeper.set(path, data, version)


def test_no_two_brokers_are_given_one_producer_id() -> None:
    store = MemoryStore()
    keeper, other = opened(store), opened(store)
    taken = [next_block(keeper, 1), next_block(other, 2)]
    racing = Racing(keeper, other)
    taken.append(next_block(racing, 1))  # type: ignore[arg-type]
    assert not racing.races
    ids = [id_ for block in taken for id_ in block]
    assert len(set(ids)) == len(ids) == 3 * BLOCK_SIZE
    assert taken[-1].start == 5 * BLOCK_SIZE
    with pytest.raises(BadVersion):
        keeper.set(paths.PRODUCER_ID_BLOCK, b"", 0)

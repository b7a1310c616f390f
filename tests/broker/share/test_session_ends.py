"""Sessions of share groups that end: what their leader keeps, and what it drops."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

from barnabas.broker.share.coordination import share_states
from barnabas.broker.share.service import ShareService
from barnabas.broker.share.states import Written
from barnabas.coordinators.share.sessions import SessionKey, ShareSessions
from barnabas.coordinators.share.state_shard import StateWrite
from barnabas.log.log import Log
from barnabas.model.errors import Code
from tests.broker.running import Running
from tests.broker.share.member import GROUP, Member, initialize, share_broker
from tests.waiting import WAIT_S

ACCEPT = 1
FINAL = -1


class HeldWrites:
    """Writes of states that are sent when the test says so."""

    def __init__(self, service: ShareService, monkeypatch: pytest.MonkeyPatch) -> None:
        self._write = service.states.write
        self._held: list[tuple[StateWrite, Written]] = []
        self._patch = monkeypatch
        self._states = service.states
        monkeypatch.setattr(service.states, "write", lambda *each: self._held.append(each))

    def __len__(self) -> int:
        return len(self._held)

    def take(self, number: int) -> tuple[StateWrite, Written]:
        """One that the test answers itself."""
        return self._held.pop(number)

    def send(self) -> None:
        self._patch.setattr(self._states, "write", self._write)
        for write, written in self._held:
            self._write(write, written)


def service_of(broker: Running) -> ShareService:
    assert broker.broker.share is not None
    return broker.broker.share


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():
            await asyncio.sleep(0)


async def delete(broker: Running, topic: UUID) -> None:
    (result,) = await share_states(broker.broker).delete(GROUP, [(topic, 0)])
    assert not result.code


async def test_offsets_altered_after_the_last_session_take_effect(tmp_path: Path) -> None:
    async with share_broker(tmp_path, 20) as (broker, topic):
        member = Member(broker, topic)
        await member.fetch(wait_ms=5_000)
        await member.acknowledge((0, 19, ACCEPT), epoch=FINAL)
        await initialize(broker, topic, start=0, epoch=2)
        reply = await Member(broker, topic, "m2").fetch(wait_ms=5_000)
        assert reply.acquired == [(0, 19, 1)]


async def test_a_deleted_group_begins_again_under_its_old_name(tmp_path: Path) -> None:
    async with share_broker(tmp_path, 20) as (broker, topic):
        member = Member(broker, topic)
        await member.fetch(wait_ms=5_000)
        await member.fetch((0, 19, ACCEPT), epoch=FINAL)
        await delete(broker, topic)
        await initialize(broker, topic)
        reply = await Member(broker, topic, "m2").fetch(wait_ms=5_000)
        assert reply.acquired == [(0, 19, 1)]


async def test_a_share_partition_stays_loaded_until_the_last_session_of_its_group_ends(
    tmp_path: Path,
) -> None:
    async with share_broker(tmp_path) as (broker, topic):
        first, second = Member(broker, topic, "m1"), Member(broker, topic, "m2")
        await first.fetch(wait_ms=5_000)
        await second.fetch()
        service = service_of(broker)
        (share,) = service.partitions
        await first.fetch(epoch=FINAL)
        assert list(service.partitions) == [share]
        await second.fetch(epoch=FINAL)
        await until(lambda: not len(service.partitions))
        assert service.room.runs == 0


async def test_a_new_session_waits_for_the_writes_of_the_ended_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The acceptance is confirmed, so its record must not be delivered again."""
    async with share_broker(tmp_path) as (broker, topic):
        member = Member(broker, topic)
        await member.fetch(wait_ms=5_000)
        service = service_of(broker)
        writes = HeldWrites(service, monkeypatch)
        member.send((0, 4, ACCEPT))
        await until(lambda: len(writes))
        (session,) = service.sessions.sessions.values()
        service.closed(session.connection)  # the rest is released: a second write
        assert len(writes) == 2
        other = Member(broker, topic, "m2")
        waiting = other.send(wait_ms=10_000)
        await until(lambda: service.sessions.has_members(GROUP))
        writes.send()
        assert (await other.receive(waiting)).acquired == [(5, 9, 2)]


async def test_the_last_acknowledgement_is_answered_before_its_share_partition_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with share_broker(tmp_path) as (broker, topic):
        member = Member(broker, topic)
        await member.fetch(wait_ms=5_000)
        service = service_of(broker)
        writes = HeldWrites(service, monkeypatch)
        closing = member.send((0, 4, ACCEPT), epoch=FINAL)
        await until(lambda: len(writes))
        writes.send()
        assert (await member.receive(closing)).ack is Code.NONE
        await until(lambda: not len(service.partitions))
        reply = await Member(broker, topic, "m2").fetch(wait_ms=5_000)
        assert reply.acquired == [(5, 9, 2)]


async def test_the_close_of_an_old_session_keeps_the_records_of_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with share_broker(tmp_path, 20) as (broker, topic):
        old = Member(broker, topic)
        await old.fetch(wait_ms=5_000, records=10)
        writes = HeldWrites(service_of(broker), monkeypatch)
        closing = old.send((0, 9, ACCEPT), epoch=FINAL)
        await until(lambda: len(writes))
        new = Member(broker, topic)
        assert (await new.fetch(wait_ms=5_000)).acquired == [(10, 19, 1)]
        writes.send()
        assert (await old.receive(closing)).ack is Code.NONE
        assert await new.accept(10, 19) is Code.NONE


def test_a_session_that_was_replaced_does_not_end_the_new_one() -> None:
    sessions = ShareSessions(10)
    key = SessionKey("g", "m")
    old, new = sessions.open(key, (), "a"), sessions.open(key, (), "b")
    assert not sessions.end(old)
    assert sessions.has_members("g")
    assert sessions.end(new)
    assert not sessions.has_members("g")


async def test_a_fetch_whose_connection_closes_during_a_cold_read_acquires_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with share_broker(tmp_path) as (broker, topic):
        other = Member(broker, topic, "m2")
        await other.fetch(wait_ms=5_000, records=0)
        reading, read = asyncio.Event(), asyncio.Event()

        async def warm(_: object) -> None:
            reading.set()
            await read.wait()

        log_directory = broker.broker.topics.existing("jobs").partition(0).log_directory
        assert log_directory is not None
        monkeypatch.setattr(type(log_directory), "warm", lambda _, slices: warm(slices))
        monkeypatch.setattr(Log, "is_cold", lambda *_: True)
        Member(broker, topic).send(wait_ms=10_000)
        async with asyncio.timeout(WAIT_S):
            await reading.wait()
        service = service_of(broker)
        service.sessions.sessions[SessionKey(GROUP, "m1")].connection.close("")  # type: ignore[attr-defined]
        read.set()
        (share,) = service.partitions
        for _ in range(10):
            await asyncio.sleep(0)
        assert share.machine is not None
        assert share.machine.in_flight == 0


async def test_a_write_that_fails_unexpectedly_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with share_broker(tmp_path) as (broker, topic):
        member = Member(broker, topic)
        await member.fetch(wait_ms=5_000)
        service = service_of(broker)

        async def fails(*_: object) -> None:
            raise ValueError("not a KafkaError")

        with monkeypatch.context() as patch:
            patch.setattr(service.coordination.runtime, "is_active", lambda _: False)
            patch.setattr(service.states, "_asked_once", fails)
            assert await member.accept(0, 9) is Code.UNKNOWN_SERVER_ERROR
        assert await member.accept(0, 9) is Code.NONE

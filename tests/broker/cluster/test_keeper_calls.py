"""The keeper through one session after another."""

import asyncio
from collections.abc import Callable
from io import StringIO

import pytest

from barnabas.broker.cluster.keeper_calls import KeeperCalls
from barnabas.keeper.keeper import Disconnected, Event, Listener, SessionState
from barnabas.keeper.memory import MemoryKeeper, MemoryStore
from barnabas.model.errors import Code, Failed
from barnabas.system.logs import Logger
from tests.waiting import eventually


def keeper_calls(
    store: MemoryStore,
    sessions: list[MemoryKeeper],
    heard: Callable[[Event | SessionState], None] = lambda news: None,
) -> KeeperCalls:
    def opened(listener: Listener) -> MemoryKeeper:
        sessions.append(MemoryKeeper(store, 1000, listener))
        return sessions[-1]

    return KeeperCalls(opened, heard, Logger(StringIO()))


async def test_between_two_sessions_a_call_must_wait() -> None:
    calls = KeeperCalls(
        lambda listener: MemoryKeeper(None, 1000, listener), lambda news: None, Logger(StringIO())
    )
    await calls.open()
    await calls.end()
    with pytest.raises(Disconnected):
        await calls.run(lambda keeper: keeper.exists("/"))
    await calls.open()
    assert await calls.run(lambda keeper: keeper.exists("/"))
    await calls.close()


async def test_a_patient_call_waits_while_the_keeper_is_unreachable() -> None:
    store = MemoryStore()
    sessions: list[MemoryKeeper] = []
    heard: list[Event | SessionState] = []
    calls = keeper_calls(store, sessions, heard.append)
    await calls.open()
    store.fail_next_write(sessions[0].session, done=False)
    asked = asyncio.ensure_future(calls.run_patiently(lambda keeper: keeper.create("/x", b"")))
    await eventually(lambda: SessionState.SUSPENDED in heard)
    assert not asked.done()
    sessions[0].reconnect()
    assert await asked == "/x"
    assert len(sessions) == 1
    await calls.close()


async def test_a_patient_call_goes_on_in_another_session_if_the_first_has_expired() -> None:
    store = MemoryStore()
    sessions: list[MemoryKeeper] = []
    calls = keeper_calls(store, sessions)
    await calls.open()
    store.expire(sessions[0].session)
    assert await calls.run_patiently(lambda keeper: keeper.create("/x", b"")) == "/x"
    assert len(sessions) == 2
    await calls.close()


async def test_a_session_that_cannot_be_closed_is_logged_with_its_error() -> None:
    class Sick(MemoryKeeper):
        def close(self) -> None:
            raise Failed(Code.KAFKA_STORAGE_ERROR, "disk I/O error")

    said = StringIO()
    calls = KeeperCalls(
        lambda listener: Sick(None, 1000, listener), lambda news: None, Logger(said)
    )
    await calls.open()
    await calls.close()
    assert "keeper session not closed" in said.getvalue()
    assert "disk I/O error" in said.getvalue()

"""The keeper through one session after another."""

from io import StringIO

import pytest

from barnabas.broker.cluster.keeper_calls import KeeperCalls
from barnabas.keeper.keeper import Disconnected
from barnabas.keeper.memory import MemoryKeeper
from barnabas.model.errors import Code, Failed
from barnabas.system.logs import Logger


async def test_between_two_sessions_a_call_is_told_to_wait() -> None:
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

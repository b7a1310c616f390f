"""The keeper through one session after another."""

import pytest

from barnabas.broker.cluster.keeper_session import KeeperSession
from barnabas.keeper.keeper import Disconnected
from barnabas.keeper.memory import MemoryKeeper


async def test_between_two_sessions_a_call_is_told_to_wait() -> None:
    session = KeeperSession(lambda listener: MemoryKeeper(None, 1000, listener), lambda news: None)
    await session.open()
    await session.end()
    with pytest.raises(Disconnected):
        await session.run(lambda keeper: keeper.exists("/"))
    await session.open()
    assert await session.run(lambda keeper: keeper.exists("/"))
    await session.close()

"""The keeper through one session after another."""

import pytest

from barnabas.broker.cluster.keeper_calls import KeeperCalls
from barnabas.keeper.keeper import Disconnected
from barnabas.keeper.memory import MemoryKeeper


async def test_between_two_sessions_a_call_is_told_to_wait() -> None:
    calls = KeeperCalls(lambda listener: MemoryKeeper(None, 1000, listener), lambda news: None)
    await calls.open()
    await calls.end()
    with pytest.raises(Disconnected):
        await calls.run(lambda keeper: keeper.exists("/"))
    await calls.open()
    assert await calls.run(lambda keeper: keeper.exists("/"))
    await calls.close()

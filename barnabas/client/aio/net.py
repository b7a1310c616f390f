"""Time, chance and connections of the running event loop."""

import asyncio
import random
import time
from contextlib import AbstractAsyncContextManager

from barnabas.client.aio.connection import Connection, connect
from barnabas.config.kinds import Address


class AsyncioNet:
    """See client/net.py."""

    def now_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def chance(self) -> float:
        return random.random()

    async def sleep(self, ms: int) -> None:
        await asyncio.sleep(ms / 1000)

    def lock(self) -> AbstractAsyncContextManager[object]:
        return asyncio.Lock()

    async def connect(self, address: Address, *, client_id: str, timeout_ms: int) -> Connection:
        return await connect(address, client_id=client_id, timeout_ms=timeout_ms)

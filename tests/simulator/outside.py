"""Puts virtual time and seeded chance in the place of the machine's, while a world runs.

Broker and client are handed their clock, disk and network. What they reach for beside them (ids,
the client's clock and sockets) is replaced here, by name, so that a run depends on its seed alone.
"""

import gc
import logging
import os
import random
import sys
import time as real_time
from asyncio import events
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from random import Random
from typing import Any
from unittest.mock import patch

from barnabas.broker import broker as broker_module
from barnabas.broker.groups import loading as group_loading
from barnabas.broker.net import lanes
from barnabas.broker.shards import loading as shard_loading
from barnabas.broker.storage import cleaner_process
from barnabas.client.aio import connection as client_connection
from barnabas.config.kinds import Address
from tests.simulator.cleaning import VirtualCleaner
from tests.simulator.loop import Schedule, VirtualLoop
from tests.simulator.network import Cables, Socket

WALL_US = 1_700_000_000_000_000  # when the world begins


class VirtualTime:
    """In the place of the module `time`, where the client asks it."""

    def __init__(self, schedule: Schedule, skew_ms: Callable[[str], int]) -> None:
        self._schedule = schedule
        self._skew_ms = skew_ms

    def monotonic(self) -> float:
        return self._schedule.now_us / 1_000_000

    def monotonic_ns(self) -> int:
        return self._schedule.now_us * 1000

    def time(self) -> float:
        return self.time_ns() / 1_000_000_000

    def time_ns(self) -> int:
        loop = events._get_running_loop()
        skew_ms = self._skew_ms(loop.name) if isinstance(loop, VirtualLoop) else 0
        return (WALL_US + self._schedule.now_us + 1000 * skew_ms) * 1000


@contextmanager
def outside(
    schedule: Schedule, cables: Cables, rng: Random, skew_ms: Callable[[str], int]
) -> Iterator[None]:
    """Until the end of the block, nothing that runs in it sees the real world."""

    async def open_socket(loop: VirtualLoop, address: Address) -> Socket:
        return await cables.open_socket(loop, loop.name, address)

    class Lanes(lanes.Lanes):
        def __init__(self, loop: Any) -> None:
            super().__init__(loop, time.monotonic)

    time = VirtualTime(schedule, skew_ms)
    replaced: list[tuple[Any, str, Any]] = [
        (os, "urandom", rng.randbytes),
        (random, "_urandom", rng.randbytes),
        (broker_module, "Lanes", Lanes),
        (lanes, "BRISK_S", -1.0),  # a loop that lingers goes round for nothing
        (shard_loading, "SLICE_S", -1.0),  # others have a turn after every batch
        (group_loading, "LOAD_BYTES", 1),  # and disks take their time
        (cleaner_process, "CleanerProcess", VirtualCleaner),
        (client_connection, "_open", open_socket),
    ]
    for name, module in sys.modules.items():
        if name.startswith("barnabas."):
            replaced += [(module, "time", time)] * (vars(module).get("time") is real_time)
            replaced += [(module, "random", rng)] * (vars(module).get("random") is random)
    collecting = gc.isenabled()
    logging.disable(logging.CRITICAL)
    gc.disable()  # when it runs depends on what ran before
    try:
        with ExitStack() as patches:
            for module, name, value in replaced:
                patches.enter_context(patch.object(module, name, value))
            yield
    finally:
        logging.disable(logging.NOTSET)
        if collecting:
            gc.enable()

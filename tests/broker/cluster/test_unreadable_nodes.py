"""A node that nobody can read stops the controller in words, and not for good."""

import asyncio
from pathlib import Path

from barnabas.keeper import paths
from barnabas.keeper.controller_paths import CONTROLLER
from barnabas.keeper.keeper import Event, WatchEventType
from barnabas.keeper.memory import MemoryKeeper
from tests.broker.clustered import cluster_of
from tests.waiting import eventually

GARBAGE = b"{{"


async def test_who_cannot_read_a_topic_stands_again_after_pauses_and_goes_on_when_it_is_mended(
    tmp_path: Path,
) -> None:
    async with cluster_of(tmp_path, 2) as clustered:
        await clustered.create("t", replicas=2)
        before = clustered.controller()
        assert before is not None
        by_hand = MemoryKeeper(clustered.store, 60_000)
        with clustered.lock:
            whole = by_hand.get(paths.topic("t")).data
            by_hand.set(paths.topic("t"), GARBAGE)
        await clustered.kill(before)
        [(left, broker)] = clustered.brokers.items()
        assert broker.cluster is not None
        controlling = broker.cluster.controlling

        def failures() -> int:
            return clustered.logs[left].getvalue().count("no longer controller")

        await eventually(lambda: failures() >= 3 and controlling._backoff is not None)
        assert "keeper node /brokers/topics/t cannot be read" in clustered.logs[left].getvalue()
        seen = failures()
        for _ in range(100):  # its own election is news as well, and no reason to hurry
            controlling.heard(Event(WatchEventType.CHANGED, CONTROLLER))
            await asyncio.sleep(0)
        assert failures() <= seen + 1
        with clustered.lock:
            by_hand.set(paths.topic("t"), whole)
        await eventually(lambda: clustered.controller() == left)
        await eventually(lambda: clustered.leader("t") == left)

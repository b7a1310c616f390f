"""Bugs with disks."""

from typing import Any

from barnabas.broker.later import Later
from barnabas.broker.volume import Volume
from barnabas.log.epochs import LeaderEpochs
from tests.simulator.bugs.planting import Change, bug


@bug(brokers=None)
def says_synced_and_is_not() -> list[Change]:
    """Hazard 24: what should survive a power loss is acknowledged without a sync."""

    def flush(self: Volume, log: Any) -> Later[str]:
        later: Later[str] = Later()
        later.set("")
        return later

    return [(Volume, "flush", flush)]


@bug()
def followers_do_not_sync() -> list[Change]:
    """With flush.messages=1 a follower counts before its disk has the record."""
    from barnabas.broker import fetcher

    async def flush(followed: Any) -> None:
        """Later, perhaps."""

    return [(fetcher, "flush", flush)]


@bug()
def forgets_epochs_of_followers() -> list[Change]:
    """Hazard 2: the epochs of fetched batches are not kept, so logs cannot be compared."""
    return [(LeaderEpochs, "begin", lambda self, epoch, offset: None)]

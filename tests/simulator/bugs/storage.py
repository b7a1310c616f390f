"""Bugs with disks."""

from typing import Any

from barnabas.broker.net.deferred_reply import DeferredReply
from barnabas.broker.storage.log_directory import OpenLogDirectory
from barnabas.log.epochs import LeaderEpochs
from tests.simulator.bugs.planting import Change, bug


@bug(brokers=None)
def says_synced_and_is_not() -> list[Change]:
    """Hazard 24: what should survive a power loss is acknowledged without a sync."""

    def flush(self: OpenLogDirectory, log: Any) -> DeferredReply[str]:
        later: DeferredReply[str] = DeferredReply()
        log.durability.durable_offset = log.end_offset
        later.set("")
        return later

    return [(OpenLogDirectory, "flush", flush)]


@bug()
def followers_do_not_sync() -> list[Change]:
    """With flush.messages=1 a follower counts before its disk has the record."""
    from barnabas.broker.replicas import fetcher

    async def flush(followed: Any) -> None:
        log = followed.partition.log
        log.durability.durable_offset = log.end_offset

    return [(fetcher, "flush", flush)]


@bug()
def forgets_epochs_of_followers() -> list[Change]:
    """Hazard 2: the epochs of fetched batches are not kept, so logs cannot be compared."""
    return [(LeaderEpochs, "begin", lambda self, epoch, offset: None)]


@bug(brokers=1)
def moves_logs_without_a_sync() -> list[Change]:
    """The last piece of a log that moves between directories is not synced, and the source goes."""
    from barnabas.broker.storage.moves import Moves
    from barnabas.log.directory.directory import LogDirectory

    real = LogDirectory.adopt

    def adopt(self: LogDirectory, copy: Any, source: Any) -> None:
        real(self, copy, source)
        copy.durability.durable_offset = copy.durability.recovery_point = copy.end_offset

    async def made_durable(self: Moves, log: Any, log_directory: OpenLogDirectory) -> bool:
        return True

    return [(LogDirectory, "adopt", adopt), (Moves, "_made_durable", made_durable)]


@bug()
def trusts_memory_after_a_failed_sync() -> list[Change]:
    """Hazard 24: a process syncs what a failed sync of the process before it left in memory."""
    from barnabas.log.log import Log

    return [(Log, "write_again", lambda self: None)]

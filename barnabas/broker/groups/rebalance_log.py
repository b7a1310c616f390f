"""Logs each rebalance that has ended: one line, with the cause in words."""

from barnabas.coordinators.groups.history.statistics import RebalanceStatistics
from barnabas.coordinators.groups.history.text import PROBLEMS, reason_text
from barnabas.system.logs import Logger


def log_rebalances(log: Logger, statistics: RebalanceStatistics) -> None:
    """A rebalance that another one replaced before it was complete is a debug line."""
    for group, entry in statistics.take():
        overtaken = entry.sync_ms < 0
        say = log.debug if overtaken else log.info
        if any(cause.kind in PROBLEMS for cause in entry.causes):
            say = log.warning
        say(
            "rebalance",
            group=group,
            generation=entry.generation,
            members=entry.members,
            why=reason_text(entry),
            join_ms=entry.join_ms,
            sync_ms=entry.sync_ms,
            **({"overtaken": True} if overtaken else {}),
        )

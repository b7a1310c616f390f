"""What happened in the cluster, and why: the last few thousand events, for people to read.

In: one entry per election, in-sync set change, broker registration or failure, and admin
operation. Out: the same entries, oldest first.
Always: bounded; an entry states its cause in words.
"""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from barnabas.controller.state import NO_LEADER, PartitionLeadership
from barnabas.model.ids import TopicPartition

ENTRIES_MAX = 10_000


class HistoryEntry(NamedTuple):
    """`what` is one of a few phrases, `cause` a sentence; the other fields are for partitions."""

    number: int
    at_ms: int
    what: str
    cause: str
    topic: str = ""
    partition: int = -1
    leader: int = -1
    leader_epoch: int = -1
    isr: tuple[int, ...] = ()
    leader_before: int = -1
    isr_before: tuple[int, ...] = ()


class ClusterHistory:
    """Kept by the active controller, during its tenure."""

    def __init__(self) -> None:
        self._entries: deque[HistoryEntry] = deque(maxlen=ENTRIES_MAX)
        self._number = 0

    def __iter__(self) -> Iterator[HistoryEntry]:
        return iter(self._entries)

    def since(self, number: int) -> list[HistoryEntry]:
        """Entries after this number."""
        return [entry for entry in self._entries if entry.number > number]

    def add(self, at_ms: int, what: str, cause: str, *, topic: str = "") -> None:
        self._number += 1
        self._entries.append(HistoryEntry(self._number, at_ms, what, cause, topic))

    def add_state(
        self,
        at_ms: int,
        name: TopicPartition,
        old: PartitionLeadership | None,
        new: PartitionLeadership,
        cause: str,
    ) -> None:
        """The first leader of a partition is part of its topic's entry; it gets no entry of its
        own."""
        if old is None:
            return
        self._number += 1
        self._entries.append(
            HistoryEntry(
                self._number,
                at_ms,
                what_changed(old, new),
                cause,
                name.topic,
                name.partition,
                new.leader,
                new.leader_epoch,
                new.isr,
                old.leader,
                old.isr,
            )
        )


def what_changed(old: PartitionLeadership | None, new: PartitionLeadership) -> str:
    if old is None:
        return "first leader"
    if new.leader_epoch != old.leader_epoch:
        if new.leader == NO_LEADER:
            return "leader lost"
        if new.recovering and not old.recovering:
            return "unclean election"
        return "election" if new.leader in (*old.isr, *old.elr) else "unclean election"
    if len(new.isr) < len(old.isr):
        return "isr shrunk"
    return "isr expanded" if len(new.isr) > len(old.isr) else "replicas changed"

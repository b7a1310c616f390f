"""Which markers go to which broker, and which of them are written.

In: markers that are due, who leads which partition, answers of brokers, time.
Out: WriteTxnMarkers requests, at most one at a time to each broker; partitions that have their
marker, by shard; the next deadline.
Always: a marker is sent again until its partition has it, is deleted, or another broker coordinates
the transaction. A request names a producer id once, since its answer is by producer id.
Not here: when a marker is due, and what follows (shard.py); the connections (broker/).
"""

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import NamedTuple, Protocol

from msgspec import Struct

from barnabas.coordinators.transactions.transaction import Partitions
from barnabas.model.errors import Code
from barnabas.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

RETRY_MS = 50
RETRY_MS_MAX = 1_000
BEHIND_MS_MAX = 1_000  # markers wait for a broker that has not answered, unless another one leads
REQUEST_PARTITIONS_MAX = 1_000
NO_LEADER = -1

# The partition needs no marker: it has a newer epoch of the producer, so no transaction of this
# epoch is open there, or it cannot have data of the transaction.
_NEEDS_NO_MARKER = frozenset(
    (Code.INVALID_PRODUCER_EPOCH, Code.UNSUPPORTED_FOR_MESSAGE_FORMAT, Code.UNSUPPORTED_VERSION)
)

Key = tuple[int, str]
"""A shard, and a transactional id in it."""
TopicPartition = tuple[str, int]


class MarkersDue(Struct, frozen=True):
    """A decision that is committed: its partitions get markers."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    transaction_version: int
    partitions: Partitions


class MarkersWritten(NamedTuple):
    """Partitions that have the marker of a transaction, or need none."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: list[TopicPartition]


class MarkerRequest(NamedTuple):
    """To send; its answer is handed in with the same `broker`."""

    broker: int
    request: WriteTxnMarkersRequest


class Leaders(Protocol):
    """Who leads a partition."""

    def leader_of(self, topic: str, partition: int) -> int | None:
        """NO_LEADER if there is none at the moment; None only if it is known to be deleted."""
        ...


class _Undelivered:
    """The markers of one transaction that are not written yet."""

    __slots__ = ("due", "failures", "in_flight", "to_send")

    def __init__(self, due: MarkersDue) -> None:
        self.due = due
        self.to_send = {
            (topic, index) for topic, indexes in due.partitions.items() for index in indexes
        }
        self.in_flight = 0  # partitions
        self.failures = 0


class MarkerQueue:
    """The markers of all shards of one broker."""

    def __init__(self, leaders: Leaders) -> None:
        self._leaders = leaders
        self._undelivered: dict[Key, _Undelivered] = {}
        self._ready: dict[Key, None] = {}
        self._behind: dict[int, dict[Key, None]] = {}  # by broker that has not answered yet
        self._behind_until_ms = 0
        self._retries: list[tuple[int, Key]] = []
        self._sent: dict[int, dict[Key, tuple[_Undelivered, list[TopicPartition]]]] = {}

    def __len__(self) -> int:
        """Transactions with markers that are not written yet."""
        return len(self._undelivered)

    def add(self, shard: int, due: MarkersDue) -> None:
        key = (shard, due.transactional_id)
        self._undelivered[key] = _Undelivered(due)
        self._ready[key] = None

    def drop(self, shard: int) -> None:
        """Another broker coordinates these now; later responses are ignored."""
        for key in [key for key in self._undelivered if key[0] == shard]:
            del self._undelivered[key]

    def next_deadline(self) -> int | None:
        retry_ms = self._retries[0][0] if self._retries else None
        if not self._behind:
            return retry_ms
        return self._behind_until_ms if retry_ms is None else min(retry_ms, self._behind_until_ms)

    def requests(self, now_ms: int) -> tuple[list[MarkerRequest], dict[int, list[MarkersWritten]]]:
        """What to send now, and by shard what need not be sent: its partitions are deleted."""
        while self._retries and self._retries[0][0] <= now_ms:
            _, key = heappop(self._retries)
            self._ready[key] = None
        if self._behind and now_ms >= self._behind_until_ms:  # other brokers may lead by now
            for broker in tuple(self._behind):
                self._ready.update(self._behind.pop(broker))
        if not self._ready:
            return [], {}
        loads: dict[int, dict[Key, list[TopicPartition]]] = {}
        sizes: dict[int, int] = {}
        done: dict[int, list[MarkersWritten]] = {}
        ready, self._ready = self._ready, {}
        for key in ready:
            if key in self._undelivered:
                self._assign(key, loads, sizes, done, now_ms)
        requests = []
        for broker, load in loads.items():
            entries = {key: (self._undelivered[key], found) for key, found in load.items()}
            self._sent[broker] = entries
            requests.append(MarkerRequest(broker, _request_of(entries.values())))
        return requests, done

    def _assign(
        self,
        key: Key,
        loads: dict[int, dict[Key, list[TopicPartition]]],
        sizes: dict[int, int],
        done: dict[int, list[MarkersWritten]],
        now_ms: int,
    ) -> None:
        """Give each partition of a transaction to its leader, or let it wait until that has
        answered."""
        entry = self._undelivered[key]
        deleted, leaderless = [], False
        for topic, index in sorted(entry.to_send):
            broker = self._leaders.leader_of(topic, index)
            if broker is None:
                deleted.append((topic, index))
            elif broker == NO_LEADER:
                leaderless = True
            elif broker in self._sent or sizes.get(broker, 0) >= REQUEST_PARTITIONS_MAX:
                if not self._behind:
                    self._behind_until_ms = now_ms + BEHIND_MS_MAX
                self._behind.setdefault(broker, {})[key] = None
            else:
                loads.setdefault(broker, {}).setdefault(key, []).append((topic, index))
                sizes[broker] = sizes.get(broker, 0) + 1
                entry.to_send.discard((topic, index))
                entry.in_flight += 1
        if deleted:
            entry.to_send.difference_update(deleted)
            done.setdefault(key[0], []).append(_written(entry.due, deleted))
        if leaderless:
            self._retry(key, entry, now_ms)
        self._forget_if_done(key, entry)

    def answered(
        self, broker: int, response: WriteTxnMarkersResponse | None, now_ms: int
    ) -> dict[int, list[MarkersWritten]]:
        """The answer of a broker, None if there is none: by shard, what is written."""
        codes: dict[tuple[int, str, int], int] = {}
        for marker in () if response is None else response.markers:
            for topic in marker.topics:
                for each in topic.partitions:
                    codes[marker.producer_id, topic.name, each.partition_index] = each.error_code
        self._ready.update(self._behind.pop(broker, {}))
        done: dict[int, list[MarkersWritten]] = {}
        for key, (entry, partitions) in self._sent.pop(broker).items():
            if self._undelivered.get(key) is not entry:
                continue
            entry.in_flight -= len(partitions)
            written = []
            fenced = False
            for topic_name, index in partitions:
                number = codes.get((entry.due.producer_id, topic_name, index))
                code = Code.REQUEST_TIMED_OUT if number is None else Code.of(number)
                fenced = fenced or code is Code.TRANSACTION_COORDINATOR_FENCED
                if code is Code.NONE or code in _NEEDS_NO_MARKER:
                    written.append((topic_name, index))
                else:
                    entry.to_send.add((topic_name, index))
            if written:
                done.setdefault(key[0], []).append(_written(entry.due, written))
            if fenced:  # a newer coordinator decides about this transaction
                del self._undelivered[key]
                continue
            if len(written) < len(partitions):
                self._retry(key, entry, now_ms)
            else:
                entry.failures = 0
            self._forget_if_done(key, entry)
        return done

    def _retry(self, key: Key, entry: _Undelivered, now_ms: int) -> None:
        pause_ms = min(RETRY_MS << min(entry.failures, 10), RETRY_MS_MAX)
        entry.failures += 1
        heappush(self._retries, (now_ms + pause_ms, key))

    def _forget_if_done(self, key: Key, entry: _Undelivered) -> None:
        if not entry.to_send and not entry.in_flight:
            del self._undelivered[key]


def _written(due: MarkersDue, partitions: list[TopicPartition]) -> MarkersWritten:
    return MarkersWritten(due.transactional_id, due.producer_id, due.producer_epoch, partitions)


def _request_of(
    entries: Iterable[tuple[_Undelivered, list[TopicPartition]]],
) -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=entry.due.producer_id,
                producer_epoch=entry.due.producer_epoch,
                transaction_result=entry.due.commit,
                topics=list(_topics(partitions)),
                coordinator_epoch=entry.due.coordinator_epoch,
                transaction_version=entry.due.transaction_version,
            )
            for entry, partitions in entries
        ]
    )


def _topics(partitions: list[TopicPartition]) -> Iterator[WritableTxnMarkerTopic]:
    by_topic: dict[str, list[int]] = {}
    for topic, index in partitions:
        by_topic.setdefault(topic, []).append(index)
    for topic, indexes in by_topic.items():
        yield WritableTxnMarkerTopic(name=topic, partition_indexes=indexes)

"""The share session with one broker, and the records that were acquired in it.

In: the partitions to fetch now, acknowledgements. Out: requests.
Always: one request at a time; each has the next epoch; the first one of a session carries no
acknowledgement; what was acquired in a session that ended is not acknowledged in the next one.
Not here: which partitions to fetch, and what a response means (share_fetching.py).
"""

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from barnabas.client.consumer.message import RawMessage
from barnabas.client.share.acknowledge_type import AcknowledgeType
from barnabas.client.share.held_records import AckRun, HeldRecords, packed
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages import share_acknowledge, share_fetch
from barnabas.wire.messages.share_acknowledge import ShareAcknowledgeRequest
from barnabas.wire.messages.share_fetch import ShareFetchRequest

FIRST_EPOCH = 0
_LAST_EPOCH = -1
_EPOCH_MAX = 0x7FFF_FFFF

PartitionId = tuple[UUID, int]
Acks = dict[PartitionId, list[AckRun]]
ShareRequest = ShareFetchRequest | ShareAcknowledgeRequest


class ShareFetchLimits(NamedTuple):
    """Of one ShareFetch request. `acquire_mode`: 0 batch_optimized, 1 record_limit."""

    wait_ms: int
    bytes_min: int
    bytes_max: int
    records_max: int
    acquire_mode: int


class PartitionHold:
    """The records of a partition that were acquired in one session. `number` is in messages."""

    __slots__ = ("at", "lost", "number", "ready", "records")

    def __init__(self, number: int, at: TopicPartition) -> None:
        self.number = number
        self.at = at
        self.records = HeldRecords()
        self.ready: deque[RawMessage] = deque()  # not returned yet
        self.lost: KafkaError | None = None  # why the session ended: the broker has released all

    @property
    def name(self) -> str:
        return str(self.at)


class SentShareRequest(NamedTuple):
    request: ShareRequest
    acks: Acks
    sent_at: int
    closing: bool = False


class BrokerShareSession:
    """With one broker."""

    def __init__(self, group_id: str, member_id: str) -> None:
        self._group_id = group_id
        self._member_id = member_id
        self.epoch = FIRST_EPOCH
        self.held: dict[PartitionId, PartitionHold] = {}
        self.sent: SentShareRequest | None = None
        self.retry_at = 0
        self.known: dict[PartitionId, TopicPartition] = {}  # as both sides remember

    # --- requests ---

    def fetch(
        self, wanted: Mapping[PartitionId, TopicPartition], limits: ShareFetchLimits, now: int
    ) -> ShareFetchRequest:
        """`wanted`: all partitions to fetch. Acknowledgements of others must be sent before."""
        first = self.epoch == FIRST_EPOCH
        acks = {} if first else self._take(now)
        added = wanted if first else [one for one in wanted if one not in self.known]
        forgotten = [] if first else [one for one in self.known if one not in wanted]
        self.known = dict(wanted)
        partitions: dict[UUID, list[share_fetch.FetchPartition]] = {}
        for topic_id, number in dict.fromkeys([*added, *acks]):
            partitions.setdefault(topic_id, []).append(
                share_fetch.FetchPartition(
                    partition_index=number,
                    acknowledgement_batches=[
                        share_fetch.AcknowledgementBatch(
                            first_offset=a, last_offset=b, acknowledge_types=types
                        )
                        for a, b, types in packed(acks.get((topic_id, number), ()))
                    ],
                )
            )
        gone: dict[UUID, list[int]] = {}
        for topic_id, number in forgotten:
            gone.setdefault(topic_id, []).append(number)
        request = ShareFetchRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            share_session_epoch=self.epoch,
            max_wait_ms=limits.wait_ms,
            min_bytes=limits.bytes_min,
            max_bytes=limits.bytes_max,
            max_records=limits.records_max,
            batch_size=limits.records_max,
            share_acquire_mode=limits.acquire_mode,
            topics=[
                share_fetch.FetchTopic(topic_id=topic_id, partitions=found)
                for topic_id, found in partitions.items()
            ],
            forgotten_topics_data=[
                share_fetch.ForgottenTopic(topic_id=topic_id, partitions=numbers)
                for topic_id, numbers in gone.items()
            ],
        )
        self.sent = SentShareRequest(request, acks, now)
        return request

    def acknowledge(self, now: int) -> ShareAcknowledgeRequest:
        return self._acknowledgement(self._take(now), self.epoch, now)

    def close(self, now: int) -> ShareAcknowledgeRequest:
        """Ends the session; the broker releases what was not acknowledged."""
        for hold in self.held.values():
            hold.ready.clear()
            hold.records.drop_unreturned()
        return self._acknowledgement(self._take(now), _LAST_EPOCH, now)

    def _acknowledgement(self, acks: Acks, epoch: int, now: int) -> ShareAcknowledgeRequest:
        partitions: dict[UUID, list[share_acknowledge.AcknowledgePartition]] = {}
        renew = False
        for (topic_id, number), runs in acks.items():
            renew = renew or any(run.type == AcknowledgeType.RENEW for run in runs)
            partitions.setdefault(topic_id, []).append(
                share_acknowledge.AcknowledgePartition(
                    partition_index=number,
                    acknowledgement_batches=[
                        share_acknowledge.AcknowledgementBatch(
                            first_offset=a, last_offset=b, acknowledge_types=types
                        )
                        for a, b, types in packed(runs)
                    ],
                )
            )
        request = ShareAcknowledgeRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            share_session_epoch=epoch,
            is_renew_ack=renew,
            topics=[
                share_acknowledge.AcknowledgeTopic(topic_id=topic_id, partitions=found)
                for topic_id, found in partitions.items()
            ],
        )
        self.sent = SentShareRequest(request, acks, now, epoch == _LAST_EPOCH)
        return request

    def _take(self, now: int) -> Acks:
        taken = {one: hold.records.take(now) for one, hold in self.held.items()}
        return {one: runs for one, runs in taken.items() if runs}

    # --- state ---

    def pending(self) -> dict[PartitionId, bool]:
        """The partitions with acknowledgements to send, and whether some are renewals."""
        return {
            one: any(state == AcknowledgeType.RENEW for _, _, state in hold.records.runs())
            for one, hold in self.held.items()
            if hold.records.has_acknowledgements()
        }

    @property
    def is_open(self) -> bool:
        return self.epoch != FIRST_EPOCH

    def advanced(self) -> None:
        """The broker accepted the last request."""
        self.epoch = self.epoch + 1 if self.epoch < _EPOCH_MAX else 1

    def reset(self) -> list[PartitionHold]:
        """The session has ended. Returns what was acquired in it."""
        self.epoch = FIRST_EPOCH
        self.known = {}
        held = list(self.held.values())
        self.held = {}
        return held

    def forget_finished(self) -> list[PartitionHold]:
        """Drops partitions of which nothing is held any more."""
        done = {one: hold for one, hold in self.held.items() if not hold.records}
        for one in done:
            del self.held[one]
        return list(done.values())

"""Two brokers with share groups, in memory: one entry for each offset.

Simple and slow on purpose. It checks what a client may not do: acknowledge offsets that it does not
hold, skip an epoch, or put acknowledgements into the first request of a session.
"""

import random
from dataclasses import dataclass, field

from barnabas.client.share.sessions import ShareRequest
from barnabas.model.errors import Code
from barnabas.wire.messages import share_acknowledge, share_fetch
from barnabas.wire.messages.share_acknowledge import ShareAcknowledgeResponse
from barnabas.wire.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from tests.client.fetched import ID, batch

LOCK_MS = 100
BATCH = 5
Response = ShareFetchResponse | ShareAcknowledgeResponse


@dataclass
class SharedOffset:
    state: str = "available"  # or acquired, done
    owner: tuple[int, int] = (0, 0)  # broker and session
    count: int = 0
    deadline: int = 0


@dataclass
class ShareBrokers:
    """`leaders`: the broker of each partition. One member."""

    chance: random.Random
    partitions: int = 2
    offsets: int = 40
    leaders: list[int] = field(default_factory=lambda: [1, 2])
    epochs: dict[int, int] = field(default_factory=dict)  # of open sessions
    sessions: dict[int, int] = field(default_factory=dict)  # their numbers
    members: dict[int, set[int]] = field(default_factory=dict)  # partitions in them
    accepted: dict[tuple[int, int], int] = field(default_factory=dict)
    number: int = 0

    def __post_init__(self) -> None:
        self.log = [[SharedOffset() for _ in range(self.offsets)] for _ in range(self.partitions)]

    def expire(self, now: int) -> None:
        for partition in self.log:
            for one in partition:
                if one.state == "acquired" and now >= one.deadline:
                    one.state = "available"

    def disconnect(self, broker: int) -> None:
        """Its connection was closed: what was acquired over it is released."""
        owner = (broker, self.sessions.get(broker, 0))
        self.epochs.pop(broker, None)
        for partition in self.log:
            for one in partition:
                if one.state == "acquired" and one.owner == owner:
                    one.state = "available"

    def move(self, partition: int, broker: int) -> None:
        """Another broker leads it, and has read the stored state: nothing is acquired there."""
        self.leaders[partition] = broker
        for one in self.log[partition]:
            if one.state == "acquired":
                one.state = "available"
                one.count -= 1

    def handle(self, broker: int, request: ShareRequest, now: int) -> Response:
        self.expire(now)
        epoch, fetching = request.share_session_epoch, isinstance(request, ShareFetchRequest)
        answer: type[Response] = ShareFetchResponse if fetching else ShareAcknowledgeResponse
        if epoch == 0:
            assert fetching
            assert not any(p.acknowledgement_batches for t in request.topics for p in t.partitions)
            self.number += 1
            self.sessions[broker] = self.number
            self.members[broker] = set()
        elif broker not in self.epochs:
            return answer(
                error_code=Code.SHARE_SESSION_NOT_FOUND,
                acquisition_lock_timeout_ms=0,
                responses=[],
                node_endpoints=[],
            )
        elif epoch > 0:
            assert epoch == self.epochs[broker] + 1, "an epoch was skipped"
        self.epochs[broker] = max(epoch, 0)
        results = {
            part.partition_index: self._acknowledge(broker, part, now)
            for topic in request.topics
            for part in topic.partitions
            if part.acknowledgement_batches
        }
        if not isinstance(request, ShareFetchRequest):
            if epoch < 0:
                self.disconnect(broker)
            return _acknowledged(results)
        members = self.members[broker]
        members.update(part.partition_index for t in request.topics for part in t.partitions)
        members -= {number for gone in request.forgotten_topics_data for number in gone.partitions}
        parts = [
            self._acquire(broker, number, results.get(number, 0), request, now)
            for number in sorted(members)
        ]
        found = share_fetch.ShareFetchableTopicResponse(topic_id=ID, partitions=parts)
        return ShareFetchResponse(
            error_code=0,
            acquisition_lock_timeout_ms=LOCK_MS,
            responses=[found],
            node_endpoints=[],
        )

    def _acknowledge(self, broker: int, part: object, now: int) -> int:
        number: int = part.partition_index  # type: ignore[attr-defined]
        if self.leaders[number] != broker:
            return Code.NOT_LEADER_OR_FOLLOWER
        wanted: dict[int, int] = {}
        for one in part.acknowledgement_batches:  # type: ignore[attr-defined]
            offsets = range(one.first_offset, one.last_offset + 1)
            types = one.acknowledge_types
            types = types * len(offsets) if len(types) == 1 else types
            assert len(types) == len(offsets)
            assert not set(offsets) & set(wanted), "an offset is acknowledged twice"
            wanted |= dict(zip(offsets, types, strict=True))
        owner = (broker, self.sessions[broker])
        entries = [self.log[number][offset] for offset in wanted]
        if any(one.state != "acquired" or one.owner != owner for one in entries):
            return Code.INVALID_RECORD_STATE
        for (offset, kind), one in zip(wanted.items(), entries, strict=True):
            if kind == 1:
                self.accepted[number, offset] = self.accepted.get((number, offset), 0) + 1
            if kind == 4:
                one.deadline = now + LOCK_MS
            else:
                one.state = "available" if kind == 2 else "done"
        return 0

    def _acquire(
        self, broker: int, number: int, ack_error: int, request: ShareFetchRequest, now: int
    ) -> share_fetch.PartitionData:
        leader = share_fetch.LeaderIdAndEpoch(leader_id=self.leaders[number], leader_epoch=1)
        if self.leaders[number] != broker:
            return share_fetch.PartitionData(
                partition_index=number,
                error_code=Code.NOT_LEADER_OR_FOLLOWER,
                acknowledge_error_code=ack_error,
                current_leader=leader,
                records=b"",
                acquired_records=[],
            )
        acquired: list[tuple[int, int]] = []
        for offset, one in enumerate(self.log[number]):
            if one.state == "available" and len(acquired) < request.max_records:
                one.state = "acquired"
                one.owner = (broker, self.sessions[broker])
                one.count += 1
                one.deadline = now + LOCK_MS
                acquired.append((offset, one.count))
        starts = sorted({offset // BATCH * BATCH for offset, _ in acquired})
        return share_fetch.PartitionData(
            partition_index=number,
            error_code=0,
            acknowledge_error_code=ack_error,
            current_leader=leader,
            records=b"".join(batch(start, BATCH) for start in starts),
            acquired_records=[
                share_fetch.AcquiredRecords(first_offset=o, last_offset=o, delivery_count=c)
                for o, c in acquired
            ],
        )


def _acknowledged(results: dict[int, int]) -> ShareAcknowledgeResponse:
    return ShareAcknowledgeResponse(
        error_code=0,
        node_endpoints=[],
        acquisition_lock_timeout_ms=LOCK_MS,
        responses=[
            share_acknowledge.ShareAcknowledgeTopicResponse(
                topic_id=ID,
                partitions=[
                    share_acknowledge.PartitionData(
                        partition_index=number,
                        error_code=code,
                        current_leader=share_acknowledge.LeaderIdAndEpoch(
                            leader_id=1, leader_epoch=1
                        ),
                    )
                    for number, code in results.items()
                ],
            )
        ],
    )

"""Members of share groups on the wire, with no work per record.

In: an address, a group, a topic. Out: requests, and the ranges of records in their replies.
Always: a reply with an error ends the run.
Not here: what many members do at the same time (share_herd.py).
A member has two connections, as Java's has: for heartbeats to the coordinator, and for fetches.
"""

import uuid
from struct import Struct

from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.frames import read_response, request_frame
from barnabas.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from barnabas.wire.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from barnabas.wire.messages.share_fetch import AcknowledgementBatch as FetchAcknowledgementBatch
from barnabas.wire.messages.share_fetch import (
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
    ShareFetchResponse,
)
from barnabas.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from bench.herd import COMING_UP, CORRELATION, Line

ALTER, BEAT, FETCH, ACKNOWLEDGE = 1, 1, 2, 2  # versions
GROUP_RESOURCE = 32
ACCEPT = 1
RECORD_LIMIT = 1  # the acquire mode that returns no more than was asked for
RECORDS_MAX = 500  # the default of max.poll.records
STRICT_MAX = 100  # so that ten members fit into the window of a partition, 2,000 records
BYTES_MAX = 52_428_800
WAIT_MS = 500  # the default of fetch.max.wait.ms
_BUFFER = bytearray(4_000_000)  # of one reply: it is decoded before the next one is read
_SIZE = Struct(">i")
_EPOCH = Struct(">i")
_OFFSETS = Struct(">qq")
EPOCH_MARK = 0x5EED_0E0C
OFFSET_MARK = 0x5EED_0FF5

Range = tuple[int, int, int]
"""A partition, and the first and last offset of records in it."""


def start_at_the_beginning(servers: str, group: str) -> None:
    """Sets `share.auto.offset.reset` of a group that need not exist."""
    line = Line(servers)
    option = AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")
    resource = AlterConfigsResource(
        resource_type=GROUP_RESOURCE, resource_name=group, configs=[option]
    )
    answer = line.call(
        IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), ALTER
    )
    line.socket.close()
    assert isinstance(answer, IncrementalAlterConfigsResponse)
    if code := answer.responses[0].error_code:
        raise RuntimeError(f"the options of {group} are not set: error {code}")


class PatchedFrame:
    """The frame of a request that is sent many times: only its epoch and offsets change."""

    def __init__(self, request: ProtocolMessage, version: int) -> None:
        """`request` has the marks above as its epoch and as its first and last offset."""
        frame = request_frame(request.api_key, version, CORRELATION, "herd", request)
        self.frame = bytearray(frame)
        self._epoch_at = frame.index(_EPOCH.pack(EPOCH_MARK))
        self._offsets_at = frame.find(_OFFSETS.pack(OFFSET_MARK, OFFSET_MARK))

    def patch(self, epoch: int, first: int | None = None, last: int | None = None) -> bytearray:
        _EPOCH.pack_into(self.frame, self._epoch_at, epoch)
        if first is not None and last is not None:
            _OFFSETS.pack_into(self.frame, self._offsets_at, first, last)
        return self.frame


class ShareMember:
    """One member: its place in the group, its share session with the leader, what it holds."""

    def __init__(self, servers: str, group: str, topic: str) -> None:
        self.group, self.topic = group, topic
        self.id = str(uuid.uuid4())
        self.beats, self.fetches = Line(servers), Line(servers)
        self.member_epoch = 0
        self.session_epoch = 0
        self.topic_id = uuid.UUID(int=0)
        self.partitions: list[int] = []
        self.sent_at = 0.0

    def close(self) -> None:
        self.beats.socket.close()
        self.fetches.socket.close()

    # Membership

    def heartbeat_request(self) -> ShareGroupHeartbeatRequest:
        joins = not self.member_epoch
        return ShareGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.id,
            member_epoch=self.member_epoch,
            subscribed_topic_names=[self.topic] if joins else None,
        )

    def heartbeat(self) -> bool:
        """Sends one heartbeat; whether the coordinator answered it."""
        answer = self.beats.call(self.heartbeat_request(), BEAT)
        assert isinstance(answer, ShareGroupHeartbeatResponse)
        return self.beaten(answer)

    def beaten(self, answer: ShareGroupHeartbeatResponse) -> bool:
        if answer.error_code in COMING_UP:
            return False
        if answer.error_code:
            raise RuntimeError(f"a heartbeat was refused: error {answer.error_code}")
        self.member_epoch = answer.member_epoch
        if answer.assignment is not None:
            self.partitions = []
            for topic in answer.assignment.topic_partitions:
                self.topic_id, self.partitions = topic.topic_id, topic.partitions
        return True

    # The share session

    def fetch_request(
        self, accepted: list[Range], epoch: int, *, strict: bool = False
    ) -> ShareFetchRequest:
        by_partition: dict[int, list[FetchAcknowledgementBatch]] = {}
        if not epoch:
            by_partition = {partition: [] for partition in self.partitions}
        for partition, first, last in accepted:
            by_partition.setdefault(partition, []).append(
                FetchAcknowledgementBatch(
                    first_offset=first, last_offset=last, acknowledge_types=[ACCEPT]
                )
            )
        partitions = [
            FetchPartition(partition_index=partition, acknowledgement_batches=batches)
            for partition, batches in by_partition.items()
        ]
        return ShareFetchRequest(
            group_id=self.group,
            member_id=self.id,
            share_session_epoch=epoch,
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=BYTES_MAX,
            max_records=STRICT_MAX if strict else RECORDS_MAX,
            batch_size=RECORDS_MAX,
            share_acquire_mode=RECORD_LIMIT if strict else 0,
            topics=[FetchTopic(topic_id=self.topic_id, partitions=partitions)]
            if partitions
            else [],
            forgotten_topics_data=[],
        )

    def send_fetch(self, accepted: list[Range], *, strict: bool = False) -> None:
        request = self.fetch_request(accepted, self.session_epoch, strict=strict)
        self.session_epoch += 1
        self.fetches.send(request, FETCH)

    def receive_fetch(self) -> list[Range]:
        """The acquired records; an acknowledgement that was refused fails the run."""
        answer = read_response(self._frame(), ShareFetchRequest.api_key, FETCH)[1]
        assert isinstance(answer, ShareFetchResponse)
        if answer.error_code:
            raise RuntimeError(f"a fetch was refused: error {answer.error_code}")
        ranges: list[Range] = []
        for topic in answer.responses:
            for part in topic.partitions:
                if code := part.error_code or part.acknowledge_error_code:
                    raise RuntimeError(f"partition {part.partition_index}: error {code}")
                index = part.partition_index
                ranges += [(index, a.first_offset, a.last_offset) for a in part.acquired_records]
        return ranges

    def _frame(self) -> memoryview:
        """A whole reply. A fetch may bring half a megabyte: it is read without copies."""
        view, read, size = memoryview(_BUFFER), 0, _SIZE.size
        while read < size:
            piece = self.fetches.socket.recv_into(view[read:])
            if not piece:
                raise ConnectionError("the broker closed a member's connection")
            read += piece
            if size == _SIZE.size and read >= size:
                size += _SIZE.unpack_from(view)[0]
                if size > len(view):
                    raise RuntimeError(f"a reply of {size:,} bytes")
        return view[_SIZE.size : size]

    def acknowledge_request(self, epoch: int, accepted: Range) -> ShareAcknowledgeRequest:
        partition, first, last = accepted
        batch = AcknowledgementBatch(
            first_offset=first, last_offset=last, acknowledge_types=[ACCEPT]
        )
        of_partition = AcknowledgePartition(
            partition_index=partition, acknowledgement_batches=[batch]
        )
        return ShareAcknowledgeRequest(
            group_id=self.group,
            member_id=self.id,
            share_session_epoch=epoch,
            topics=[AcknowledgeTopic(topic_id=self.topic_id, partitions=[of_partition])],
        )

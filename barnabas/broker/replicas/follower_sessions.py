"""Fetches of followers from this broker: their positions in its partitions, and the replies.

In: fetch requests of other brokers. Out: file slices up to the end of the log, now or as soon as
there are records; the position of each follower, for the partitions.
Always: the cost of a request depends on what has changed, not on the number of followed
partitions: a partition with records for a follower adds itself to a list.
Always: in-sync replicas come first, and those that catch up get a bounded share of every reply;
data that is not in memory is read after a reply, not before it.
Not here: consumers (handlers/fetch.py), the follower's own end (fetcher.py).
"""

import asyncio
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from barnabas.broker.context import BrokerContext
from barnabas.broker.net.deferred_reply import DeferredReply
from barnabas.broker.net.dispatch import Dispatcher
from barnabas.broker.net.file_descriptors import FileDescriptorBudget
from barnabas.broker.replicas.follower_positions import FollowerPosition, Key
from barnabas.broker.topic import Topics
from barnabas.model.errors import Code, KafkaError
from barnabas.model.ids import BrokerId
from barnabas.model.ports import FileSlice
from barnabas.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

if TYPE_CHECKING:
    from barnabas.broker.cluster.membership import ClusterMembership
    from barnabas.broker.partition import Partition
    from barnabas.broker.replicas.roles import Replicas
    from barnabas.replication.throttle import Throttle

INITIAL_EPOCH, FINAL_EPOCH = 0, -1
EPOCH_MAX = 2**31 - 1
CATCH_UP_BYTES = 1 << 20  # per reply, for replicas that are not in sync
MARKS_WAIT_S = 0.1  # a moved high watermark is sent without records after this time
WAIT_MS_MAX = 30_000


class ReplicaSessionsContext(BrokerContext, Protocol):
    """What this module needs of the broker."""

    topics: Topics
    descriptors: FileDescriptorBudget
    dispatcher: Dispatcher
    cluster: "ClusterMembership | None"
    replicas: "Replicas | None"


class ReplicaSession:
    """One follower's fetches from this broker, one at a time."""

    def __init__(
        self,
        broker: ReplicaSessionsContext,
        follower: BrokerId,
        broker_epoch: int,
        session_id: int,
    ) -> None:
        self.follower = follower
        self.broker_epoch = broker_epoch
        self.id = session_id
        self.epoch = 1
        self._broker = broker
        self._loop = broker.loop
        self._positions: dict[Key, FollowerPosition] = {}
        self._ready: dict[FollowerPosition, None] = {}  # with records, or a result
        self._marked: dict[
            FollowerPosition, None
        ] = {}  # whose high watermark or log start has moved
        self._sent: list[FollowerPosition] = []  # in the last reply
        self._invalid: dict[FollowerPosition, None] = {}  # their positions are no longer valid
        self._slices_left = 0  # of the reply in progress
        self._bytes_max = 0
        self._waiting: DeferredReply[FetchResponse] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._marks_timer: asyncio.TimerHandle | None = None
        self._throttle_timer: asyncio.TimerHandle | None = None
        self._marks_due = False
        self._woken = False

    def __len__(self) -> int:
        return len(self._positions)

    # Notifications

    def note(self, position: FollowerPosition) -> None:
        self._ready[position] = None
        if self._waiting is not None and not self._woken:
            self._woken = True  # once per loop iteration, however much is appended in it
            self._loop.call_soon(self._wake)

    def note_marks(self, position: FollowerPosition) -> None:
        self._marked[position] = None
        if self._marks_timer is None:
            self._marks_timer = self._loop.call_later(MARKS_WAIT_S, self._send_marks)

    def note_invalid(self, position: FollowerPosition) -> None:
        self._invalid[position] = None

    def _send_marks(self) -> None:
        self._marks_timer = None
        self._marks_due = True
        self._wake()

    def _wake(self) -> None:
        self._woken = False
        if self._waiting is not None:
            response = self._response()
            if response is not None:
                self._answer(response)

    def _late(self) -> None:
        self._timer = None
        self._marks_due = True
        self._answer(self._response() or self._empty())

    def _answer(self, response: FetchResponse) -> None:
        waiting = self._waiting
        self._forget_wait()
        if waiting is not None:
            waiting.set(response)

    def _forget_wait(self) -> None:
        self._waiting = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # Requests

    def fetch(self, request: FetchRequest) -> FetchResponse | DeferredReply[FetchResponse]:
        if self._waiting is not None:  # its connection was lost; the follower sends it again
            self._answer(self._empty())
        self._bytes_max = min(request.max_bytes, self._broker.config.fetch_max_bytes)
        for gone in request.forgotten_topics_data:
            for index in gone.partitions:
                self._drop((gone.topic_id, index))
        for topic in request.topics:
            for asked in topic.partitions:
                self._ask((topic.topic_id, asked.partition), asked)
        position_invalid, self._invalid = self._invalid, {}
        for position in position_invalid:
            # A request of the session repeats what it sent for all partitions that it includes.
            if position.leading is not None and self._positions.get(position.key) is position:
                self._take(position)
        for position in self._sent:  # records that were not appended are sent again
            partition = position.partition
            if partition is not None and partition.log.end_offset > position.offset:
                self._ready[position] = None
        self._sent = []
        response = self._response()
        if response is not None:
            return response
        if request.max_wait_ms <= 0:
            return self._empty()
        self._waiting = deferred = DeferredReply[FetchResponse]()
        deferred.cancelled = self._forget_wait
        wait_s = min(request.max_wait_ms, WAIT_MS_MAX) / 1000
        self._timer = self._loop.call_later(wait_s, self._late)
        return deferred

    def close(self) -> None:
        for timer in (self._marks_timer, self._throttle_timer):
            if timer is not None:
                timer.cancel()
        if self._waiting is not None:
            self._answer(self._empty())
        for position in self._positions.values():
            position.leave()
        self._positions.clear()

    def _drop(self, key: Key) -> None:
        position = self._positions.pop(key, None)
        if position is not None:
            position.leave()
            self._ready.pop(position, None)
            self._marked.pop(position, None)

    def _ask(self, key: Key, asked: FetchPartition) -> None:
        position = self._positions.get(key)
        if position is None:
            position = self._positions[key] = FollowerPosition(self, key)
        position.ask(asked)
        self._take(position)

    def _take(self, position: FollowerPosition) -> None:
        position.error = position.diverging = None
        self._ready.pop(position, None)
        try:
            partition = position.take(self._broker.topics)
        except KafkaError as error:
            position.leave()
            position.error = error
        if position.error is not None or position.diverging is not None:
            self._ready[position] = None
            return
        log = partition.log
        if log.end_offset > position.offset:
            self._ready[position] = None
        if position.sent_marks != (log.high_watermark, log.start_offset):
            self.note_marks(position)

    # Replies

    def _response(self) -> FetchResponse | None:
        """What there is to send; None if there is nothing yet."""
        found: dict[UUID, list[PartitionData]] = {}
        left = self._bytes_max
        self._slices_left = self._broker.descriptors.slices_max(self._broker.clock.monotonic_ms())
        behind = []
        for position in list(self._ready):
            partition = position.partition
            if partition is not None and not self._in_sync(position) and position.error is None:
                behind.append(position)
                continue
            data = self._data(position, left)
            if data is not None:
                left -= _length(data)
                found.setdefault(position.key[0], []).append(data)
        share = CATCH_UP_BYTES
        for position in behind:
            if share <= 0:
                break
            throttle = self._throttle(position)
            if throttle is not None and self._must_wait(throttle):
                continue
            data = self._data(position, share)
            if data is not None:
                share -= _length(data)
                if throttle is not None:
                    throttle.took(_length(data), self._broker.clock.monotonic_ms())
                found.setdefault(position.key[0], []).append(data)
        if self._marks_due:
            self._add_marks(found)
        if not found:
            return None
        return FetchResponse(
            session_id=self.id,
            responses=[
                FetchableTopicResponse(topic_id=id_, partitions=each) for id_, each in found.items()
            ],
        )

    def _throttle(self, position: FollowerPosition) -> "Throttle | None":
        topic, replicas = self._broker.topics.by_id(position.key[0]), self._broker.replicas
        if topic is None or replicas is None:
            return None
        return replicas.throttles.sent(topic, position.key[1])

    def _must_wait(self, throttle: "Throttle") -> bool:
        wait_ms = throttle.wait_ms(self._broker.clock.monotonic_ms())
        if wait_ms and self._throttle_timer is None:
            self._throttle_timer = self._loop.call_later(wait_ms / 1000, self._go_on)
        return wait_ms > 0

    def _go_on(self) -> None:
        self._throttle_timer = None
        self._wake()

    def _in_sync(self, position: FollowerPosition) -> bool:
        return position.leading is not None and self.follower in position.leading.machine.isr

    def _empty(self) -> FetchResponse:
        return FetchResponse(session_id=self.id, responses=[])

    def _data(self, position: FollowerPosition, left: int) -> PartitionData | None:
        """The data for a position with records; None: not now, or not at all."""
        if position.error is not None:
            error, position.error = position.error, None
            del self._ready[position]
            return position.failure(self._broker.topics, error)
        partition = position.partition
        if partition is None:  # the follower gets another leadership, and fetches for that
            self._ready.pop(position, None)
            position.leave()
            return None
        log = partition.log
        if position.diverging is not None:
            epoch, end = position.diverging
            position.diverging = None
            del self._ready[position]
            data = position.data(partition, diverging=EpochEndOffset(epoch=epoch, end_offset=end))
            # It truncates its log: records from its old position would leave a gap. Wait for its
            # next fetch.
            position.leave()
            return data
        if left <= 0 or self._slices_left <= 0:
            return None
        try:
            most = min(position.bytes_max, left)
            found = log.read_for_copy(position.offset, most).file_slice
        except KafkaError as error:
            del self._ready[position]
            return position.failure(self._broker.topics, error)
        except OSError as error:
            del self._ready[position]
            return position.failure(self._broker.topics, partition.unreadable(error))
        del self._ready[position]
        if found is None:
            return None
        if partition.log_directory is not None and log.is_cold(found):
            self._warm(position, partition, found)
            return None
        assert position.leading is not None
        self._slices_left -= 1
        position.leading.records_sent(self.follower)
        self._sent.append(position)
        self._broker.counts.replicated_out += found.length
        return position.data(partition, records=found)

    def _warm(self, position: FollowerPosition, partition: "Partition", found: FileSlice) -> None:
        """Read in the thread of its log directory, and sent when it is in memory."""
        if position.warming:
            return
        position.warming = True
        log_directory = partition.log_directory
        assert log_directory is not None

        async def warm() -> None:
            await log_directory.warm([found])
            position.warming = False
            if position.partition is partition and self._positions.get(position.key) is position:
                self.note(position)

        self._broker.dispatcher.keep(self._loop.create_task(warm()))

    def _add_marks(self, found: dict[UUID, list[PartitionData]]) -> None:
        self._marks_due = False
        marked, self._marked = self._marked, {}
        for position in marked:
            partition = position.partition
            if partition is None:
                continue
            log = partition.log
            if position.sent_marks != (log.high_watermark, log.start_offset):
                found.setdefault(position.key[0], []).append(position.data(partition))


class ReplicaSessions:
    """The sessions of all followers of this broker."""

    def __init__(self, broker: ReplicaSessionsContext) -> None:
        self._broker = broker
        self._sessions: dict[BrokerId, ReplicaSession] = {}
        self._next_id = 1

    def fetch(self, request: FetchRequest) -> FetchResponse | DeferredReply[FetchResponse]:
        """From a broker; its id and its epoch are in the request."""
        follower = BrokerId(request.replica_state.replica_id)
        broker_epoch = request.replica_state.replica_epoch
        session = self._sessions.get(follower)
        cluster = self._broker.cluster
        if cluster is None or follower not in cluster.members:
            return _refused(Code.BROKER_ID_NOT_REGISTERED)
        if session is not None and broker_epoch < session.broker_epoch:
            return _refused(Code.STALE_BROKER_EPOCH)
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            session = self._begin(follower, broker_epoch)
        elif session is None or (session.id, session.broker_epoch) != (
            request.session_id,
            broker_epoch,
        ):  # also for a broker that has registered again: it sends everything with its new epoch
            return _refused(Code.FETCH_SESSION_ID_NOT_FOUND)
        elif session.epoch != request.session_epoch:
            return _refused(Code.INVALID_FETCH_SESSION_EPOCH)
        else:
            session.epoch = session.epoch + 1 if session.epoch < EPOCH_MAX else 1
        return session.fetch(request)

    def _begin(self, follower: BrokerId, broker_epoch: int) -> ReplicaSession:
        before = self._sessions.pop(follower, None)
        if before is not None:
            before.close()
        session = ReplicaSession(self._broker, follower, broker_epoch, self._next_id)
        self._next_id = self._next_id + 1 if self._next_id < EPOCH_MAX else 1
        self._sessions[follower] = session
        return session

    def close(self) -> None:
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()


def _length(data: PartitionData) -> int:
    return getattr(data.records, "length", 0)


def _refused(code: Code) -> FetchResponse:
    return FetchResponse(error_code=code, session_id=0, responses=[])

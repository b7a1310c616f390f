"""Fetches all partitions that this broker follows at one leader, and retries failures.

In: partitions to follow, replies of the leader. Out: the same records in this broker's logs, logs
truncated where they diverge, high watermarks and log start offsets adopted.
Always: a failure is retried after a pause; a reply to a request of an earlier leadership changes
nothing; records are checked, and written from the buffer in which they were received.
Not here: truncating logs (following.py) and where (replication/follower.py), connections
(broker/cluster/peers.py), the leader's side (follower_sessions.py).
"""

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any
from uuid import UUID

from barnabas.broker.replicas.following import FollowerReplica, Key, flush, restart_log, truncate
from barnabas.model.errors import Code, KafkaError
from barnabas.model.ids import BrokerId
from barnabas.replication.follower import marks
from barnabas.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)

if TYPE_CHECKING:
    from barnabas.broker.replicas.fetchers import Fetchers

NO_SESSION, INITIAL_EPOCH, FINAL_EPOCH = 0, 0, -1
EPOCH_MAX = 2**31 - 1
RESPONSE_BYTES_MAX = 8 << 20
ANSWER_MS_MAX = 5_000  # in addition to the time that a leader may wait for records
BACKOFF_S_MIN, BACKOFF_S_MAX = 0.05, 1.0
# One of the two brokers has received a newer state than the other.
_EXPECTED = (
    Code.FENCED_LEADER_EPOCH,
    Code.NOT_LEADER_OR_FOLLOWER,
    Code.UNKNOWN_LEADER_EPOCH,
    Code.UNKNOWN_TOPIC_ID,
    Code.UNKNOWN_TOPIC_OR_PARTITION,
)


class Fetcher:
    """Runs as long as there is a partition to follow."""

    def __init__(self, leader: BrokerId, owner: "Fetchers") -> None:
        self._leader = leader
        self._owner = owner
        self._broker = owner.broker
        self._loop = owner.broker.loop
        self._followed: dict[Key, FollowerReplica] = {}
        # Positions that the leader does not know yet.
        self._changed: dict[FollowerReplica, None] = {}
        self._forgotten: dict[Key, None] = {}
        self._session_id, self._session_epoch = NO_SESSION, INITIAL_EPOCH
        self._requests = 0
        self._polling = False  # a request is in progress that may wait for records
        self._nudging = False
        self._lost = False  # a position that the leader should have received
        self._task = self._loop.create_task(self._run())

    def __len__(self) -> int:
        return len(self._followed)

    @property
    def done(self) -> bool:
        return self._task.done()

    def add(self, followed: FollowerReplica) -> None:
        self._followed[followed.key] = followed
        self._forgotten.pop(followed.key, None)
        if followed.partition.is_unsynced:  # the leader would consider it stored
            self._pause(followed, flush(followed))
        else:
            self._change(followed)

    def remove(self, key: Key) -> None:
        followed = self._followed.pop(key, None)
        if followed is not None:
            self._changed.pop(followed, None)
            self._forgotten[key] = None

    def send_position(self, key: Key) -> None:
        """Send its position again: the leader may have been asked to drop it."""
        followed = self._followed.get(key)
        if followed is not None and followed.machine.is_ready(self._broker.clock.monotonic_ms()):
            self._change(followed)

    def sweep(self) -> None:
        """Drop partitions that ended for other reasons: deleted, or on a failed disk."""
        for key, followed in list(self._followed.items()):
            if not followed.holds:
                self.remove(key)

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    # Requests

    def _change(self, followed: FollowerReplica) -> None:
        """Send its position soon, even if a request waits at the leader for records."""
        self._changed[followed] = None
        if self._polling and not self._nudging and self._session_id != NO_SESSION:
            self._nudging = True
            self._loop.call_soon(self._send_now)

    def _send_now(self) -> None:
        self._nudging = False
        if self._polling and self._changed:
            self._owner.spawn(self._ask_now())

    async def _ask_now(self) -> None:
        """A second request: the leader answers the waiting one, and then this."""
        if self._session_id == NO_SESSION or not self._changed:
            return
        session = self._session_id
        request, number = self._request(0), self._requests
        try:
            response = await self._call(request)
        except KafkaError:
            self._lost = True  # the waiting request may still succeed: send all positions again
            return
        if session == self._session_id:
            self._take(response, number)

    async def _run(self) -> None:
        backoff_s = BACKOFF_S_MIN
        wait_ms = self._broker.config.replica_fetch_wait_max_ms
        while self._followed:
            try:
                new = self._lost or self._session_id == NO_SESSION
                if new:
                    self._begin_session()
                request, number = self._request(0 if new else wait_ms), self._requests
                self._polling = True
                response = await self._call(request)
                self._polling = False
                self._take(response, number)
                backoff_s = BACKOFF_S_MIN
                continue
            except KafkaError as error:
                self._broker.log.debug(
                    "fetch failed", leader=self._leader, reason=error.detail, code=error.code.name
                )
            except Exception as error:  # an error of ours must not end fetching for good
                self._owner.fault("fetch failed", error)
            finally:
                self._polling = False
            self._session_id = NO_SESSION
            await asyncio.sleep(backoff_s)
            backoff_s = min(BACKOFF_S_MAX, 2 * backoff_s)
        if self._session_id != NO_SESSION:
            self._session_epoch = FINAL_EPOCH
            self._owner.spawn(self._close_session(self._request(0)))

    async def _close_session(self, request: FetchRequest) -> None:
        try:
            await self._call(request)
        except KafkaError:
            return

    async def _call(self, request: FetchRequest) -> FetchResponse:
        response = await self._owner.cluster.peers.call(
            self._leader, request, lane="data", timeout_ms=request.max_wait_ms + ANSWER_MS_MAX
        )
        assert isinstance(response, FetchResponse)
        if response.error_code:
            raise KafkaError(Code.of(response.error_code))
        return response

    def _begin_session(self) -> None:
        self._session_id, self._session_epoch = NO_SESSION, INITIAL_EPOCH
        self._lost = False
        self._forgotten.clear()
        self._changed = dict.fromkeys(self._followed.values())

    def _request(self, wait_ms: int) -> FetchRequest:
        """The number of the request is in `_requests` afterwards."""
        self._requests += 1
        now = self._broker.clock.monotonic_ms()
        bytes_max = self._broker.config.replica_fetch_max_bytes
        topics: dict[UUID, list[FetchPartition]] = {}
        changed, self._changed = self._changed, {}
        for followed in changed:
            machine, log = followed.machine, followed.partition.log
            if not followed.holds or self._followed.get(followed.key) is not followed:
                continue
            if not machine.is_ready(now):
                continue  # the code that paused it resumes it
            followed.asked, followed.since = log.end_offset, self._requests
            topics.setdefault(followed.key[0], []).append(
                FetchPartition(
                    partition=followed.key[1],
                    current_leader_epoch=machine.leader_epoch,
                    fetch_offset=log.end_offset,
                    last_fetched_epoch=log.epochs.latest,
                    log_start_offset=log.start_offset,
                    partition_max_bytes=bytes_max,
                )
            )
        forgotten: dict[UUID, list[int]] = {}
        for topic_id, index in self._forgotten:
            forgotten.setdefault(topic_id, []).append(index)
        self._forgotten.clear()
        request = FetchRequest(
            replica_state=ReplicaState(
                replica_id=self._broker.id, replica_epoch=self._owner.cluster.broker_epoch
            ),
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=RESPONSE_BYTES_MAX,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=[FetchTopic(topic_id=id_, partitions=each) for id_, each in topics.items()],
            forgotten_topics_data=[
                ForgottenTopic(topic_id=id_, partitions=each) for id_, each in forgotten.items()
            ],
        )
        self._session_epoch = self._session_epoch + 1 if self._session_epoch < EPOCH_MAX else 1
        return request

    # Replies

    def _take(self, response: FetchResponse, number: int) -> None:
        self._session_id = response.session_id
        wall_ms = self._broker.clock.wall_ms()
        for topic in response.responses:
            for data in topic.partitions:
                followed = self._followed.get((topic.topic_id, data.partition_index))
                if followed is None or followed.machine.paused or followed.since > number:
                    continue
                if not followed.holds:
                    self.remove(followed.key)
                    continue
                try:
                    self._take_one(followed, data, wall_ms)
                except KafkaError as error:
                    followed.partition.check_disk_error(error)
                    self._failed(followed, error.code, error.detail)
                except OSError as error:
                    self._failed(
                        followed,
                        Code.KAFKA_STORAGE_ERROR,
                        followed.partition.unreadable(error).detail,
                    )

    def _take_one(self, followed: FollowerReplica, data: PartitionData, wall_ms: int) -> None:
        partition, machine = followed.partition, followed.machine
        log = partition.log
        if data.error_code:
            code = Code.of(data.error_code)
            if code is Code.OFFSET_OUT_OF_RANGE:
                self._pause(
                    followed, restart_log(self._broker, self._owner.cluster.peers, followed)
                )
            else:
                self._failed(followed, code, "the leader's reply")
            return
        machine.succeeded()
        if followed.asked != log.end_offset:
            self._changed[followed] = None  # it was requested before a truncation: request it again
            return
        if data.diverging_epoch.end_offset >= 0:
            diverging = data.diverging_epoch
            self._pause(
                followed, truncate(self._broker, followed, diverging.epoch, diverging.end_offset)
            )
            return
        size = 0
        if data.records:
            assert isinstance(data.records, memoryview | bytes | bytearray)
            size = log.append_fetched(data.records, wall_ms)
            self._broker.counts.replicated_in += size
        taken = marks(data.high_watermark, data.log_start_offset, log.end_offset)
        partition.follow_high_watermark(taken.high_watermark, size)
        if taken.start > log.start_offset:
            log.delete_before(min(taken.start, log.high_watermark))
            self._changed[followed] = None  # a DeleteRecords request may wait for this log start
        if size:
            wait_ms = self._throttled(followed, size)
            if partition.flush_after is not None:
                self._pause(followed, flush(followed))
            elif wait_ms:
                self._pause(followed, asyncio.sleep(wait_ms / 1000))
            else:
                self._changed[followed] = None

    def _throttled(self, followed: FollowerReplica, size: int) -> int:
        """How long a replica that catches up waits, so that the others are not disturbed."""
        topic, replicas = self._broker.topics.by_id(followed.key[0]), self._broker.replicas
        if topic is None or replicas is None or self._broker.id in followed.partition.in_sync:
            return 0
        throttle = replicas.throttles.taken(topic, followed.key[1])
        if throttle is None:
            return 0
        now = replicas.now_ms()
        throttle.took(size, now)
        return throttle.wait_ms(now)

    def _failed(self, followed: FollowerReplica, code: Code, reason: str) -> None:
        """Retry it alone after a pause: the others continue."""
        self._pause_fetch(followed)
        now = self._broker.clock.monotonic_ms()
        first = not followed.machine.backoff_ms
        wait_ms = followed.machine.failed(now) - now
        log_line = self._broker.log.debug
        if code not in _EXPECTED and first:
            log_line = self._broker.log.warning
        log_line(
            "partition fetch paused",
            partition=followed.partition.name,
            leader=self._leader,
            code=code.name,
            reason=reason,
        )
        self._loop.call_later(wait_ms / 1000, self._again, followed)

    def _pause_fetch(self, followed: FollowerReplica) -> None:
        """The leader must not send records repeatedly that are not appended now."""
        self._changed.pop(followed, None)
        if self._followed.get(followed.key) is followed:
            self._forgotten[followed.key] = None

    def _again(self, followed: FollowerReplica) -> None:
        if followed.holds and self._followed.get(followed.key) is followed:
            followed.machine.not_before_ms = 0
            self._forgotten.pop(followed.key, None)
            if followed.partition.is_unsynced:  # the leader would consider it stored
                self._pause(followed, flush(followed))
            else:
                self._change(followed)

    # Work that takes a while

    def _pause(self, followed: FollowerReplica, work: Coroutine[Any, Any, None]) -> None:
        followed.machine.paused = True
        self._pause_fetch(followed)
        self._owner.spawn(self._paused(followed, work))

    async def _paused(self, followed: FollowerReplica, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except (KafkaError, OSError) as error:
            followed.machine.paused = False
            failure = followed.partition.unreadable(error) if isinstance(error, OSError) else error
            self._failed(followed, failure.code, failure.detail)
            return
        except Exception as error:  # otherwise it would stay paused until the next election
            followed.machine.paused = False
            self._failed(followed, Code.UNKNOWN_SERVER_ERROR, repr(error))
            return
        followed.machine.paused = False
        self._again(followed)

"""Everything that one broker follows at one leader: asked for, taken, tried again.

In: partitions to follow, replies of the leader. Out: the same records here, logs cut where they
differ, high watermarks and log starts taken over.
Always: whatever fails is tried again after a pause; a reply that was asked for by an earlier
leadership changes nothing; what is written was checked, and is written from where it was received.
Not here: cutting logs (following.py) and where (replication/follower.py), connections
(broker/cluster/peers.py), the leader's side (sessions.py).
"""

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any
from uuid import UUID

from barnabas.broker.replicas.following import FollowerReplica, Key, cut, find_place, flush
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
ANSWER_MS_MAX = 5_000  # beyond the time that a leader may wait for records
BACKOFF_S_MIN, BACKOFF_S_MAX = 0.05, 1.0
# A word that one of the two brokers has heard before the other.
_EXPECTED = (
    Code.FENCED_LEADER_EPOCH,
    Code.NOT_LEADER_OR_FOLLOWER,
    Code.UNKNOWN_LEADER_EPOCH,
    Code.UNKNOWN_TOPIC_ID,
    Code.UNKNOWN_TOPIC_OR_PARTITION,
)


class Fetcher:
    """Runs as long as there is anything to follow."""

    def __init__(self, leader: BrokerId, owner: "Fetchers") -> None:
        self._leader = leader
        self._owner = owner
        self._broker = owner.broker
        self._loop = owner.broker.loop
        self._followed: dict[Key, FollowerReplica] = {}
        self._changed: dict[FollowerReplica, None] = {}  # what the leader is still to be told
        self._forgotten: dict[Key, None] = {}
        self._session_id, self._session_epoch = NO_SESSION, INITIAL_EPOCH
        self._requests = 0
        self._polling = False  # a request is out that may wait for records
        self._nudging = False
        self._lost = False  # something that the leader was to be told
        self._task = self._loop.create_task(self._run())

    def __len__(self) -> int:
        return len(self._followed)

    @property
    def done(self) -> bool:
        return self._task.done()

    def add(self, followed: FollowerReplica) -> None:
        self._followed[followed.key] = followed
        self._forgotten.pop(followed.key, None)
        if followed.partition.is_unsynced:  # the leader would count it
            self._pause(followed, flush(followed))
        else:
            self._change(followed)

    def remove(self, key: Key) -> None:
        followed = self._followed.pop(key, None)
        if followed is not None:
            self._changed.pop(followed, None)
            self._forgotten[key] = None

    def touch(self, key: Key) -> None:
        """Say again where it is: the leader may have been told to doubt it."""
        followed = self._followed.get(key)
        if followed is not None and followed.machine.is_ready(self._broker.clock.monotonic_ms()):
            self._change(followed)

    def sweep(self) -> None:
        """Those that have come to an end elsewhere: deleted, or on a lost disk."""
        for key, followed in list(self._followed.items()):
            if not followed.holds:
                self.remove(key)

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    # Asking

    def _change(self, followed: FollowerReplica) -> None:
        """The leader is to know of it soon, even if a request waits there for records."""
        self._changed[followed] = None
        if self._polling and not self._nudging and self._session_id != NO_SESSION:
            self._nudging = True
            self._loop.call_soon(self._nudge)

    def _nudge(self) -> None:
        self._nudging = False
        if self._polling and self._changed:
            self._owner.spawn(self._ask_now())

    async def _ask_now(self) -> None:
        """A second request: the leader answers the one that waits, and then this."""
        if self._session_id == NO_SESSION or not self._changed:
            return
        session = self._session_id
        request, number = self._request(0), self._requests
        try:
            response = await self._call(request)
        except KafkaError:
            self._lost = True  # the one that waits may not have failed: all is said again
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
            except Exception as error:  # a fault of ours must not end the following for good
                self._owner.fault("fetch failed", error)
            finally:
                self._polling = False
            self._session_id = NO_SESSION
            await asyncio.sleep(backoff_s)
            backoff_s = min(BACKOFF_S_MAX, 2 * backoff_s)
        if self._session_id != NO_SESSION:
            self._session_epoch = FINAL_EPOCH
            self._owner.spawn(self._say_goodbye(self._request(0)))

    async def _say_goodbye(self, request: FetchRequest) -> None:
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
        """Its number is in `_requests` then."""
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
                continue  # whoever paused it says when it goes on
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

    # Taking

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
                    followed.partition.suspect(error)
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
                self._pause(followed, find_place(self._broker, self._owner.cluster.peers, followed))
            else:
                self._failed(followed, code, "the leader says so")
            return
        machine.succeeded()
        if followed.asked != log.end_offset:
            self._changed[followed] = None  # it was asked for before a cut: ask again
            return
        if data.diverging_epoch.end_offset >= 0:
            told = data.diverging_epoch
            self._pause(followed, cut(self._broker, followed, told.epoch, told.end_offset))
            return
        size = 0
        if data.records:
            assert isinstance(data.records, memoryview | bytes | bytearray)
            size = log.append_fetched(data.records, wall_ms)
            self._broker.counts.replicated_in += size
        taken = marks(data.high_watermark, data.log_start_offset, log.end_offset)
        partition.followed_to(taken.high_watermark, size)
        if taken.start > log.start_offset:
            log.delete_before(min(taken.start, log.high_watermark))
            self._changed[followed] = None  # who had records deleted may wait to hear of it
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
        """Once more after a pause, by itself: the others go on."""
        self._leave_out(followed)
        now = self._broker.clock.monotonic_ms()
        first = not followed.machine.backoff_ms
        wait_ms = followed.machine.failed(now) - now
        say = self._broker.log.debug
        if code not in _EXPECTED and first:
            say = self._broker.log.warning
        say(
            "partition not followed for now",
            partition=followed.partition.name,
            leader=self._leader,
            code=code.name,
            reason=reason,
        )
        self._loop.call_later(wait_ms / 1000, self._again, followed)

    def _leave_out(self, followed: FollowerReplica) -> None:
        """The leader need not send, again and again, what is not taken now."""
        self._changed.pop(followed, None)
        if self._followed.get(followed.key) is followed:
            self._forgotten[followed.key] = None

    def _again(self, followed: FollowerReplica) -> None:
        if followed.holds and self._followed.get(followed.key) is followed:
            followed.machine.not_before_ms = 0
            self._forgotten.pop(followed.key, None)
            if followed.partition.is_unsynced:  # the leader would count it
                self._pause(followed, flush(followed))
            else:
                self._change(followed)

    # What takes a while

    def _pause(self, followed: FollowerReplica, work: Coroutine[Any, Any, None]) -> None:
        followed.machine.paused = True
        self._leave_out(followed)
        self._owner.spawn(self._paused(followed, work))

    async def _paused(self, followed: FollowerReplica, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except (KafkaError, OSError) as error:
            followed.machine.paused = False
            failure = followed.partition.unreadable(error) if isinstance(error, OSError) else error
            self._failed(followed, failure.code, failure.detail)
            return
        except Exception as error:  # or it would stay paused until the next election
            followed.machine.paused = False
            self._failed(followed, Code.UNKNOWN_SERVER_ERROR, repr(error))
            return
        followed.machine.paused = False
        self._again(followed)

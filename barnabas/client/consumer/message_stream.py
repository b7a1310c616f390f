"""What both consumers share: return messages, and commit them.

Written once over `Net`. Consumer and PartitionConsumer decide which partitions are read.
Always: a message is used when the next one is requested, or at a close without an exception;
automatic commits cover only used messages. Callbacks are called between messages. For a group
member each message of an iteration is a poll: commits and rebalances happen within a batch, and the
remaining messages of revoked partitions are dropped.
Not here: deserializers and interceptors (deserializing.py), reading (reader.py), positions
(seeking.py), groups (client/consumer/membership/member.py).
"""

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from time import monotonic
from typing import Any, Generic, Self, cast
from weakref import WeakSet

from barnabas.client.cluster import ClusterClient
from barnabas.client.consumer.commits import GivenOffsets, OffsetCommits, as_offsets, offsets_of
from barnabas.client.consumer.deserializing import ConsumerInterceptor, Deserializing
from barnabas.client.consumer.membership.membership import CommitterIdentity
from barnabas.client.consumer.message import K, Message, RawMessage, V
from barnabas.client.consumer.offset_lookup import Committed, reset_of
from barnabas.client.consumer.one_poll import OnePoll
from barnabas.client.consumer.positions import UNKNOWN, FetchPosition
from barnabas.client.consumer.reader import PartitionReader
from barnabas.client.consumer.seeking import At, Seeking
from barnabas.client.group_metadata import GroupMetadata
from barnabas.client.net import PendingResponse
from barnabas.model.ids import TopicPartition
from barnabas.wire.codec import ProtocolMessage as WireMessage

_log = logging.getLogger("barnabas.client")

# How often an iteration checks the group within a batch. Between two checks a message only costs a
# read of the clock.
_GROUP_LOOK_S = 0.01
NEVER_S = float("inf")


class MessageStream(Seeking, Generic[K, V]):
    """An asynchronous iterator of messages, and more."""

    _shares = False  # whether a group may assign the partitions to another member

    def __init__(
        self,
        cluster: ClusterClient,
        *,
        key_deserializer: Callable[[bytes], Any] | None,
        value_deserializer: Callable[[bytes], Any] | None,
        interceptors: Sequence[ConsumerInterceptor],
        owns_cluster: bool = True,
    ) -> None:
        config = cluster.config
        self._cluster = cluster
        self._owns_cluster = owns_cluster
        self._owner: object = self  # the consumer that callbacks get
        self._group_id = config.group_id
        self._plain = key_deserializer is None and value_deserializer is None and not interceptors
        search = self._left_off if self._group_id else None
        self._reader = PartitionReader(cluster, reset_of(config.auto_offset_reset), search)
        self._deserializing = Deserializing(
            key_deserializer,
            value_deserializer,
            interceptors,
            give_back=self._reader.give_back,
            read_again=self._reader.progress.read_again,
        )
        self._count_max = config.max_poll_records
        self._batch: list[RawMessage] = []  # of the iteration
        self._next = 0
        self._taken = 1  # how many messages of it were returned
        self._group_look_at = NEVER_S  # when the group is checked within a batch
        self._in_hand: dict[TopicPartition, FetchPosition] = {}  # positions before the last batch
        self._auto_commit = config.enable_auto_commit and bool(self._group_id)
        self._commits = OffsetCommits(
            cluster, self._commits_as, self._deserializing.notify_committed
        )
        self._one_poll = OnePoll(cluster.net)
        _made.add(self)

    def stands_for(self, owner: object, *, owns_cluster: bool = True) -> None:
        """Callbacks get `owner`, the blocking consumer; its cluster is closed with it."""
        self._owner = owner
        self._owns_cluster = owns_cluster

    async def __aenter__(self) -> Self:
        self._cluster.net.check_owner()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self._close(failed=kind is not None)

    async def close(self) -> None:
        """Commit used messages, leave the group, disconnect."""
        await self._close(failed=False)

    def __aiter__(self) -> Self:
        self._cluster.net.check_owner()
        return self

    async def __anext__(self) -> Message[K, V]:
        number = self._next
        if number < len(self._batch) and monotonic() < self._group_look_at:
            self._next = number + 1
            return cast("Message[K, V]", self._batch[number])
        return await self._next_polled()

    async def _next_polled(self) -> Message[K, V]:
        if not await self._fill(None):
            raise StopAsyncIteration  # nothing is left to read, ever
        self._next += 1
        self._taken = 1
        return cast("Message[K, V]", self._batch[self._next - 1])

    # --- messages ---

    async def getmany(
        self,
        max_records: int | None = None,
        timeout: float | None = None,  # noqa: ASYNC109  # no error, an empty list
    ) -> list[Message[K, V]]:
        """Up to `max_records` messages (max.poll.records), in order per partition.

        Waits for the first of them: for ever, or `timeout` seconds, then the list is empty.
        """
        self._cluster.net.check_owner()
        count = self._count_max if max_records is None else max(1, max_records)
        if await self._has_rest():  # of an iteration that was left
            batch = self._batch[self._next : self._next + count]
            self._next += len(batch)
            self._taken = len(batch)
            return cast("list[Message[K, V]]", batch)
        self._batch, self._next = [], 0
        deadline = None if timeout is None else self._cluster.net.now_ms() + int(timeout * 1000)
        batch = await self._poll(count, deadline)
        return cast("list[Message[K, V]]", batch)

    def give_back(self, messages: list[Message[K, V]]) -> None:
        """The last returned messages were not used: they are returned again."""
        if self._plain:
            self._reader.give_back(cast("list[RawMessage]", messages))
        else:
            self._reader.progress.read_again(cast("list[RawMessage]", messages))

    async def getone(self, timeout: float | None = None) -> Message[K, V]:  # noqa: ASYNC109
        """The next message; TimeoutError if none comes in `timeout` seconds."""
        self._cluster.net.check_owner()
        if self._next >= len(self._batch) or monotonic() >= self._group_look_at:
            deadline = None if timeout is None else self._cluster.net.now_ms() + int(timeout * 1000)
            if not await self._fill(deadline):
                raise TimeoutError(
                    "no message is left: every partition has reached its stop offset"
                    if self._reader.progress.finished
                    else f"no message came in {timeout} seconds"
                )
        self._next += 1
        self._taken = 1
        return cast("Message[K, V]", self._batch[self._next - 1])

    async def _fill(self, deadline: int | None) -> bool:
        """Whether the iteration has a message to return, of this batch or the next one."""
        if not await self._has_rest():
            self._batch, self._next = [], 0
            self._batch = await self._poll(self._count_max, deadline)
        return bool(self._batch)

    async def _has_rest(self) -> bool:
        """Whether messages of a batch are left, after a check of the group if it is due."""
        if self._next < len(self._batch) and monotonic() >= self._group_look_at:
            await self._one_poll.run(self._look_at_group())
        return self._next < len(self._batch)

    async def _look_at_group(self) -> None:
        """Within a batch: what precedes every poll, without waiting.

        The event loop runs once, or the sockets are
        read: so heartbeats continue while the reader never waits.
        """
        self._taken = 0  # the next message is requested: those before it have been used
        self._in_hand = {}
        others = self._others()
        await self._reader.glance(others() if others is not None else ())
        await self._before_poll(self._positions, self._cluster.net.now_ms())
        self._group_look_at = self._next_group_look()

    def _next_group_look(self) -> float:
        return monotonic() + _GROUP_LOOK_S if self._shares else NEVER_S

    def _group_changed(self) -> None:
        """Called on any thread: the next request for a message checks the group first."""
        self._group_look_at = 0.0
        self._reader.wake_up.notify()

    def wakeup(self) -> None:
        """From any thread: the call that waits for a message, or the next one, raises WokenUp."""
        self._one_poll.woken = True
        self._reader.wake_up.notify()

    def _remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop reading these partitions, and drop their messages of the current batch."""
        gone = set(partitions)
        self._reader.remove(gone)
        rest = self._batch[self._next :]
        self._batch = [one for one in rest if (one.topic, one.partition) not in gone]
        self._next = 0

    async def _poll(self, count_max: int, deadline: int | None) -> list[RawMessage]:
        return await self._one_poll.run(self._poll_alone(count_max, deadline))

    async def _poll_alone(self, count_max: int, deadline: int | None) -> list[RawMessage]:
        while True:
            self._in_hand = {}
            self._one_poll.check_woken()
            await self._before_poll(self._reader.positions, deadline)
            before = self._reader.positions() if self._auto_commit else {}
            taken = await self._reader.poll(count_max, self._until(deadline), self._others())
            if taken:
                self._in_hand = before
                self._group_look_at = self._next_group_look()
                if self._plain:
                    return taken
                if messages := self._deserializing.messages_of(taken):
                    return messages  # otherwise the interceptors dropped all of them
            self._one_poll.check_woken()
            if deadline is not None and self._cluster.net.now_ms() >= deadline:
                return []
            if self._reader.progress.finished:
                return []

    async def _before_poll(
        self, used: Callable[[], dict[TopicPartition, FetchPosition]], deadline: int | None
    ) -> None:
        """Commit if it is due, and run the group's steps."""
        await self._commits.gather()
        if self._auto_commit and self._may_commit():
            # The user polls again: all returned messages have been used.
            await self._commits.now_and_then(used, deadline)
        await self._between_polls(deadline)

    async def _between_polls(self, deadline: int | None) -> None:
        """The group's steps between two polls."""

    def _until(self, deadline: int | None) -> int | None:
        return deadline

    def _others(self) -> Callable[[], Sequence[PendingResponse[WireMessage]]] | None:
        return None

    def _positions(self) -> dict[TopicPartition, FetchPosition]:
        """The offset of the next message of each partition, where it is known."""
        places = self._reader.positions()
        for message in reversed(self._batch[self._next :]):  # not returned yet
            at = TopicPartition(message.topic, message.partition)
            if at in places:
                places[at] = FetchPosition(message.offset, message.leader_epoch)
        return places

    def _put_back(self) -> None:
        """Give messages that were not returned back to the reader, before positions change."""
        rest = self._batch[self._next :]
        self._batch, self._next = [], 0
        self.give_back(cast("list[Message[K, V]]", rest))

    # --- commits ---

    async def commit(self, what: Message[Any, Any] | GivenOffsets | None = None) -> None:
        """Commit a message, offsets (of the next message to read), or all returned messages.

        Fenced: the partition now belongs to another member. Rebalancing: poll first, so that the
        rebalance makes progress.
        """
        await self._commits.now(self._committable(what))

    async def commit_nowait(self, what: Message[Any, Any] | GivenOffsets | None = None) -> None:
        """As `commit`, but without waiting: the next poll reads the response and logs a failure."""
        await self._commits.soon(self._committable(what))

    async def committed(self, *partitions: At) -> dict[TopicPartition, Committed]:
        """The committed offsets of these partitions, or of all assigned, where there are any."""
        return await self._commits.found(self._those(partitions))

    def seek_to_committed(self, *partitions: At) -> None:
        """Go back to what the group has committed for these, or for all assigned.

        That is what a reader does after it aborted a transaction. Where nothing is committed,
        `auto.offset.reset` says where to begin.
        """
        self._put_back()
        for at in self._those(partitions):
            self._reader.seek(at, FetchPosition(UNKNOWN))

    def group_metadata(self) -> GroupMetadata:
        """Who this reader is to its group, for `producer.send_offsets_to_transaction`."""
        return self._commits.group_metadata(by_itself=self._auto_commit)

    def _committable(
        self, what: Message[Any, Any] | GivenOffsets | None
    ) -> dict[TopicPartition, Committed]:
        offsets = as_offsets(self._positions()) if what is None else offsets_of(what)
        for at in offsets if self._shares else ():
            if at not in self._reader.progress:
                raise self._commits.not_assigned(at, self._why_taken())
        return offsets

    def _commits_as(self) -> CommitterIdentity | None:
        """The member that commits; None for a commit without membership."""
        return None

    def _why_taken(self) -> str:
        """Why partitions were revoked, after a colon, where it is known."""
        return ""

    def _may_commit(self) -> bool:
        return True

    async def _commit_last(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Commit the used messages of partitions before they are revoked."""
        places = {**self._positions(), **self._in_hand}
        if partitions is not None:
            places = {at: places[at] for at in partitions if at in places}
        if self._may_commit():
            await self._commits.last(places)

    async def _left_off(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, FetchPosition]:
        """The group's committed offsets."""
        return await self._commits.left_off(partitions)

    # --- the end ---

    async def _close(self, *, failed: bool) -> None:
        if self._one_poll.closed:
            return
        if not self._cluster.net.may_send_at_close():
            self._abandon()
            return
        if failed:
            # the last returned messages were not used
            self._next = max(0, self._next - self._taken)
        if self._batch or not failed:
            self._in_hand = {}
        self._one_poll.closed = True
        self._group_look_at = 0.0  # an iteration raises it at the next message
        self._reader.end()
        try:
            try:
                if self._auto_commit and self._cluster.known is not None:
                    await self._commit_last()
                await self._commits.gather(wait=True)
            except Exception:
                await self._leave()  # an interceptor failed, leaving the group may still work
                raise
            await self._leave()
            if self._cluster.known is not None:
                await self._reader.close()
        finally:
            if self._owns_cluster:
                self._cluster.close()

    def _abandon(self) -> None:
        """Close without a commit or LeaveGroup: another process may continue as this member."""
        self._one_poll.closed = True
        self._group_look_at = 0.0
        if self._may_commit() and self._shares:
            _log.warning(
                "group %s: a consumer was closed after its event loop, or in a forked child:"
                " nothing was committed, and it did not leave the group",
                self._group_id,
            )
        if self._owns_cluster:
            self._cluster.close()

    async def _leave(self, why: str = "") -> None:
        """The group's steps at a close, or when it is left for another reason."""


_made: "WeakSet[MessageStream[Any, Any]]" = WeakSet()


def _forked() -> None:
    """In a forked child: the iteration must not continue with messages that its parent fetched."""
    for one in list(_made):
        one._group_look_at = 0.0


os.register_at_fork(after_in_child=_forked)

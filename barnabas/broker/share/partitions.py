"""The share partitions that this broker leads: loaded when a member first reads them.

In: requests of members, new records, time, leaderships that end. Out: decisions carried out:
state is written, waiting fetches are woken.
Always: a share partition that was fenced, or whose leadership ended, is dropped, and read again
when it is needed. So is one whose state is gone, or whose group has no session here, once its
writes have ended: a state that is read before could deliver a record again whose acceptance is then
confirmed. A change is reported when its write is committed.
Not here: the decisions (coordinators/share/share_partition.py), answers to members (fetching.py,
acknowledgements.py).
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

from barnabas.broker.partition import Partition
from barnabas.broker.role import Role
from barnabas.broker.share.dead_letters import write_letters
from barnabas.coordinators.ports import Now
from barnabas.coordinators.share.keys import StateKey, StateResult
from barnabas.coordinators.share.share_partition import SharePartition, ShareRoom, StateChange
from barnabas.coordinators.share.state_shard import StateRead, StateWrite
from barnabas.model.errors import Code, KafkaError

if TYPE_CHECKING:
    from barnabas.broker.share.service import ShareGroupSettings, ShareService

FENCED = (Code.FENCED_LEADER_EPOCH, Code.FENCED_STATE_EPOCH)  # so are its other writes
GONE = (
    Code.GROUP_ID_NOT_FOUND,
    Code.UNKNOWN_TOPIC_OR_PARTITION,
    Code.INVALID_REQUEST,  # the state was deleted
)
ANY_BYTES = 1 << 62  # more than any fetch waits for: all look again
_TO_MEMBERS = {
    Code.NOT_COORDINATOR: Code.COORDINATOR_NOT_AVAILABLE,
    Code.COORDINATOR_LOAD_IN_PROGRESS: Code.COORDINATOR_NOT_AVAILABLE,
    Code.COORDINATOR_NOT_AVAILABLE: Code.COORDINATOR_NOT_AVAILABLE,
    Code.GROUP_ID_NOT_FOUND: Code.GROUP_ID_NOT_FOUND,
    Code.UNKNOWN_TOPIC_OR_PARTITION: Code.UNKNOWN_TOPIC_OR_PARTITION,
    Code.FENCED_LEADER_EPOCH: Code.NOT_LEADER_OR_FOLLOWER,
    Code.FENCED_STATE_EPOCH: Code.NOT_LEADER_OR_FOLLOWER,
    Code.OFFSET_NOT_AVAILABLE: Code.OFFSET_NOT_AVAILABLE,
}


def code_for_members(code: Code) -> Code:
    """The code that a member gets for an error of the share coordinator, as in Kafka."""
    return _TO_MEMBERS.get(code, Code.UNKNOWN_SERVER_ERROR) if code else code


class ShareWaiter(Protocol):
    """A fetch that waits for records."""

    def ready(self, arrived: int) -> None:
        """There may be some: answer, or go on waiting. `arrived`: as many new bytes."""
        ...


class LoadedShare:
    """One share partition, from its first use until the group's last session here ends, or this
    broker no longer leads it.

    It waits in its partition for new records, like a fetch.
    """

    def __init__(
        self, service: "ShareService", key: StateKey, partition: Partition, epoch: int
    ) -> None:
        self._service = service
        self.key = key
        self.partition = partition
        self.leader_epoch = epoch
        self.machine: SharePartition | None = None  # None: it is being read
        self.loaded_ms = 0
        self.code = Code.NONE  # why it could not be read
        self.settings: ShareGroupSettings = service.settings_of(key.group)
        self.waiters: dict[ShareWaiter, None] = {}  # in order of arrival
        self.dropped = False
        self.retired = False  # nobody can acquire; it is dropped when its writes have ended
        self._writes_pending = 0
        self._waking = False
        self._arrived = 0  # bytes, since the waiting fetches were last woken
        self._held_at = 0  # last stable offset if a transaction was open, or may have been; or -1
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        partition.waiters[self] = None

    # Called by the partition

    def appended(self, size: int) -> None:
        ended = self._transaction_ended()
        if self.waiters:
            self.wake(ANY_BYTES if ended and self.settings.committed else size)

    def _transaction_ended(self) -> bool:
        """Whether older records can be read now: `size` is that of the marker alone."""
        log, held_at = self.partition.log, self._held_at
        stable = log.last_stable_offset
        self._held_at = stable if stable < log.high_watermark else -1
        return 0 <= held_at < stable

    def leadership_lost(self) -> None:
        """Or its topic has another delay: then readers that wait look again."""
        partition = self.partition
        if partition.role is Role.LEADER and max(partition.leader_epoch, 0) == self.leader_epoch:
            self.wake()
        else:
            self._service.loop.call_soon(self.drop)

    # Reading the state

    async def load(self) -> None:
        try:
            await self._load()
        except KafkaError as error:
            self._not_loaded(error.code)
        except Exception:  # any error: or its members would wait for ever
            self._not_loaded(Code.UNKNOWN_SERVER_ERROR)
            raise

    def _not_loaded(self, code: Code) -> None:
        if not self.dropped:
            self.code = code_for_members(code)
            self.drop()

    async def _load(self) -> None:
        service = self._service
        read = await service.states.read(self.key, self.leader_epoch)
        if read.code:
            raise KafkaError(read.code, read.message)
        start = await self._start(read)
        if self.dropped:
            return
        options = self.settings.options
        self.loaded_ms = service.now().ms
        self.machine = SharePartition(start, read.state_epoch, options, service.room, read.batches)
        self.machine.log_start(self.partition.log.start_offset)
        if read.start_offset < 0:  # or the next leader would begin at another offset
            self.carry_out(StateChange(0, start, 0, ()))
        # A fetch does not wait for the other partitions of its session, as in Kafka.
        self._arrived = ANY_BYTES
        self._serve()

    async def _start(self, read: StateRead) -> int:
        if read.start_offset >= 0:
            return read.start_offset
        return await self._service.initial_offset(self.partition, self.settings)

    def configure(self, settings: "ShareGroupSettings") -> None:
        self.settings = settings
        if self.machine is not None:
            self.machine.options = settings.options
            self.wake()

    # Changes

    def carry_out(
        self, change: StateChange | None, done: Callable[[Code], None] | None = None
    ) -> None:
        """Write a change of the machine; `done` gets the code for the member."""
        if change is None:
            if done is not None:
                done(Code.NONE)
            return
        self._writes_pending += 1
        topic = self.settings.dead_letter_topic
        if change.dead and topic:
            letters = write_letters(self._service, self, change.dead, topic)
            letters.then(lambda _: self._write(change, done))
        else:
            self._write(change, done)
        self.arm()

    def _write(self, change: StateChange, done: Callable[[Code], None] | None) -> None:
        machine = self.machine
        assert machine is not None
        if self.dropped:  # while its dead letters were written: the state may be another one
            if done is not None:
                done(Code.NOT_LEADER_OR_FOLLOWER)
            return

        def written(result: StateResult) -> None:
            self._writes_pending -= 1
            self._service.writes_ended(result.code)
            if not self.dropped:
                if result.code:
                    machine.refused(change.token)
                else:
                    machine.written(change.token)
            if done is not None:
                done(code_for_members(result.code))
            if result.code in FENCED:
                self.drop()
            elif result.code in GONE or self.retired:
                self.retire()
            elif not self.dropped:
                self.expire()
                self.wake()

        write = StateWrite(
            self.key,
            machine.state_epoch,
            self.leader_epoch,
            change.start_offset,
            change.batches,
            change.complete_count,
        )
        self._service.states.write(write, written)

    def expire(self) -> None:
        """End the locks that are over."""
        if self.machine is not None and not self.dropped and not self.retired:
            change = self.machine.expire(self._service.now())
            if change is not None:
                self.carry_out(change)
            self.arm()

    def arm(self) -> None:
        machine = self.machine
        deadline = None if machine is None or self.dropped else machine.next_deadline()
        if deadline is None:
            return
        if self._timer is not None:
            if self._timer_ms <= deadline:
                return
            self._timer.cancel()
        self._timer_ms = deadline
        wait_ms = max(0, deadline - self._service.now().ms)
        self._timer = self._service.loop.call_later(wait_ms / 1000, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.expire()
        self.wake()

    # Waiting fetches

    def wake(self, arrived: int = ANY_BYTES) -> None:
        """Serve waiting fetches soon: once for all that happens in one turn of the loop."""
        if not self.waiters:
            return
        self._arrived += arrived
        if not self._waking:
            self._waking = True
            self._service.loop.call_soon(self._serve)

    def _serve(self) -> None:
        """In order of arrival, as long as there is something to acquire."""
        self._waking = False
        arrived, self._arrived = self._arrived, 0
        for waiter in tuple(self.waiters):
            if not self.dropped and not self.is_readable(self._service.now().ms):
                return
            if waiter in self.waiters:
                waiter.ready(arrived)

    def is_readable(self, now_ms: int, from_offset: int = 0) -> bool:
        """Whether there may be something to acquire, at this offset or later."""
        machine = self.machine
        if machine is None:
            return bool(self.code)
        if self.retired:
            return False
        offset = machine.next_fetch_offset(now_ms)
        try:
            return offset is not None and from_offset <= offset < self.end
        except KafkaError:  # the log cannot be read: the fetch reports it
            return True

    @property
    def end(self) -> int:
        """Readers of the group stop here."""
        log, delay = self.partition.log, self.partition.delay
        end = log.last_stable_offset if self.settings.committed else log.high_watermark
        return end if delay is None else min(end, delay.end())

    def retire(self) -> None:
        """It is not used any more: dropped once its writes have ended."""
        self.retired = True
        if not self._writes_pending:
            self.drop()

    def drop(self) -> None:
        """Another leader, or another state: it is read again when it is needed."""
        if self.dropped:
            return
        self.dropped = True
        self._service.partitions.forget(self)
        self.partition.waiters.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
        if self.machine is not None:
            self._service.ended.add(self.machine.statistics)
            self.machine.close()
        self.wake()


class LoadedShares:
    """All share partitions that are loaded here, by key and by group."""

    def __init__(self, service: "ShareService") -> None:
        self._service = service
        self.room = ShareRoom()
        self._loaded: dict[StateKey, LoadedShare] = {}
        self._of_group: dict[str, dict[StateKey, None]] = {}

    def __iter__(self) -> Iterator[LoadedShare]:
        return iter(tuple(self._loaded.values()))

    def __len__(self) -> int:
        return len(self._loaded)

    def get(self, key: StateKey) -> LoadedShare | None:
        return self._loaded.get(key)

    def of_group(self, group: str) -> list[LoadedShare]:
        return [self._loaded[key] for key in self._of_group.get(group, ())]

    def find(self, key: StateKey, partition: Partition) -> LoadedShare:
        """The loaded one, or one that begins to load."""
        found = self._loaded.get(key)
        epoch = max(partition.leader_epoch, 0)
        if found is not None and (found.partition is not partition or found.leader_epoch != epoch):
            found.drop()
            found = None
        if found is None:
            found = LoadedShare(self._service, key, partition, epoch)
            self._loaded[key] = found
            self._of_group.setdefault(key.group, {})[key] = None
            self._service.keep(found.load())
        return found

    def forget(self, share: LoadedShare) -> None:
        if self._loaded.get(share.key) is share:
            del self._loaded[share.key]
            keys = self._of_group[share.key.group]
            del keys[share.key]
            if not keys:
                del self._of_group[share.key.group]

    def release(self, group: str, member: str, now: Now) -> None:
        """The member's session ended: what it holds of the group is available again."""
        for share in self.of_group(group):
            if share.machine is not None:
                share.carry_out(share.machine.release(member, now))

    def retire(self, group: str) -> None:
        """No member of the group has a session here."""
        for share in self.of_group(group):
            share.retire()

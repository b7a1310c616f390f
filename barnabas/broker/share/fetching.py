"""Answers the fetches of members: records that they have acquired, now or when there are some.

In: a fetch within a share session. Out: its deferred reply: whole batches, still in their files,
and the ranges that the member has acquired.
Always: records are acquired in the turn that plans the reply; a fetch whose connection is closed
leaves the share partitions that it waits for; what is not in memory is read by its log directory's
thread first. No record is looked at.
Not here: which records a fetch gets (coordinators/share/acquiring.py), its session
(coordinators/share/sessions.py).
"""

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.net.deferred_reply import DeferredReply
from barnabas.broker.requests.delayed_fetch import WAIT_MS_MAX
from barnabas.broker.share.acknowledgements import Denied
from barnabas.broker.share.batch_spans import committed_spans, spans
from barnabas.broker.share.partitions import LoadedShare
from barnabas.broker.share.service import ShareService
from barnabas.broker.storage.log_directory import OpenLogDirectory
from barnabas.coordinators.share.acquiring import AcquiredRange, AcquireLimits, BatchSpan
from barnabas.coordinators.share.keys import SharePartitionKey, StateKey
from barnabas.coordinators.share.sessions import ShareSession
from barnabas.log.reader import BatchSlice
from barnabas.model.errors import Code, InvalidRequest, KafkaError, Retriable
from barnabas.model.ports import FileSlice

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker
    from barnabas.broker.security.limited_requests import ShareFetchLimit

READS_MAX = 8  # of one partition in one turn, over offsets without records
RECORD_LIMIT = 1  # the strict acquire mode


class FetchedShare(NamedTuple):
    """What a reply says about one partition."""

    code: Code
    records: FileSlice | None = None
    ranges: tuple[AcquiredRange, ...] = ()


Fetched = dict[SharePartitionKey, FetchedShare]


class AskedFetch(NamedTuple):
    """The limits of a request, and the partitions of its session in their order."""

    session: ShareSession
    keys: list[SharePartitionKey]
    wait_ms: int
    bytes_min: int
    bytes_max: int
    records_max: int
    batch_size: int
    strict: bool
    limit: "ShareFetchLimit | None" = None  # of a client with a quota


class ReadableShare(NamedTuple):
    """A share partition that has something to acquire."""

    key: SharePartitionKey
    share: LoadedShare
    offset: int
    found: BatchSlice


class ShareFetchWait:
    """One fetch, until it is answered."""

    __slots__ = (
        "_abandoned", "_asked", "_broker", "_denied", "_errors", "_loop", "_missing", "_service",
        "_shares", "_timer", "_warmed", "deferred",
    )  # fmt: skip

    def __init__(
        self, broker: "Broker", service: ShareService, asked: AskedFetch, denied: Denied | None
    ) -> None:
        self._broker = broker
        self._service = service
        self._loop = broker.loop
        self._asked = asked
        self._denied = denied
        self._errors: Fetched = {}
        self._shares: dict[SharePartitionKey, LoadedShare] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._missing = 0  # bytes, until a look is worth its work
        self._warmed = False
        self._abandoned = False
        self.deferred: DeferredReply[Fetched] = DeferredReply()
        self.deferred.cancelled = self._abandon
        if not asked.keys or asked.records_max <= 0 or asked.bytes_max <= 0:
            self._answer({})
        elif not self._try(last=asked.wait_ms <= 0):
            wait_s = min(asked.wait_ms, WAIT_MS_MAX) / 1000
            self._timer = self._loop.call_later(wait_s, self._over)

    def ready(self, arrived: int) -> None:
        """Try again once there may be enough: each try looks at all partitions of the session."""
        self._missing -= arrived
        if self._missing <= 0:
            self._try_again()

    def _over(self) -> None:
        self._timer = None
        self._try_again(last=True)

    def _try_again(self, *, last: bool = False) -> None:
        """An unexpected error is answered, so that the fetches behind this one are served."""
        if self.deferred.done or self._abandoned:
            return
        try:
            self._try(last=last)
        except Exception as error:
            self._service.failed(error)
            unknown = FetchedShare(Code.UNKNOWN_SERVER_ERROR)
            self._answer(dict.fromkeys(self._asked.keys, unknown))

    def _try(self, *, last: bool = False) -> bool:
        """Answer if there is enough, if nothing can come, or if this is the last time."""
        asked = self._asked
        if not self._service.sessions.has(asked.session):  # it ended: acquire nothing
            self._answer({})
            return True
        self._find()
        found = self._readable()
        if len(self._errors) == len(asked.keys):
            self._answer({})
            return True
        size = sum(each.found.file_slice.length for each in found if each.found.file_slice)
        if found and (last or size >= asked.bytes_min or size >= asked.bytes_max):
            cold = {} if self._warmed else self._cold(found)
            if cold:
                self._warmed = True
                self._service.keep(self._warm(cold))
                return True
            if asked.limit is not None and not asked.limit.allows(self._size_of_reply(found)):
                self._answer({})
                return True
            fetched = self._acquire(found)
            if asked.limit is not None:
                asked.limit.sent(_size(fetched))
            if fetched or last:
                self._answer(fetched)
                return True
            for each in found:  # offsets without records were passed over: more may follow
                if each.share.is_readable(self._service.now().ms, each.offset + 1):
                    each.share.wake()
        elif last:
            self._answer({})
            return True
        self._missing = asked.bytes_min - size
        self._wait()
        return False

    # Share partitions

    def _find(self) -> None:
        shares: dict[SharePartitionKey, LoadedShare] = {}
        for key in self._asked.keys:
            if key in self._errors:
                continue
            try:
                before = self._shares.get(key)
                if before is not None and before.code:
                    raise Retriable(before.code)
                shares[key] = self._share(key)
            except KafkaError as error:
                self._errors[key] = FetchedShare(error.code)
        for key, share in self._shares.items():
            if shares.get(key) is not share:
                share.waiters.pop(self, None)
        self._shares = shares

    def _share(self, key: SharePartitionKey) -> LoadedShare:
        topic_id, index = key
        topic = self._broker.topics.by_id(topic_id)
        if topic is None:
            raise Retriable(Code.UNKNOWN_TOPIC_ID)
        if self._denied is not None and self._denied(topic_id):
            raise InvalidRequest(Code.TOPIC_AUTHORIZATION_FAILED)
        partition = topic.partition(index)
        group = self._asked.session.key.group
        return self._service.partitions.find(StateKey(group, topic_id, index), partition)

    def _readable(self) -> list[ReadableShare]:
        now_ms = self._service.now().ms
        able: list[tuple[SharePartitionKey, LoadedShare, int]] = []
        for key, share in self._shares.items():
            machine = share.machine
            if machine is None or share.retired:
                continue
            machine.log_start(share.partition.log.start_offset)
            offset = machine.next_fetch_offset(now_ms)
            try:
                if offset is not None and offset < share.end:
                    able.append((key, share, offset))
            except KafkaError as error:
                self._errors[key] = FetchedShare(error.code)
        if not able:
            return []
        found: list[ReadableShare] = []
        slices_left = self._broker.descriptors.slices_max(now_ms)
        bytes_each = max(1, self._bytes_max // len(able))
        for key, share, offset in able[:slices_left]:
            try:
                part = share.partition.read(
                    offset, bytes_each, True, stable=share.settings.committed
                )
            except KafkaError as error:
                self._errors[key] = FetchedShare(error.code)
                continue
            if part.file_slice is not None:
                found.append(ReadableShare(key, share, offset, part))
        return found

    @property
    def _bytes_max(self) -> int:
        return min(self._asked.bytes_max, self._broker.config.fetch_max_bytes)

    def _acquire(self, found: list[ReadableShare]) -> Fetched:
        left, bytes_left = self._asked.records_max, self._bytes_max
        fetched: Fetched = {}
        for key, share, offset, part in found:
            if left <= 0 or bytes_left <= 0:
                break
            got = self._acquire_one(key, share, offset, part, left)
            if got is not None and got.records is not None:
                fetched[key] = got
                left -= sum(last - first + 1 for first, last, _ in got.ranges)
                bytes_left -= got.records.length
                share.arm()
        return fetched

    def _size_of_reply(self, found: list[ReadableShare]) -> int:
        """About: less if other members hold records of these batches."""
        left, size = self._asked.records_max, 0
        for _, share, offset, part in found:
            if part.file_slice is None:
                continue
            for span in self._spans(share, part.file_slice, offset, part.next_offset):
                if left <= 0:
                    return size
                if not span.empty:
                    left -= span.last - max(span.base, offset) + 1
                    size += span.size
        return size

    def _acquire_one(
        self, key: SharePartitionKey, share: LoadedShare, offset: int, part: BatchSlice, left: int
    ) -> FetchedShare | None:
        machine, asked = share.machine, self._asked
        if machine is None or share.dropped:
            return None
        now_ms = self._service.now().ms
        readers = max(1, self._service.sessions.readers(key, asked.session.key.group))
        fair = max(1, machine.options.locks_max // readers)
        limits = AcquireLimits(min(left, fair), max(1, asked.batch_size), asked.strict)
        for _ in range(READS_MAX):
            file_slice = part.file_slice
            if file_slice is None:
                return None
            got = machine.acquire(
                asked.session.key.member,
                offset,
                self._spans(share, file_slice, offset, part.next_offset),
                limits,
                now_ms,
            )
            if got.ranges:
                length = got.end_position - got.first_position
                records = FileSlice(file_slice.file, got.first_position, length)
                return FetchedShare(Code.NONE, records, tuple(got.ranges))
            further = machine.next_fetch_offset(now_ms)
            if not got.moved or further is None or further <= offset or further >= share.end:
                return None
            offset = further
            try:
                part = share.partition.read(
                    offset, self._bytes_max, True, stable=share.settings.committed
                )
            except KafkaError:
                return None
        return None

    def _spans(
        self, share: LoadedShare, found: FileSlice, start: int, end: int
    ) -> Iterable[BatchSpan]:
        log = share.partition.log
        if share.settings.committed and log.has_aborted:
            return committed_spans(log, found, start, end)
        return spans(found)

    # Waiting and answering

    def _cold(self, found: list[ReadableShare]) -> dict[OpenLogDirectory, list[FileSlice]]:
        cold: dict[OpenLogDirectory, list[FileSlice]] = {}
        for each in found:
            partition, file_slice = each.share.partition, each.found.file_slice
            if (
                file_slice is not None
                and partition.log_directory is not None
                and partition.log.is_cold(file_slice)
            ):
                cold.setdefault(partition.log_directory, []).append(file_slice)
        return cold

    async def _warm(self, cold: dict[OpenLogDirectory, list[FileSlice]]) -> None:
        await asyncio.gather(
            *(log_directory.warm(slices) for log_directory, slices in cold.items())
        )
        self._try_again(last=self._timer is None)

    def _wait(self) -> None:
        for share in self._shares.values():
            share.waiters[self] = None

    def _answer(self, fetched: Fetched) -> None:
        self._leave()
        self._broker.counts.fetched(_size(fetched))
        self.deferred.set(self._errors | fetched)

    def _abandon(self) -> None:
        self._abandoned = True
        self._leave()

    def _leave(self) -> None:
        self.deferred.cancelled = None
        if self._timer is not None:
            self._timer.cancel()
        for share in self._shares.values():
            share.waiters.pop(self, None)


def _size(fetched: Fetched) -> int:
    return sum(each.records.length for each in fetched.values() if each.records is not None)

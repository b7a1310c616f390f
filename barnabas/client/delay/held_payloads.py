"""Keys, values and headers of the records of one holding partition, until they are moved.

Always: at most `size_max` bytes are kept; others are read again from the holding topic when they
are due. A record that is not there any more is `gone`.
"""

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.client.consumer.message import RawMessage
from barnabas.client.consumer.partition_consumer import PartitionConsumer
from barnabas.client.workers.dead_letter_headers import headers_of
from barnabas.config.client import Settings
from barnabas.model.errors import Code, Retriable
from barnabas.model.ids import TopicPartition
from barnabas.wire.record_loops import Headers

SIZE_MAX = 32 * 1024 * 1024
_CHUNK = 500
_TIMEOUT_S = 30.0


class HeldPayload(NamedTuple):
    """Of one record."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int
    gone: bool = False

    @property
    def size(self) -> int:
        return 0 if self.gone else len(self.key or b"") + len(self.value or b"") + 100


_GONE = HeldPayload(None, None, (), -1, gone=True)


class HeldPayloads:
    """Of one holding partition. The settings are those of a reader of committed records."""

    def __init__(self, at: TopicPartition, settings: Settings, size_max: int = SIZE_MAX) -> None:
        self._at = at
        self._settings = settings
        self._size_max = size_max
        self._size = 0
        self._kept: dict[int, HeldPayload] = {}
        self._consumer: PartitionConsumer | None = None

    def keep(self, message: RawMessage) -> None:
        if self._size < self._size_max:
            self._put(message)

    def forget(self, offsets: Iterable[int]) -> None:
        for offset in offsets:
            if (payload := self._kept.pop(offset, None)) is not None:
                self._size -= payload.size

    async def get(self, offsets: Iterable[int]) -> dict[int, HeldPayload]:
        """All of these, read again if need be."""
        wanted = sorted(offsets)
        missing = {offset for offset in wanted if offset not in self._kept}
        while missing:
            missing -= await self._read_from(min(missing), missing)
        return {offset: self._kept[offset] for offset in wanted}

    async def close(self) -> None:
        if self._consumer is not None:
            await self._consumer.close()

    async def _read_from(self, first: int, missing: set[int]) -> set[int]:
        """Those that one poll from there has found, or that are known to be gone."""
        if self._consumer is None:
            self._consumer = PartitionConsumer([self._at], self._settings)
        start = (await self._consumer.beginning_offsets(self._at))[self._at]
        if first < start:
            gone = {offset for offset in missing if offset < start}
            self._kept.update(dict.fromkeys(gone, _GONE))
            return gone
        await self._consumer.seek(self._at, first)
        messages = await self._consumer.getmany(_CHUNK, timeout=_TIMEOUT_S)
        # If the leader does not have the offset yet, the consumer goes on at an earlier one.
        if not messages or messages[0].offset < first:
            raise Retriable(Code.REQUEST_TIMED_OUT, f"{self._at}: offset {first} was not read")
        found = set()
        for message in messages:
            if message.offset in missing:
                self._put(message)
                found.add(message.offset)
        if first not in found:
            self._kept[first] = _GONE
            found.add(first)
        return found

    def _put(self, message: RawMessage) -> None:
        payload = HeldPayload(message.key, message.value, headers_of(message), message.timestamp)
        self._kept[message.offset] = payload
        self._size += payload.size

"""The positions of a consumer: read and change them, pause and resume partitions.

Written once over `Net`. In: partitions, with offsets or times. Out: a reader at these positions.
Always: messages that were fetched and not returned are put back before a position changes.
Not here: fetching (reader.py), what the group has committed (commits.py).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping

from barnabas.client.cluster import ClusterClient
from barnabas.client.consumer.message import PartitionMarks
from barnabas.client.consumer.positions import UNKNOWN, FetchPosition
from barnabas.client.consumer.reader import PartitionReader
from barnabas.config.option import invalid
from barnabas.model.errors import Code, Retriable
from barnabas.model.ids import TopicPartition
from barnabas.wire.messages.list_offsets import EARLIEST, LATEST

At = tuple[str, int]
Numbers = Mapping[At, int] | Mapping[TopicPartition, int]


class Seeking(ABC):
    """A part of every consumer."""

    _cluster: ClusterClient
    _reader: PartitionReader

    @abstractmethod
    def _positions(self) -> dict[TopicPartition, FetchPosition]:
        """The offset of the next message of each partition, where it is known."""

    @abstractmethod
    def _put_back(self) -> None:
        """Give messages that were not returned back to the reader."""

    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read now."""
        return sorted(one.at for one in self._reader.progress)

    async def position(self, at: At) -> int:
        """The offset of the next message that will be returned."""
        self._cluster.net.check_owner()
        one = self._reader.progress[TopicPartition(*at)]
        if one.offset == UNKNOWN:
            await self._cluster.retrying(lambda: self._reader.find([one.at]))
        return self._positions()[one.at].offset

    async def seek(self, at: At, offset: int, leader_epoch: int = -1) -> None:
        """Continue at this offset; -1 is the end, -2 the beginning."""
        self._cluster.net.check_owner()
        self._put_back()
        at = TopicPartition(*at)
        self._reader.progress[at]  # raises if it is not assigned
        if offset in (EARLIEST, LATEST):
            await self._seek_all({at: offset})
        elif offset < 0:
            raise invalid(f"{at}: cannot seek to offset {offset}")
        else:
            self._reader.seek(at, FetchPosition(offset, leader_epoch))

    async def seek_to_time(self, at: At, timestamp_ms: int) -> int:
        """Continue at the first record at or after this time, or else at the end; returns the
        offset.
        """
        self._cluster.net.check_owner()
        self._put_back()
        at = TopicPartition(*at)
        self._reader.progress[at]
        if timestamp_ms < 0:
            raise invalid(f"{at}: cannot seek to time {timestamp_ms}")
        return (await self._seek_all({at: timestamp_ms}))[at].offset

    async def seek_to_beginning(self, *partitions: At) -> None:
        """Seek in these partitions, or in all that are assigned."""
        self._cluster.net.check_owner()
        self._put_back()
        await self._seek_all(dict.fromkeys(self._those(partitions), EARLIEST))

    async def seek_to_end(self, *partitions: At) -> None:
        """Seek in these partitions, or in all that are assigned."""
        self._cluster.net.check_owner()
        self._put_back()
        await self._seek_all(dict.fromkeys(self._those(partitions), LATEST))

    async def _seek_all(
        self, times: dict[TopicPartition, int]
    ) -> dict[TopicPartition, FetchPosition]:
        async def all_of_them() -> dict[TopicPartition, FetchPosition]:
            found = await self._reader.places(times)
            if missing := [at for at in times if at not in found]:
                raise Retriable(Code.LEADER_NOT_AVAILABLE, f"{missing[0]} has no leader")
            return found

        found = await self._cluster.retrying(all_of_them)
        for at, place in found.items():
            if at in self._reader.progress:
                self._reader.seek(at, place)
        return found

    async def beginning_offsets(self, *partitions: At) -> dict[TopicPartition, int]:
        return await self._offsets(self._those(partitions), EARLIEST)

    async def end_offsets(self, *partitions: At) -> dict[TopicPartition, int]:
        """The offsets that the next records will have; for committed ones, of those."""
        return await self._offsets(self._those(partitions), LATEST)

    async def offsets_for_times(self, times: Numbers) -> dict[TopicPartition, int]:
        """The first offset at or after each time, in ms; the end if there is none."""
        wanted = {TopicPartition(*at): time for at, time in times.items()}
        found: dict[TopicPartition, FetchPosition] = {}

        async def look() -> None:
            left = {at: time for at, time in wanted.items() if at not in found}
            found.update(await self._reader.places(left))
            for at in wanted:
                if at not in found:
                    raise Retriable(Code.LEADER_NOT_AVAILABLE, f"{at}: its leader does not answer")

        await self._cluster.retrying(look)
        return {at: found[at].offset for at in wanted}

    async def _offsets(
        self, partitions: Iterable[TopicPartition], mark: int
    ) -> dict[TopicPartition, int]:
        return await self.offsets_for_times(dict.fromkeys(partitions, mark))

    def pause(self, *partitions: At) -> None:
        """Return no messages of these until they are resumed; the membership continues."""
        self._put_back()
        for at in self._those(partitions):
            self._reader.progress[at].paused = True

    def resume(self, *partitions: At) -> None:
        for at in self._those(partitions):
            self._reader.progress[at].paused = False
        self._reader.wake_up.notify()

    def paused(self) -> list[TopicPartition]:
        return sorted(one.at for one in self._reader.progress if one.paused)

    def lag(self) -> dict[TopicPartition, int]:
        """The number of records between the position and the end, as known from the last fetch.

        With `read_committed` the end is the last stable offset: records of an open transaction
        cannot be read yet.
        """
        places = self._positions()
        return {
            one.at: max(0, self._end_of(one.marks) - places[one.at].offset)
            for one in self._reader.progress
            if one.marks is not None and one.at in places
        }

    def _end_of(self, marks: PartitionMarks) -> int:
        stable = marks.last_stable
        return stable if self._reader.committed_only and stable >= 0 else marks.high_watermark

    def _those(self, partitions: Iterable[At]) -> list[TopicPartition]:
        return [TopicPartition(*at) for at in partitions] or self.assignment()

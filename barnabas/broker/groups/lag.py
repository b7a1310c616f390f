"""How far groups are behind, and since when.

Always: positions are computed on the event loop; records are read in a thread, because they may
not be in memory.
"""

import asyncio
from struct import error as StructError
from typing import NamedTuple

from barnabas.broker.topic import Topics
from barnabas.model.errors import KafkaError
from barnabas.model.ports import FileSlice
from barnabas.wire.batch import HEADER, HEADER_SIZE, BatchHeader, time_about


class GroupPosition(NamedTuple):
    """The position of a group in one partition of this broker."""

    group: str
    topic: str
    partition: int
    committed: int
    end: int


async def unread_since_ms(topics: Topics, places: list[GroupPosition]) -> list[int | None]:
    """The approximate time of the first unread record of each; None if all is read."""
    unread = [(_unread(topics, place), place.committed) for place in places]
    if not any(part for part, _ in unread):
        return [None] * len(places)
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(None, lambda: [_timestamp(*each) for each in unread])


def _unread(topics: Topics, place: GroupPosition) -> FileSlice | None:
    """The position of the first unread batch."""
    found = topics.get(place.topic)
    if found is None or place.committed >= place.end:
        return None
    log = found.partitions[place.partition].log
    try:
        return log.read(max(place.committed, log.start_offset), HEADER_SIZE, place.end).file_slice
    except KafkaError:
        return None


def _timestamp(part: FileSlice | None, offset: int) -> int | None:
    if part is None:
        return None
    try:
        header = BatchHeader._make(HEADER.unpack(part.file.read(part.position, HEADER_SIZE)))
    except (KafkaError, OSError, ValueError, StructError):  # deleted or closed in the meantime
        return None
    return time_about(header, offset)

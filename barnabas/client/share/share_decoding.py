"""Decodes one partition's part of a ShareFetch response.

In: whole batches, and the ranges of offsets that the member has acquired of them. Out: messages in
the order of their offsets, the offsets without a record, and the ranges that could not be decoded.
Always: every acquired offset is in exactly one of the three.
"""

from typing import NamedTuple

from barnabas.client.consumer.message import MessageAcquisition, PartitionMarks, RawMessage
from barnabas.client.consumer.message_loops import acquired_messages, decode_messages
from barnabas.model.errors import Corrupt
from barnabas.model.ids import TopicPartition
from barnabas.wire.batch import CONTROL, LOG_APPEND_TIME, BatchHeader, check_crc
from barnabas.wire.messages.share_fetch import AcquiredRecords
from barnabas.wire.records import iter_batches, records_of

NO_MARKS = PartitionMarks(-1, -1, -1)  # a share group's member is not told the offsets
Range = tuple[int, int]
"""The first and the last offset."""


class DeliveredRange(NamedTuple):
    first: int
    last: int
    delivery_count: int


class DecodedRecords(NamedTuple):
    messages: list[RawMessage]
    gaps: list[Range]
    corrupt: list[tuple[Range, str]]  # and why


def acquired_ranges(at: TopicPartition, listed: list[AcquiredRecords]) -> list[DeliveredRange]:
    """Sorted, and checked: a broker's answer is not trusted."""
    ranges = sorted(DeliveredRange(r.first_offset, r.last_offset, r.delivery_count) for r in listed)
    end = -1
    for one in ranges:
        if one.first <= end or one.last < one.first:
            raise Corrupt(
                f"{at}: the broker says that offsets {one.first} to {one.last} were acquired, after"
                f" others up to {end}"
            )
        end = one.last
    return ranges


def decoded(
    at: TopicPartition, records: memoryview, ranges: list[DeliveredRange], hold: int, *, crc: bool
) -> DecodedRecords:
    messages: list[RawMessage] = []
    corrupt: list[tuple[Range, str]] = []
    for header, batch in iter_batches(records):
        inside = [
            one
            for one in ranges
            if one.first <= header.last_offset and header.base_offset <= one.last
        ]
        if not inside or header.attributes & CONTROL:
            continue
        try:
            if crc:
                check_crc(batch, header)
            messages += _messages(at, batch, header, inside, hold)
        except Corrupt as problem:
            first = max(inside[0].first, header.base_offset)
            corrupt.append(((first, min(inside[-1].last, header.last_offset)), str(problem)))
    return DecodedRecords(messages, _gaps(ranges, messages, corrupt), corrupt)


def _messages(
    at: TopicPartition,
    batch: memoryview,
    header: BatchHeader,
    ranges: list[DeliveredRange],
    hold: int,
) -> list[RawMessage]:
    sources = [
        (at.topic, at.partition, header, NO_MARKS, MessageAcquisition(one.delivery_count, hold))
        for one in ranges
    ]
    found = decode_messages(
        sources[0],
        records_of(batch, header),
        header.record_count,
        header.base_offset,
        header.last_offset_delta,
        header.base_timestamp,
        header.max_timestamp,
        bool(header.attributes & LOG_APPEND_TIME),
        ranges[0].first,
        ranges[-1].last + 1,
    )
    if len(ranges) > 1:
        bounds = [(one.first, one.last) for one in ranges]
        found = acquired_messages(found, bounds, sources)
    return found  # type: ignore[return-value]  # the compiled class


def _gaps(
    ranges: list[DeliveredRange], messages: list[RawMessage], corrupt: list[tuple[Range, str]]
) -> list[Range]:
    """The acquired offsets that are neither those of a message nor corrupt."""
    wanted = sum(one.last - one.first + 1 for one in ranges)
    if wanted == len(messages):
        return []
    used = sorted([(m.offset, m.offset) for m in messages] + [bounds for bounds, _ in corrupt])
    gaps: list[Range] = []
    number = 0
    for one in ranges:
        next_ = one.first
        while number < len(used) and used[number][0] <= one.last:
            first, last = used[number]
            if first > next_:
                gaps.append((next_, first - 1))
            next_ = max(next_, last + 1)
            if last > one.last:
                break
            number += 1
        if next_ <= one.last:
            gaps.append((next_, one.last))
    return gaps

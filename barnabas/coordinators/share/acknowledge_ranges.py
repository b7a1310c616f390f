"""Checks the form of the acknowledgements that a request has for one partition.

In: batches of a request, each with one type, or with one type for each offset. Out: ranges with one
type each, or the error for all of them.
Always: the codes are Kafka's.
Not here: whether the records are acquired (share_partition.py).
"""

from collections.abc import Iterable, Sequence
from enum import IntEnum
from itertools import groupby
from typing import NamedTuple, Protocol

from barnabas.model.errors import Code, InvalidRequest


class AcknowledgeType(IntEnum):
    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class AckRange(NamedTuple):
    """Offsets `first` to `last`, both included, acknowledged in one way."""

    first: int
    last: int
    type: AcknowledgeType


class AckBatch(Protocol):
    """As ShareFetch and ShareAcknowledge have it."""

    @property
    def first_offset(self) -> int: ...

    @property
    def last_offset(self) -> int: ...

    @property
    def acknowledge_types(self) -> Sequence[int]: ...


def ack_ranges(batches: Iterable[AckBatch], *, may_renew: bool) -> list[AckRange]:
    """INVALID_REQUEST if they are not well-formed. `may_renew`: the request says that it renews."""
    last_type = AcknowledgeType.RENEW if may_renew else AcknowledgeType.REJECT
    ranges: list[AckRange] = []
    end = -1
    for batch in batches:
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        if first > last or first < end or first < 0:
            raise _invalid(f"the range {first} to {last} is not in order")
        if len(types) not in (1, last - first + 1):
            raise _invalid(f"{len(types)} types for the offsets {first} to {last}")
        if min(types) < AcknowledgeType.GAP or max(types) > last_type:
            raise _invalid("an unknown type, or a renewal in a request that does not renew")
        end = last
        if len(types) == 1:
            ranges.append(AckRange(first, last, AcknowledgeType(types[0])))
            continue
        for type_, same in groupby(types):
            after = first + sum(1 for _ in same)
            ranges.append(AckRange(first, after - 1, AcknowledgeType(type_)))
            first = after
    return ranges


def _invalid(problem: str) -> InvalidRequest:
    return InvalidRequest(Code.INVALID_REQUEST, f"acknowledgements: {problem}")

"""The headers of a record in a retry or dead-letter topic: its origin, its group, and the cause.

In: headers, not trusted. Out: a Trail; and from a Trail, headers.
Always: the record's own headers are kept; values that are read are bounded and checked; a record
without our headers starts a new trail.
"""

from typing import NamedTuple, Protocol

from barnabas.model.errors import Corrupt, InvalidRequest
from barnabas.model.ids import check_topic_name
from barnabas.wire.record_loops import Headers

PREFIX = "barnabas."
GROUP = "barnabas.group"
TOPIC = "barnabas.origin.topic"
PARTITION = "barnabas.origin.partition"
OFFSET = "barnabas.origin.offset"
TIMESTAMP = "barnabas.origin.timestamp"
CAUSE = "barnabas.cause"
ATTEMPTS = "barnabas.attempts"
ROUND = "barnabas.round"
FAILED_AT = "barnabas.failed-at"
NOT_BEFORE = "barnabas.not-before"
CUT = "barnabas.cut"  # of a pipeline: the size of a value that was too large for this topic
NO_RECORD = "barnabas.no-record"  # of a share group: the letter has headers only, and why
BATCH = "barnabas.batch"  # of a pipeline: the query and the number of the batch that wrote it

CAUSE_SIZE_MAX = 500
_GROUP_SIZE_MAX = 1_000
_NUMBER_SIZE_MAX = 20
_INT64_MAX = 0x7FFF_FFFF_FFFF_FFFF


class Incoming(Protocol):
    """A record as a consumer returns it, key and value not yet deserialized."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def headers(self) -> Headers: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...


class Origin(NamedTuple):
    """Where a record was first read. Together with the group it identifies a dead letter."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}:{self.partition}:{self.offset}"


class LetterTrail(NamedTuple):
    """What has happened to a record so far."""

    group: str
    origin: Origin
    timestamp: int  # of the record, where it was first read
    cause: str = ""
    attempts: int = 0  # calls of the handler, all rounds together
    round: int = 0  # times it went through the retry topic
    failed_at: int = -1
    not_before: int = -1

    def headers(self, kept: Headers) -> Headers:
        """The headers of the trail. `kept`: the record's own headers."""
        ours = [
            (GROUP, self.group),
            (TOPIC, self.origin.topic),
            (PARTITION, str(self.origin.partition)),
            (OFFSET, str(self.origin.offset)),
            (TIMESTAMP, str(self.timestamp)),
            (CAUSE, self.cause),
            (ATTEMPTS, str(self.attempts)),
            (ROUND, str(self.round)),
            (FAILED_AT, str(self.failed_at)),
        ]
        if self.not_before >= 0:
            ours.append((NOT_BEFORE, str(self.not_before)))
        return own_headers(kept) + tuple((name, text.encode()) for name, text in ours)


def own_headers(headers: Headers) -> Headers:
    """The headers that are not ours."""
    return tuple(header for header in headers if not header[0].startswith(PREFIX))


def trail_in(headers: Headers) -> LetterTrail | None:
    """The trail in the headers; None if there is none, or if it is invalid."""
    found = {name: value for name, value in headers if name.startswith(PREFIX)}
    if not found:
        return None
    try:
        return LetterTrail(
            group=_text(found[GROUP], _GROUP_SIZE_MAX),
            origin=Origin(
                check_topic_name(_text(found[TOPIC], _GROUP_SIZE_MAX)),
                _number(found[PARTITION], most=0x7FFF_FFFF),
                _number(found[OFFSET]),
            ),
            timestamp=_number(found[TIMESTAMP], least=-1),
            cause=_text(found.get(CAUSE, b""), 64 * CAUSE_SIZE_MAX),
            attempts=_number(found.get(ATTEMPTS, b"0")),
            round=_number(found.get(ROUND, b"0")),
            failed_at=_number(found.get(FAILED_AT, b"-1"), least=-1),
            not_before=_number(found.get(NOT_BEFORE, b"-1"), least=-1),
        )
    except (KeyError, ValueError, InvalidRequest):
        return None


def trail_of(record: Incoming, group: str, retry_topic: str | None) -> LetterTrail:
    """The trail of a fetched record: in the retry topic the one of its headers, which may be
    another group's; otherwise a new trail.
    """
    if record.topic == retry_topic:
        trail = trail_in(headers_of(record))
        if trail is not None:
            return trail
    return LetterTrail(
        group, Origin(record.topic, record.partition, record.offset), record.timestamp
    )


def headers_of(record: Incoming) -> Headers:
    """The headers; None if they are malformed. The broker does not check records, so any program
    can write such headers; the rest of the record is used all the same.
    """
    try:
        return record.headers
    except Corrupt:
        return ()


def cause_of(error: BaseException) -> str:
    """One line: the kind of error and its text."""
    text = str(error)
    kind = type(error).__name__
    return clean_cause(f"{kind}: {text}" if text else kind)


def clean_cause(text: str) -> str:
    """Printable, one line, at most CAUSE_SIZE_MAX bytes of UTF-8."""
    text = "".join(c if c.isprintable() else " " for c in text[:CAUSE_SIZE_MAX])
    return text.encode(errors="replace")[:CAUSE_SIZE_MAX].decode(errors="ignore")


def _text(value: bytes | None, size_max: int) -> str:
    if value is None or len(value) > size_max:
        raise ValueError
    return value.decode()


def _number(value: bytes | None, least: int = 0, most: int = _INT64_MAX) -> int:
    if value is None or len(value) > _NUMBER_SIZE_MAX:
        raise ValueError
    number = int(value)
    if not least <= number <= most:
        raise ValueError
    return number

"""The effects of a window, which its driver executes.

The driver answers each by one call of the window. `term` counts how often a partition was assigned
to this worker: an answer for an earlier term is ignored.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.client.workers.window.outbox import LetterProducer
from barnabas.model.ids import TopicPartition
from barnabas.wire.record_loops import Headers

if TYPE_CHECKING:
    from barnabas.client.workers.window.window_partition import WindowRecord


@dataclass(frozen=True, slots=True)
class Start:
    """Call the handler; then `succeeded`, `failed` or `cancelled`, exactly one of them."""

    entry: "WindowRecord"


@dataclass(frozen=True, slots=True)
class Cancel:
    """The handler's result is no longer used; cancel the call if possible."""

    entry: "WindowRecord"


@dataclass(frozen=True, slots=True)
class Pause:
    """Fetch no more of the partition until `Resume`."""

    at: TopicPartition


@dataclass(frozen=True, slots=True)
class Resume:
    at: TopicPartition


@dataclass(frozen=True, slots=True)
class Commit:
    """Commit; then `committed`, `commit_failed`, or `lost` if the partition belongs to another
    member.
    """

    at: TopicPartition
    term: int
    offset: int
    metadata: str


@dataclass(frozen=True, slots=True)
class Identify:
    """Ask the broker for a new producer id; then `identified`, or `identify_failed`."""

    at: TopicPartition
    term: int


@dataclass(frozen=True, slots=True)
class SendLetter:
    """Write this one record as a batch of its own; then `sent`, `send_failed` or `send_refused`."""

    at: TopicPartition
    term: int
    offset: int  # of the record, in `at`
    identity: LetterProducer
    sequence: int
    to: TopicPartition
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(frozen=True, slots=True)
class WriteTransaction:
    """Write the results of these records and commit these offsets, in one transaction; then
    `committed`, `aborted` or `ended`.

    The offsets are committed as the member and generation that the consumer has now: if a
    partition is revoked in the meantime, the coordinator refuses them.
    """

    number: int
    entries: "list[WindowRecord]"
    offsets: dict[TopicPartition, tuple[int, int, str]]  # leader epoch -1, and metadata


@dataclass(frozen=True, slots=True)
class Release:
    """The partition may go to another worker: this worker has made its last commit."""

    at: TopicPartition


@dataclass(frozen=True, slots=True)
class Fail:
    """The worker must stop; `detail` says why. No offset of `at` after the record is committed."""

    at: TopicPartition
    offset: int
    detail: str


Effect = (
    Start
    | Cancel
    | Pause
    | Resume
    | Commit
    | Identify
    | SendLetter
    | WriteTransaction
    | Release
    | Fail
)

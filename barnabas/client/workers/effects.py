"""What a window asks its driver to do. Each is answered by one call of the window.

`term` numbers the times a partition was given to this worker: an answer that belongs to an
earlier one is ignored.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.client.workers.outbox import LetterProducer
from barnabas.model.ids import TopicPartition
from barnabas.wire.record_loops import Headers

if TYPE_CHECKING:
    from barnabas.client.workers.share import WindowRecord


@dataclass(frozen=True, slots=True)
class Start:
    """Call the handler; then `succeeded`, `failed` or `cancelled`, exactly one of them."""

    entry: "WindowRecord"


@dataclass(frozen=True, slots=True)
class Cancel:
    """The handler's result counts no more; end it if that can be done."""

    entry: "WindowRecord"


@dataclass(frozen=True, slots=True)
class Pause:
    """Fetch no more of it until `Resume`."""

    at: TopicPartition


@dataclass(frozen=True, slots=True)
class Resume:
    at: TopicPartition


@dataclass(frozen=True, slots=True)
class Commit:
    """Then `committed`, `commit_failed`, or `lost` if the group says it is another's."""

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
class Release:
    """The partition may go to another worker: all that will be committed of it is."""

    at: TopicPartition


@dataclass(frozen=True, slots=True)
class Fail:
    """The worker cannot go on; `detail` says why. Nothing of `at` past the record is committed."""

    at: TopicPartition
    offset: int
    detail: str


Effect = Start | Cancel | Pause | Resume | Commit | Identify | SendLetter | Release | Fail

"""What both group protocols share: the steps of a membership, and the causes of rebalances.

A membership is a state machine with two callers. Poll executes what may affect the reader:
`next_step` returns what to do now, `done` reports that it was done. The heartbeat task keeps the
membership alive: `beat` returns what to send now, `next_beat` when to call again. `answered` and
`failed` report the result of a request of either.
Always: the callbacks of a rebalance run between two polls, never beside the reader's own code.
Not here: the two protocols (classic.py, consumer.py), sending (member.py).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from barnabas.assignment import Topics
from barnabas.client.errors import error_of
from barnabas.model.errors import Code, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.wire.codec import ProtocolMessage

Partitions = tuple[TopicPartition, ...]

AGAIN = frozenset(
    {
        Code.COORDINATOR_LOAD_IN_PROGRESS,
        Code.COORDINATOR_NOT_AVAILABLE,
        Code.NOT_COORDINATOR,
        Code.REQUEST_TIMED_OUT,
        Code.NETWORK_EXCEPTION,
    }
)
"""The member is fine: retry the request, perhaps at another coordinator."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why partitions were assigned or revoked. `kind` is for programs, the text for people."""

    kind: str
    text: str
    generation: int = -1

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class CoordinatorRequest:
    """Send this to the coordinator, and report its response."""

    request: ProtocolMessage


@dataclass(frozen=True, slots=True)
class Describe:
    """Describe these topics (`described`)."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Resolve:
    """Look up the names of these topic ids (`resolved`)."""

    ids: tuple[UUID, ...]


@dataclass(frozen=True, slots=True)
class RevokePartitions:
    """Stop reading these, commit, call the user's callback; then `done`."""

    partitions: Partitions
    cause: Cause


@dataclass(frozen=True, slots=True)
class LosePartitions:
    """Other members read these already: stop at once, call the user's callback; then `done`."""

    partitions: Partitions
    cause: Cause


@dataclass(frozen=True, slots=True)
class AssignPartitions:
    """Start reading these, call the user's callback; then `done`."""

    partitions: Partitions
    cause: Cause


@dataclass(frozen=True, slots=True)
class WaitStep:
    """Wait until this time."""

    until: int


@dataclass(frozen=True, slots=True)
class EndMembership:
    """The membership has ended for good: raise this."""

    error: KafkaError


Step = (
    CoordinatorRequest
    | Describe
    | Resolve
    | RevokePartitions
    | LosePartitions
    | AssignPartitions
    | WaitStep
    | EndMembership
)


@dataclass(frozen=True, slots=True)
class CommitterIdentity:
    """The identity of a member, as an offset commit states it."""

    member_id: str
    generation: int
    instance_id: str | None


@dataclass(frozen=True, slots=True)
class MemberTerms:
    """The options of a member that it sends to its group."""

    group_id: str
    instance_id: str | None = None
    rack: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    poll_interval_ms_max: int = 300_000
    backoff_ms: int = 100


class Membership(Protocol):
    """The state machine of one member. Every operation takes the time as a parameter; none reads
    the clock.
    """

    @property
    def identity(self) -> CommitterIdentity | None:
        """None while not a member."""

    left_because: Cause | None
    """Why this member was last removed from its group; None if it never was."""

    @property
    def owned(self) -> Partitions: ...

    def subscribe(self, topics: Sequence[str], now: int) -> None:
        """Subscribe to these topics from now on."""

    @property
    def group_topics(self) -> tuple[str, ...]:
        """Topics to watch in addition to our own, with `watched`."""

    def watched(self, topics: Topics) -> None:
        """Reports the current topics."""

    def polled(self, now: int) -> None:
        """The reader is alive: it polled."""

    def next_step(self, now: int) -> Step | None:
        """What to do now; None: nothing, or a response is still pending."""

    def answered(self, request: ProtocolMessage, response: ProtocolMessage, now: int) -> None: ...

    def failed(self, request: ProtocolMessage, error: KafkaError, now: int) -> None:
        """A request of `next_step` or `beat` got no response."""

    def described(self, topics: Topics, now: int) -> None: ...

    def resolved(self, names: dict[UUID, str], now: int) -> None: ...

    def done(
        self, step: RevokePartitions | LosePartitions | AssignPartitions, now: int
    ) -> None: ...

    def beat(self, now: int) -> CoordinatorRequest | None:
        """What to send in the background now."""

    def next_beat(self) -> int | None:
        """When to call `beat` again."""

    def leave(self, reason: str, now: int) -> CoordinatorRequest | None:
        """The request to leave the group; the membership ends."""


def slow(poll_interval_ms_max: int) -> Cause:
    return Cause(
        "slow",
        f"no messages were asked for in {poll_interval_ms_max} ms (max.poll.interval.ms), so this"
        " member left its group: ask for fewer at a time (max.poll.records), work faster, or"
        " raise the interval",
    )


def fatal(number: int, detail: str | None, group_id: str, remedies: dict[int, str]) -> KafkaError:
    said = detail or ""
    if remedy := remedies.get(number):
        said = f"{said or error_of(number).detail}: {remedy}"
    return error_of(number, said or None, about=f"group {group_id!r}")


def listed(partitions: Iterable[TopicPartition]) -> str:
    names = [str(at) for at in partitions]
    return (
        ", ".join(names) if len(names) <= 5 else f"{', '.join(names[:5])} and {len(names) - 5} more"
    )

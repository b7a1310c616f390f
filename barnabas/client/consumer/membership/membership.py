"""What both kinds of group membership share: their steps, and the words for why.

A membership is a machine with two hands. The poll hand does what may touch the reader:
`next_step` says what to do now, `done` that it was done. The background hand keeps the membership
alive: `beat` says what to send now, `next_beat` when to look again. `answered` and `failed` say
what came of a request of either.
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
"""Nothing is wrong with the member: ask again, perhaps another coordinator."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why partitions came or went. `kind` is for programs, the text for people."""

    kind: str
    text: str
    generation: int = -1

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class CoordinatorRequest:
    """Send this to the coordinator, and say what it answered."""

    request: ProtocolMessage


@dataclass(frozen=True, slots=True)
class Describe:
    """Say how these topics look now (`described`)."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Resolve:
    """Say what the topics with these ids are called (`resolved`)."""

    ids: tuple[UUID, ...]


@dataclass(frozen=True, slots=True)
class RevokePartitions:
    """Stop reading these, commit, tell the user; say when it is `done`."""

    partitions: Partitions
    cause: Cause


@dataclass(frozen=True, slots=True)
class LosePartitions:
    """Others read these already: stop at once, tell the user; say when it is `done`."""

    partitions: Partitions
    cause: Cause


@dataclass(frozen=True, slots=True)
class AssignPartitions:
    """Start reading these, tell the user; say when it is `done`."""

    partitions: Partitions
    cause: Cause


@dataclass(frozen=True, slots=True)
class WaitStep:
    """Nothing before this time."""

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
    """Who we are to the coordinator: what an offset commit states."""

    member_id: str
    generation: int
    instance_id: str | None


@dataclass(frozen=True, slots=True)
class MemberTerms:
    """What a member tells its group about itself."""

    group_id: str
    instance_id: str | None = None
    rack: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    poll_interval_ms_max: int = 300_000
    backoff_ms: int = 100


class Membership(Protocol):
    """The machine of one member. Every verb takes the time, and none reads it."""

    @property
    def standing(self) -> CommitterIdentity | None:
        """None while not a member."""

    left_because: Cause | None
    """Why this member was last out of its group; None: it never was."""

    @property
    def owned(self) -> Partitions: ...

    def subscribe(self, topics: Sequence[str], now: int) -> None:
        """From now on these topics are wanted."""

    @property
    def group_topics(self) -> tuple[str, ...]:
        """Topics to watch beyond our own, with `watched`."""

    def watched(self, topics: Topics) -> None:
        """As topics look now."""

    def polled(self, now: int) -> None:
        """The reader is alive: it asked for messages."""

    def next_step(self, now: int) -> Step | None:
        """What to do now; None: nothing, or an answer is still due."""

    def answered(self, request: ProtocolMessage, response: ProtocolMessage, now: int) -> None: ...

    def failed(self, request: ProtocolMessage, error: KafkaError, now: int) -> None:
        """A request of `next_step` or `beat` got no answer."""

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
        """What to send as a farewell; the membership is over."""


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

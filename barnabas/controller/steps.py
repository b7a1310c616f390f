"""What the controller's work consists of: steps that it yields, and what it is told of each.

Each event is handled by a generator. It yields `Write` and `Read` and is sent their results; it
yields `SendRequest` and `LogLine`, which nobody waits for. Whoever drives it adds to every write
the check that this controller's epoch is still the last one, all in one transaction; when that
fails, the generator is closed and the controller resigns.
Always: memory changes after the write it stands for has succeeded, never before.
A write that fails because a node is not as the controller thinks raises `Conflict` inside the
generator; what it does not catch makes the controller read everything anew.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from barnabas.controller.state import Assignment, BrokerInfo, KnownBroker, PartitionLeadership
from barnabas.model.errors import InvalidRequest
from barnabas.model.ids import BrokerId, TopicPartition
from barnabas.wire.codec import ProtocolMessage

T = TypeVar("T")


class Conflict(Exception):
    """The keeper has something else than the controller thought; nothing was written."""


class WriteTooLarge(InvalidRequest):
    """The keeper cannot take this write; nothing was written."""


# What is written


class NewTopic(NamedTuple):
    """A topic with its settings; its partitions follow, in the same write or later ones."""

    name: str
    id: UUID
    assignments: Mapping[int, Assignment]
    settings: Mapping[str, str]


class NewState(NamedTuple):
    """The first state of a partition."""

    name: TopicPartition
    state: PartitionLeadership


class SetState(NamedTuple):
    """Another state. `state.version` is the one it had before, checked; the result is the new."""

    name: TopicPartition
    state: PartitionLeadership


class SetAssignments(NamedTuple):
    """All partitions of a topic, with those that do not change."""

    topic: str
    id: UUID
    assignments: Mapping[int, Assignment]


class MarkDeleted(NamedTuple):
    """From here on a topic is being deleted; `brokers` may have logs of it."""

    topic: str
    id: UUID
    partitions: int
    brokers: Sequence[BrokerId]


class RemoveStates(NamedTuple):
    """The states of some partitions of a topic that is being deleted."""

    topic: str
    partitions: Sequence[int]


class RemoveTopic(NamedTuple):
    """The topic itself and its settings; its states are gone."""

    topic: str


class Unmark(NamedTuple):
    """Nobody alive has a log of the deleted topic any more."""

    topic: str


class SetConfig(NamedTuple):
    """Settings of a topic, a group, one broker or all (an empty name); every broker is told."""

    kind: str  # "topics", "brokers", "groups" or "client-metrics"
    name: str
    settings: Mapping[str, str]


class RememberBroker(NamedTuple):
    """A broker has registered: it is known until it is unregistered, also while it is down."""

    broker: KnownBroker


class ForgetBroker(NamedTuple):
    """What is kept of a broker that will not come back."""

    broker: BrokerId


Change = (
    NewTopic | NewState | SetState | SetAssignments | MarkDeleted | RemoveStates | RemoveTopic
    | Unmark | SetConfig | RememberBroker | ForgetBroker
)  # fmt: skip


# What is read


class ReadAll(NamedTuple):
    """Everything, for a controller that begins. The answer: `KeeperSnapshot`."""


class ReadBrokers(NamedTuple):
    """Who is registered now. The answer: a list of BrokerInfo, by id; it is watched from now on."""


class ReadConfig(NamedTuple):
    """The answer: settings, empty if there are none."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class TopicFound:
    """A topic as the keeper has it. `adopted`: made by a broker that stood alone."""

    name: str
    id: UUID
    assignments: Mapping[int, Assignment]
    states: Mapping[int, PartitionLeadership]
    adopted: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeletionMark:
    """A mark of a topic that was being deleted."""

    topic: str
    id: UUID
    partitions: int
    brokers: Sequence[BrokerId]


@dataclass(frozen=True, slots=True)
class KeeperSnapshot:
    """What the keeper has, read after the epoch was taken: nobody else can write any more."""

    brokers: Sequence[BrokerInfo]
    topics: Sequence[TopicFound]
    deletions: Sequence[DeletionMark]
    known_brokers: Sequence[KnownBroker] = ()
    settings: Sequence[Mapping[str, str]] = ()  # of all brokers, and of each


# The steps


class Write(NamedTuple):
    """All or none. The answer: per change its new version, or None where there is none."""

    changes: Sequence[Change]


Read = ReadAll | ReadBrokers | ReadConfig


class SendRequest(NamedTuple):
    """In order with all others to that broker, tried again until answered or the broker is gone.

    The answer comes back as `Answered`, unless it is of no interest.
    """

    broker: BrokerId
    message: ProtocolMessage


class LogLine(NamedTuple):
    """A line in the log: what happened, loudly or not."""

    event: str
    values: Mapping[str, object]
    loud: bool = False


Step = Write | Read | SendRequest | LogLine
Steps = Generator[Step, Any, T]

Settle = Callable[[Mapping[str, str]], dict[str, str]]
"""Works new settings out from those in force, or raises a KafkaError."""

"""The steps of the controller's work, and the result of each step.

Each event is handled by a generator. It yields `Write` and `Read` and receives their results; it
yields `SendRequest` and `LogLine` without a result. The caller that runs the generator adds to
every write the check that this controller's epoch is still the latest, in one transaction. If the
check fails, the generator is closed and the controller resigns.
Always: memory changes after the corresponding write has succeeded, never before.
A write that fails because a node differs from the controller's memory raises `Conflict` inside the
generator; if the generator does not catch it, the controller reads everything again.
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
    """The keeper's data differs from what the controller expected; nothing was written."""


class WriteTooLarge(InvalidRequest):
    """The write is larger than the keeper accepts; nothing was written."""


# Writes


class NewTopic(NamedTuple):
    """A topic with its settings; its partitions follow, in the same write or in later ones."""

    name: str
    id: UUID
    assignments: Mapping[int, Assignment]
    settings: Mapping[str, str]


class NewState(NamedTuple):
    """The first state of a partition."""

    name: TopicPartition
    state: PartitionLeadership


class SetState(NamedTuple):
    """A new state. `state.version` is the previous version, which is checked. Result: the new
    one."""

    name: TopicPartition
    state: PartitionLeadership


class SetAssignments(NamedTuple):
    """All partitions of a topic, including those that do not change."""

    topic: str
    id: UUID
    assignments: Mapping[int, Assignment]


class MarkDeleted(NamedTuple):
    """The topic is being deleted from now on; `brokers` may have logs of it."""

    topic: str
    id: UUID
    partitions: int
    brokers: Sequence[BrokerId]


class RemoveStates(NamedTuple):
    """The states of some partitions of a topic that is being deleted."""

    topic: str
    partitions: Sequence[int]


class RemoveTopic(NamedTuple):
    """The topic itself and its settings; its states are already deleted."""

    topic: str


class Unmark(NamedTuple):
    """No registered broker has a log of the deleted topic any more."""

    topic: str


class SetConfig(NamedTuple):
    """Settings of a topic, a group, one broker or all (an empty name); all brokers are notified."""

    kind: str  # "topics", "brokers", "groups" or "client-metrics"
    name: str
    settings: Mapping[str, str]


class RememberBroker(NamedTuple):
    """A broker has registered: it is known until it is unregistered, also while it is down."""

    broker: KnownBroker


class ForgetBroker(NamedTuple):
    """Delete the data about a broker that will not come back."""

    broker: BrokerId


Change = (
    NewTopic | NewState | SetState | SetAssignments | MarkDeleted | RemoveStates | RemoveTopic
    | Unmark | SetConfig | RememberBroker | ForgetBroker
)  # fmt: skip


# Reads


class ReadAll(NamedTuple):
    """Everything, for a controller that starts. Result: `KeeperSnapshot`."""


class ReadBrokers(NamedTuple):
    """The registered brokers. Result: a list of BrokerInfo, by id; the list is watched from now
    on."""


class ReadConfig(NamedTuple):
    """Result: the settings, empty if there are none."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class TopicFound:
    """A topic as the keeper has it. `adopted`: created by a broker that ran alone."""

    name: str
    id: UUID
    assignments: Mapping[int, Assignment]
    states: Mapping[int, PartitionLeadership]
    adopted: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeletionMark:
    """The mark of a topic that was being deleted."""

    topic: str
    id: UUID
    partitions: int
    brokers: Sequence[BrokerId]


@dataclass(frozen=True, slots=True)
class KeeperSnapshot:
    """All data of the keeper, read after the epoch was claimed: no other controller can write
    now."""

    brokers: Sequence[BrokerInfo]
    topics: Sequence[TopicFound]
    deletions: Sequence[DeletionMark]
    known_brokers: Sequence[KnownBroker] = ()
    settings: Sequence[Mapping[str, str]] = ()  # of all brokers, and of each


# Steps


class Write(NamedTuple):
    """All changes or none. Result: the new version of each change, or None if it has none."""

    changes: Sequence[Change]


Read = ReadAll | ReadBrokers | ReadConfig


class SendRequest(NamedTuple):
    """In order with all others to that broker; retried until the broker replies or is unregistered.

    The reply arrives as `Answered`, unless the controller does not need it.
    """

    broker: BrokerId
    message: ProtocolMessage


class LogLine(NamedTuple):
    """A log line: the event and its values, at warning level if `warn`."""

    event: str
    values: Mapping[str, object]
    warn: bool = False


Step = Write | Read | SendRequest | LogLine
Steps = Generator[Step, Any, T]

Settle = Callable[[Mapping[str, str]], dict[str, str]]
"""Computes new settings from the current ones, or raises a KafkaError."""

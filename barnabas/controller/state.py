"""What the controller knows: brokers, topics, and the state of every partition.

In: values that the keeper has. Out: the same, by name, by broker, and counted.
Always: it holds only what has been written; `put` is the one way a partition's state changes, so
that the indexes and counts go with it and nothing has to be counted over all partitions.
Not here: what should happen (the other files), how nodes are written (broker/controller_store.py).
"""

from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from barnabas.model.ids import BrokerId, TopicPartition

NO_LEADER = BrokerId(-1)


class Endpoint(NamedTuple):
    """An address that a broker tells others."""

    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """A broker that is registered. Its epoch is another one each time it registers."""

    id: BrokerId
    epoch: int
    endpoints: tuple[Endpoint, ...] = ()
    rack: str | None = None


class State(NamedTuple):
    """Who leads a partition, as its state node says.

    `version` is that of the node: the partition epoch, which every change raises. The leader epoch
    grows only with each new leadership, so that a smaller ISR fences no client.
    """

    leader: BrokerId
    leader_epoch: int
    isr: tuple[BrokerId, ...]
    controller_epoch: int
    version: int = 0
    recovering: bool = False
    """Since an unclean election; until its leader has said that it is well again."""


class Assignment(NamedTuple):
    """Where the replicas of a partition are, the preferred leader first.

    During a move, `replicas` has the new ones first and then those to be removed.
    """

    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()

    @property
    def moving(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[BrokerId, ...]:
        """Where they shall be when the move is over."""
        if not self.removing:
            return self.replicas
        return tuple(each for each in self.replicas if each not in self.removing)


class PartitionView:
    """One partition, as the controller last wrote it. `state` is None until it has a leader."""

    __slots__ = ("assignment", "name", "state", "topic")

    def __init__(self, topic: "TopicView", index: int, assignment: Assignment) -> None:
        self.topic = topic
        self.name = TopicPartition(topic.name, index)
        self.assignment = assignment
        self.state: State | None = None

    @property
    def leader(self) -> BrokerId:
        return NO_LEADER if self.state is None else self.state.leader


class TopicView:
    """A topic: its id and its partitions, from 0 on."""

    __slots__ = ("id", "name", "partitions")

    def __init__(self, name: str, id_: UUID) -> None:
        self.name = name
        self.id = id_
        self.partitions: list[PartitionView] = []

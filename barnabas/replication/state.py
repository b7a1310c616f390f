"""The leader and the in-sync replicas of a partition, as the controller sends them to a broker."""

from dataclasses import dataclass

from barnabas.model.ids import BrokerId

NO_LEADER = BrokerId(-1)


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The state from one message. States are ordered by leader epoch, then by partition epoch."""

    leader: BrokerId
    leader_epoch: int
    isr: tuple[BrokerId, ...]
    partition_epoch: int
    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()

    @property
    def epochs(self) -> tuple[int, int]:
        return self.leader_epoch, self.partition_epoch

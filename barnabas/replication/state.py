"""Who leads a partition and who is in sync, as the controller says it to a broker."""

from dataclasses import dataclass

from barnabas.model.ids import BrokerId

NO_LEADER = BrokerId(-1)


@dataclass(frozen=True, slots=True)
class PartitionState:
    """One message's worth; two of them are ordered by leader epoch, then by partition epoch."""

    leader: BrokerId
    leader_epoch: int
    isr: tuple[BrokerId, ...]
    partition_epoch: int
    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()

    @property
    def age(self) -> tuple[int, int]:
        return self.leader_epoch, self.partition_epoch

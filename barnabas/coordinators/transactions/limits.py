"""What a broker's configuration says about transactions."""

from dataclasses import dataclass, field

ID_BYTES = 1_000  # a transactional id and its state, without its name and partitions


class IdRoom:
    """How much the transactional ids of a broker may take up, all shards together.

    An id lives for days after its last use: without a bound, anyone could fill the broker's memory
    by initialising many.
    """

    __slots__ = ("bytes_max", "used")

    def __init__(self, bytes_max: int = 256 * 1024 * 1024) -> None:
        self.bytes_max = bytes_max
        self.used = 0

    def lacks(self, id_: str) -> bool:
        return self.used + weight_of(id_) > self.bytes_max


def weight_of(id_: str) -> int:
    return ID_BYTES + len(id_)


@dataclass(frozen=True, slots=True)
class TransactionLimits:
    """Defaults as Kafka's."""

    timeout_ms_max: int = 900_000
    id_expiration_ms: int = 7 * 24 * 3_600_000
    timeout_check_ms: int = 10_000
    expiration_check_ms: int = 3_600_000
    # The cluster's `transaction.version`.
    version: int = 0
    room: IdRoom = field(default_factory=IdRoom)

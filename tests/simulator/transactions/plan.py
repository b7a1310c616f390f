"""What a seed chooses about transactions, without a change to what else it chooses."""

from dataclasses import dataclass
from random import Random

SHARE = 0.25  # of all seeds have transactions, unless all are asked to
INPUT, OUTPUT = "payments", "receipts"
GROUP = "copies"


@dataclass(frozen=True)
class TransactionPlan:
    writers: int
    copiers: int
    readers: int
    plain_writer: bool
    protocols: tuple[int, ...]
    timeouts_ms: tuple[int, ...]
    partitions: int
    segment_bytes: int
    state_partitions: int
    check_ms: int
    compacts: bool
    moves: bool
    group_protocol: str
    slow: bool

    @classmethod
    def of(cls, seed: int, always: bool) -> "TransactionPlan | None":
        """None: this world has no transactions."""
        rng = Random(f"transactions of {seed}")
        if rng.random() >= SHARE and not always:
            return None
        return cls(
            writers=rng.choice((1, 2, 2, 3)),
            copiers=rng.choice((0, 1, 2, 2)),
            readers=rng.choice((1, 1, 2)),
            plain_writer=rng.random() < 0.4,
            protocols=rng.choice(((1,), (2,), (1, 2))),
            timeouts_ms=rng.choice(((1_500,), (1_500, 6_000), (6_000,))),
            partitions=rng.choice((1, 2, 3)),
            segment_bytes=rng.choice((1_000, 3_000, 1_000_000)),
            state_partitions=rng.choice((1, 2)),
            check_ms=rng.choice((500, 2_000, 10_000)),
            compacts=rng.random() < 0.3,
            moves=rng.random() < 0.4,
            group_protocol=rng.choice(("classic", "consumer")),
            slow=rng.random() < 0.3,
        )

    @property
    def open_ms_max(self) -> int:
        """No transaction is open for longer, once nothing goes wrong any more."""
        return max(self.timeouts_ms) + 20_000

    def settings(self, replicas: int, insync_min: int) -> dict[str, str]:
        """Of brokers."""
        found = {
            "transaction.state.log.num.partitions": str(self.state_partitions),
            "transaction.state.log.replication.factor": str(replicas),
            "transaction.state.log.min.isr": str(insync_min),
            "transaction.state.log.load.buffer.size": "1",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(self.check_ms),
        }
        if self.compacts:
            found |= {
                "transaction.state.log.segment.bytes": "1500",
                "log.cleaner.enable": "true",
            }
        return found

"""What a seed chooses about share groups, without a change to what else it chooses."""

from dataclasses import dataclass
from random import Random

SHARE = 0.2  # of all seeds have share groups, unless all are asked to
TOPIC = "orders"
GROUPS = ("queue", "lottery")  # the offsets of the second are altered, if `alters`


@dataclass(frozen=True)
class SharePlan:
    members: tuple[int, ...]  # of each group
    lock_ms: int
    delivery_limit: int
    locks_max: int
    state_partitions: int
    updates_per_snapshot: int
    prune_ms: int
    session_ms: int
    backoff_ms: int
    moves: bool
    alters: bool
    acceptance: float  # of the records that a member gets, these it accepts

    @classmethod
    def of(cls, seed: int, always: bool | None) -> "SharePlan | None":
        """None: this world has no share groups. `always`: True, False, or as the seed has it."""
        rng = Random(f"share groups of {seed}")
        has = rng.random() < SHARE
        if not (has if always is None else always):
            return None
        return cls(
            members=rng.choice(((2,), (3,), (2, 1), (2, 2))),
            lock_ms=rng.choice((1_000, 2_000, 4_000)),
            delivery_limit=rng.choice((2, 3, 5, 10)),
            locks_max=rng.choice((100, 100, 2_000)),
            state_partitions=rng.choice((1, 2, 3)),
            updates_per_snapshot=rng.choice((2, 10, 500)),
            prune_ms=rng.choice((2_000, 8_000, 300_000)),
            session_ms=rng.choice((3_000, 6_000)),
            backoff_ms=rng.choice((0, 0, 0, 500)),
            moves=rng.random() < 0.5,
            alters=rng.random() < 0.5,
            acceptance=rng.choice((0.4, 0.7, 0.9)),
        )

    @property
    def groups(self) -> tuple[str, ...]:
        return GROUPS[: len(self.members)]

    def settings(self, replicas: int, insync_min: int) -> dict[str, str]:
        """Of brokers."""
        return {
            "group.share.session.timeout.ms": str(self.session_ms),
            "group.share.min.session.timeout.ms": "1000",
            "group.share.heartbeat.interval.ms": "500",
            "group.share.min.heartbeat.interval.ms": "100",
            "group.share.assignment.interval.ms": "100",
            "group.share.record.lock.duration.ms": str(self.lock_ms),
            "group.share.min.record.lock.duration.ms": "1000",
            "group.share.delivery.count.limit": str(self.delivery_limit),
            "group.share.partition.max.record.locks": str(self.locks_max),
            "share.coordinator.state.topic.num.partitions": str(self.state_partitions),
            "share.coordinator.state.topic.replication.factor": str(replicas),
            "share.coordinator.state.topic.min.isr": str(insync_min),
            "share.coordinator.state.topic.segment.bytes": "3000",
            "share.coordinator.snapshot.update.records.per.snapshot": str(
                self.updates_per_snapshot
            ),
            "share.coordinator.load.buffer.size": "1",
        }

    @property
    def group_options(self) -> dict[str, str]:
        return {
            "share.auto.offset.reset": "earliest",
            "barnabas.share.release.backoff.ms": str(self.backoff_ms),
        }

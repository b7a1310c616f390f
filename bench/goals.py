"""What is promised, as ratios to Apache Kafka or as plain limits."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Goal:
    """A figure passes at or above `least`, or at or below `most`."""

    least: float | None = None
    most: float | None = None

    def holds(self, value: float) -> bool:
        return (self.least is None or value >= self.least) and (
            self.most is None or value <= self.most
        )

    def __str__(self) -> str:
        return f">= {self.least:g}" if self.least is not None else f"<= {self.most:g}"


RECORDS_PER_S = "records_per_s"
CPU = "cpu_us_per_record"
P50 = "p50_ms"
P99 = "p99_ms"

# (what was measured, which figure of it): ours divided by Kafka's
RATIOS = {
    ("produce 1 KB", RECORDS_PER_S): Goal(least=1.1),
    ("produce 1 KB", CPU): Goal(most=0.5),
    ("produce 100 B", RECORDS_PER_S): Goal(least=1.0),
    ("produce 100 B", CPU): Goal(most=0.4),
    ("consume 1 KB", RECORDS_PER_S): Goal(least=1.0),
    ("consume 1 KB", CPU): Goal(most=0.8),
    ("consume 100 B", RECORDS_PER_S): Goal(least=1.0),
    ("consume 100 B", CPU): Goal(most=0.8),
    ("one-record requests", RECORDS_PER_S): Goal(least=2.0),
    ("one-record requests", CPU): Goal(most=0.35),
    ("synchronous produce, acks=all", P50): Goal(most=0.8),
    ("synchronous produce, acks=all", P99): Goal(most=1.0),
    ("synchronous produce, acks=1", P50): Goal(most=0.8),
    ("synchronous produce, acks=1", P99): Goal(most=1.0),
    ("ProducerPerformance 1 KB", RECORDS_PER_S): Goal(least=1.0),
    ("ProducerPerformance 100 B", RECORDS_PER_S): Goal(least=1.0),
    ("ConsumerPerformance 1 KB", RECORDS_PER_S): Goal(least=1.0),
    ("ConsumerPerformance 100 B", RECORDS_PER_S): Goal(least=1.0),
}

# Ours alone; Kafka's is shown beside it.
HELP_S = Goal(most=0.15)
START_S = Goal(most=0.3)
START_1000_PARTITIONS_S = Goal(most=1.0)
IDLE_MB = Goal(most=60)
TRAFFIC_MB = Goal(most=150)
CONNECTIONS_MB = Goal(most=300)

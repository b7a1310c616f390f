"""The fixtures of the plugin: here `kafka` is our own broker, not Apache Kafka."""

from barnabas.testing.plugin import kafka, kafka_cluster, kafka_session

__all__ = ["kafka", "kafka_cluster", "kafka_session"]

"""Barnabas: an event log that any Kafka client can use."""

__version__ = "0.1.0"

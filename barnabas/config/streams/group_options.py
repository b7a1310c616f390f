"""The options of one streams group, and the broker's bounds for them.

Names and defaults are Kafka's.
Not here: the defaults for all groups (broker_options.py).
"""

from barnabas.config.kinds import Int
from barnabas.config.option import Option, Scope
from barnabas.config.resolve import Config
from barnabas.config.streams.broker_options import StreamsGroupBrokerOptions


def _option(name: str, least: int, default: int, doc: str) -> Option[int]:
    return Option(
        name=f"streams.{name}",
        kind=Int(min=least),
        default=default,
        scope=Scope.GROUP,
        needs_restart=False,
        doc=doc,
        synonyms=(f"group.streams.{name}",),
    )


class StreamsGroupOptions(Config):
    """What a streams group may have of its own."""

    streams_session_timeout_ms = _option(
        "session.timeout.ms",
        1,
        45_000,
        "A member of this streams group that sends no heartbeat for this long is removed.",
    )
    streams_heartbeat_interval_ms = _option(
        "heartbeat.interval.ms",
        1,
        5_000,
        "How often members of this streams group must send a heartbeat.",
    )
    streams_assignment_interval_ms = _option(
        "assignment.interval.ms",
        0,
        1_000,
        "Tasks of this streams group are assigned again at most this often.",
    )
    streams_initial_rebalance_delay_ms = _option(
        "initial.rebalance.delay.ms",
        0,
        3_000,
        "How long the first members of this streams group wait for more members at most.",
    )
    streams_num_standby_replicas = _option(
        "num.standby.replicas",
        0,
        0,
        "How many other processes keep a copy of the state of each task of this streams group.",
    )


BOUNDS = {
    StreamsGroupOptions.streams_session_timeout_ms: (
        StreamsGroupBrokerOptions.group_streams_min_session_timeout_ms,
        StreamsGroupBrokerOptions.group_streams_max_session_timeout_ms,
    ),
    StreamsGroupOptions.streams_heartbeat_interval_ms: (
        StreamsGroupBrokerOptions.group_streams_min_heartbeat_interval_ms,
        StreamsGroupBrokerOptions.group_streams_max_heartbeat_interval_ms,
    ),
    StreamsGroupOptions.streams_assignment_interval_ms: (
        StreamsGroupBrokerOptions.group_streams_min_assignment_interval_ms,
        StreamsGroupBrokerOptions.group_streams_max_assignment_interval_ms,
    ),
}
"""The broker options that bound an option of a group."""

LARGEST = {
    StreamsGroupOptions.streams_num_standby_replicas: (
        StreamsGroupBrokerOptions.group_streams_max_standby_replicas
    ),
}
"""The same, for options whose smallest value is fixed."""

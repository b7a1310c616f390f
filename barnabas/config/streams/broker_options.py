"""Broker options of streams groups: the defaults of every group, and the bounds of its settings.

Names, defaults and bounds are Kafka's.
Not here: the options of one group (group_options.py).
"""

from barnabas.config.kinds import Int, Milliseconds
from barnabas.config.option import Option, Scope
from barnabas.config.resolve import Config


def _streams(name: str, kind: Int | Milliseconds, default: int, doc: str) -> Option[int]:
    return Option(
        name=f"group.streams.{name}",
        kind=kind,
        default=default,
        scope=Scope.BROKER,
        needs_restart=True,
        doc=doc,
    )


class StreamsGroupBrokerOptions(Config):
    """Members, tasks and standby tasks of streams groups."""

    group_streams_session_timeout_ms = _streams(
        "session.timeout.ms",
        Milliseconds(min=1, bits=32),
        45_000,
        "A member of a streams group that sends no heartbeat for this long is removed.",
    )
    group_streams_min_session_timeout_ms = _streams(
        "min.session.timeout.ms",
        Milliseconds(min=1, bits=32),
        45_000,
        "The smallest streams.session.timeout.ms that a group may have.",
    )
    group_streams_max_session_timeout_ms = _streams(
        "max.session.timeout.ms",
        Milliseconds(min=1, bits=32),
        60_000,
        "The largest streams.session.timeout.ms that a group may have.",
    )
    group_streams_heartbeat_interval_ms = _streams(
        "heartbeat.interval.ms",
        Milliseconds(min=1, bits=32),
        5_000,
        "How often members of streams groups must send a heartbeat.",
    )
    group_streams_min_heartbeat_interval_ms = _streams(
        "min.heartbeat.interval.ms",
        Milliseconds(min=1, bits=32),
        5_000,
        "The smallest streams.heartbeat.interval.ms that a group may have.",
    )
    group_streams_max_heartbeat_interval_ms = _streams(
        "max.heartbeat.interval.ms",
        Milliseconds(min=1, bits=32),
        15_000,
        "The largest streams.heartbeat.interval.ms that a group may have.",
    )
    group_streams_assignment_interval_ms = _streams(
        "assignment.interval.ms",
        Milliseconds(min=0, bits=32),
        1_000,
        "Tasks of a streams group are assigned again at most this often.",
    )
    group_streams_min_assignment_interval_ms = _streams(
        "min.assignment.interval.ms",
        Milliseconds(min=0, bits=32),
        0,
        "The smallest streams.assignment.interval.ms that a group may have.",
    )
    group_streams_max_assignment_interval_ms = _streams(
        "max.assignment.interval.ms",
        Milliseconds(min=0, bits=32),
        15_000,
        "The largest streams.assignment.interval.ms that a group may have.",
    )
    group_streams_initial_rebalance_delay_ms = _streams(
        "initial.rebalance.delay.ms",
        Milliseconds(min=0, bits=32),
        3_000,
        "How long the first members of a streams group wait for more members at most."
        " They wait no longer than until none has joined for a moment. 0: not at all.",
    )
    group_streams_num_standby_replicas = _streams(
        "num.standby.replicas",
        Int(min=0),
        0,
        "How many other processes keep a copy of the state of each task of a streams group.",
    )
    group_streams_max_standby_replicas = _streams(
        "max.standby.replicas",
        Int(min=0),
        2,
        "The largest streams.num.standby.replicas that a group may have.",
    )
    group_streams_max_size = _streams(
        "max.size",
        Int(min=1),
        0x7FFF_FFFF,
        "The largest number of members of a streams group.",
    )

"""Broker options of share groups: the defaults of every group, and the bounds of its own settings.

Names, defaults and bounds are Kafka's.
Not here: the options of one group (group_options.py).
"""

from barnabas.config.kinds import Int, List, Milliseconds
from barnabas.config.option import Option, Scope
from barnabas.config.resolve import Config


def _share(name: str, kind: Int | Milliseconds, default: int, doc: str) -> Option[int]:
    return Option(
        name=f"group.share.{name}",
        kind=kind,
        default=default,
        scope=Scope.BROKER,
        needs_restart=True,
        doc=doc,
    )


class ShareGroupBrokerOptions(Config):
    """Members, assignments, locks and deliveries of share groups."""

    group_share_session_timeout_ms = _share(
        "session.timeout.ms",
        Milliseconds(min=1, bits=32),
        45_000,
        "A member of a share group that sends no heartbeat for this long is removed.",
    )
    group_share_min_session_timeout_ms = _share(
        "min.session.timeout.ms",
        Milliseconds(min=1, bits=32),
        45_000,
        "The smallest share.session.timeout.ms that a group may have.",
    )
    group_share_max_session_timeout_ms = _share(
        "max.session.timeout.ms",
        Milliseconds(min=1, bits=32),
        60_000,
        "The largest share.session.timeout.ms that a group may have.",
    )
    group_share_heartbeat_interval_ms = _share(
        "heartbeat.interval.ms",
        Milliseconds(min=1, bits=32),
        5_000,
        "How often members of share groups must send a heartbeat.",
    )
    group_share_min_heartbeat_interval_ms = _share(
        "min.heartbeat.interval.ms",
        Milliseconds(min=1, bits=32),
        5_000,
        "The smallest share.heartbeat.interval.ms that a group may have.",
    )
    group_share_max_heartbeat_interval_ms = _share(
        "max.heartbeat.interval.ms",
        Milliseconds(min=1, bits=32),
        15_000,
        "The largest share.heartbeat.interval.ms that a group may have.",
    )
    group_share_assignment_interval_ms = _share(
        "assignment.interval.ms",
        Milliseconds(min=0, bits=32),
        1_000,
        "Partitions of a share group are assigned again at most this often.",
    )
    group_share_min_assignment_interval_ms = _share(
        "min.assignment.interval.ms",
        Milliseconds(min=0, bits=32),
        0,
        "The smallest share.assignment.interval.ms that a group may have.",
    )
    group_share_max_assignment_interval_ms = _share(
        "max.assignment.interval.ms",
        Milliseconds(min=0, bits=32),
        15_000,
        "The largest share.assignment.interval.ms that a group may have.",
    )
    group_share_max_size = _share(
        "max.size",
        Int(min=1, max=1_000),
        200,
        "The largest number of members of a share group.",
    )
    group_share_record_lock_duration_ms = _share(
        "record.lock.duration.ms",
        Milliseconds(min=1_000, max=3_600_000, bits=32),
        30_000,
        "How long a member of a share group holds a record before others may have it.",
    )
    group_share_min_record_lock_duration_ms = _share(
        "min.record.lock.duration.ms",
        Milliseconds(min=1_000, max=30_000, bits=32),
        15_000,
        "The smallest share.record.lock.duration.ms that a group may have.",
    )
    group_share_max_record_lock_duration_ms = _share(
        "max.record.lock.duration.ms",
        Milliseconds(min=30_000, max=3_600_000, bits=32),
        60_000,
        "The largest share.record.lock.duration.ms that a group may have.",
    )
    group_share_delivery_count_limit = _share(
        "delivery.count.limit",
        Int(min=2, max=10),
        5,
        "How often a record is delivered to a share group at most.",
    )
    group_share_min_delivery_count_limit = _share(
        "min.delivery.count.limit",
        Int(min=2, max=5),
        2,
        "The smallest share.delivery.count.limit that a group may have.",
    )
    group_share_max_delivery_count_limit = _share(
        "max.delivery.count.limit",
        Int(min=5, max=25),
        10,
        "The largest share.delivery.count.limit that a group may have.",
    )
    group_share_partition_max_record_locks = _share(
        "partition.max.record.locks",
        Int(min=100, max=10_000),
        2_000,
        "The most records of one partition between a share group's start offset and its end.",
    )
    group_share_min_partition_max_record_locks = _share(
        "min.partition.max.record.locks",
        Int(min=100, max=2_000),
        100,
        "The smallest share.partition.max.record.locks that a group may have.",
    )
    group_share_max_partition_max_record_locks = _share(
        "max.partition.max.record.locks",
        Int(min=2_000, max=10_000),
        4_000,
        "The largest share.partition.max.record.locks that a group may have.",
    )
    group_share_assignors = Option[tuple[str, ...]](
        name="group.share.assignors",
        kind=List("simple"),
        default=("simple",),
        scope=Scope.BROKER,
        needs_restart=True,
        doc="The assignor of share groups.",
    )

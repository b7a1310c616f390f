"""Broker options about replication, groups and transactions.

In a file of their own because other packages use them: replication/, coordinators/, controller/.
"""

from barnabas.config.kinds import (
    INT_MAX,
    LONG_MAX,
    Bool,
    Bytes,
    Enum,
    Int,
    List,
    Long,
    Milliseconds,
)
from barnabas.config.option import Option, Scope
from barnabas.config.resolve import Config

LEADER_SELECTOR = "org.apache.kafka.common.replica.LeaderSelector"
RACK_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def _role(
    name: str,
    kind: Int | Long | Bytes | Milliseconds,
    default: int,
    doc: str,
) -> Option[int]:
    return Option(
        name=name,
        kind=kind,
        default=default,
        scope=Scope.BROKER,
        needs_restart=True,
        doc=doc,
    )


def _rate(name: str, doc: str) -> Option[int]:
    return Option(
        name=name,
        kind=Long(min=0),
        default=LONG_MAX,
        scope=Scope.BROKER,
        needs_restart=False,
        doc=doc,
    )


class RoleOptions(Config):
    """Replication, groups, transactions. Declared for tools that set or read them."""

    auto_leader_rebalance_enable = Option[bool](
        name="auto.leader.rebalance.enable",
        kind=Bool(),
        default=True,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="Move leadership back to the preferred replicas automatically.",
    )
    leader_imbalance_check_interval_seconds = _role(
        "leader.imbalance.check.interval.seconds",
        Long(min=1),
        300,
        "How often the controller checks whether to move leadership back to preferred replicas.",
    )
    leader_imbalance_per_broker_percentage = _role(
        "leader.imbalance.per.broker.percentage",
        Int(min=0),
        10,
        "The controller moves leadership back to a broker when other brokers lead more than this "
        "percentage of the partitions whose preferred leader it is.",
    )
    replica_lag_time_max_ms = _role(
        "replica.lag.time.max.ms",
        Milliseconds(min=1),
        30_000,
        "A follower that has not caught up with the leader for this long leaves the ISR.",
    )
    replica_fetch_max_bytes = _role(
        "replica.fetch.max.bytes",
        Bytes(min=0),
        1_048_576,
        "The number of bytes of one partition that a follower requests in one fetch.",
    )
    replica_fetch_wait_max_ms = _role(
        "replica.fetch.wait.max.ms",
        Milliseconds(bits=32),
        500,
        "How long a leader waits for data before it answers a follower.",
    )
    leader_replication_throttled_rate = _rate(
        "leader.replication.throttled.rate",
        "Bytes per second that this broker sends to followers that catch up, for the replicas "
        "that topics name in `leader.replication.throttled.replicas`.",
    )
    follower_replication_throttled_rate = _rate(
        "follower.replication.throttled.rate",
        "Bytes per second that this broker receives as a follower that catches up, for the "
        "replicas that topics name in"
        " `follower.replication.throttled.replicas`.",
    )
    replica_alter_log_dirs_io_max_bytes_per_second = _rate(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        "The bytes per second that are copied when logs move between directories of this broker.",
    )
    replica_selector_class = Option[str](
        name="replica.selector.class",
        kind=Enum(LEADER_SELECTOR, RACK_SELECTOR),
        default=LEADER_SELECTOR,
        scope=Scope.BROKER,
        needs_restart=True,
        doc="Which replica consumers read from: the leader, or one in their rack"
        " (`client.rack`, `broker.rack`).",
    )
    replica_high_watermark_checkpoint_interval_ms = _role(
        "replica.high.watermark.checkpoint.interval.ms",
        Milliseconds(min=1),
        5_000,
        "How often high watermarks are written to disk.",
    )
    group_initial_rebalance_delay_ms = _role(
        "group.initial.rebalance.delay.ms",
        Milliseconds(min=0, bits=32),
        3_000,
        "How long the first rebalance of an empty group waits for more members; it ends earlier "
        "after 100 ms without a new member.",
    )
    group_min_session_timeout_ms = _role(
        "group.min.session.timeout.ms",
        Milliseconds(min=0, bits=32),
        6_000,
        "The shortest session timeout that a member may request.",
    )
    group_max_session_timeout_ms = _role(
        "group.max.session.timeout.ms",
        Milliseconds(min=0, bits=32),
        1_800_000,
        "The longest session timeout that a member may request.",
    )
    group_max_size = _role(
        "group.max.size",
        Int(min=1),
        INT_MAX,
        "The largest number of members of one group.",
    )
    group_consumer_session_timeout_ms = _role(
        "group.consumer.session.timeout.ms",
        Milliseconds(min=1, bits=32),
        45_000,
        "A member of the consumer protocol that sends no heartbeat for this long is removed from"
        " its group.",
    )
    group_consumer_heartbeat_interval_ms = _role(
        "group.consumer.heartbeat.interval.ms",
        Milliseconds(min=1, bits=32),
        5_000,
        "How often members of the consumer protocol must send a heartbeat. A member that waits for"
        " others to revoke partitions must send one sooner.",
    )
    group_consumer_min_session_timeout_ms = _role(
        "group.consumer.min.session.timeout.ms",
        Milliseconds(min=1, bits=32),
        45_000,
        "The smallest consumer.session.timeout.ms that a group may have.",
    )
    group_consumer_max_session_timeout_ms = _role(
        "group.consumer.max.session.timeout.ms",
        Milliseconds(min=1, bits=32),
        60_000,
        "The largest consumer.session.timeout.ms that a group may have.",
    )
    group_consumer_min_heartbeat_interval_ms = _role(
        "group.consumer.min.heartbeat.interval.ms",
        Milliseconds(min=1, bits=32),
        5_000,
        "The smallest consumer.heartbeat.interval.ms that a group may have.",
    )
    group_consumer_max_heartbeat_interval_ms = _role(
        "group.consumer.max.heartbeat.interval.ms",
        Milliseconds(min=1, bits=32),
        15_000,
        "The largest consumer.heartbeat.interval.ms that a group may have.",
    )
    group_consumer_min_assignment_interval_ms = _role(
        "group.consumer.min.assignment.interval.ms",
        Milliseconds(min=0, bits=32),
        0,
        "The smallest consumer.assignment.interval.ms that a group may have.",
    )
    group_consumer_max_assignment_interval_ms = _role(
        "group.consumer.max.assignment.interval.ms",
        Milliseconds(min=0, bits=32),
        15_000,
        "The largest consumer.assignment.interval.ms that a group may have.",
    )
    group_consumer_max_size = _role(
        "group.consumer.max.size",
        Int(min=1),
        INT_MAX,
        "The largest number of members of one group of the consumer protocol.",
    )
    group_consumer_assignment_interval_ms = _role(
        "group.consumer.assignment.interval.ms",
        Milliseconds(min=0, bits=32),
        1_000,
        "Partitions of a group of the consumer protocol are assigned again at most this often: "
        "members"
        " that join together get their assignments together.",
    )
    group_consumer_assignors = Option[tuple[str, ...]](
        name="group.consumer.assignors",
        kind=List("uniform", "range"),
        default=("uniform", "range"),
        scope=Scope.BROKER,
        needs_restart=True,
        doc="The assignors for groups of the consumer protocol; the first one is used unless"
        " members request another.",
    )
    group_consumer_migration_policy = Option[str](
        name="group.consumer.migration.policy",
        kind=Enum("bidirectional", "upgrade", "downgrade", "disabled"),
        default="bidirectional",
        scope=Scope.BROKER,
        needs_restart=True,
        doc="Whether a group with members may change from the classic to the consumer protocol"
        " (upgrade), or back (downgrade).",
    )
    offset_metadata_max_bytes = _role(
        "offset.metadata.max.bytes",
        Bytes(min=0),
        4096,
        "The largest metadata of a committed offset, in bytes.",
    )
    offsets_retention_minutes = _role(
        "offsets.retention.minutes",
        Int(min=1),
        10_080,
        "How long the offsets of an empty group are kept.",
    )
    offsets_topic_num_partitions = _role(
        "offsets.topic.num.partitions",
        Int(min=1),
        50,
        "Partitions of __consumer_offsets.",
    )
    offsets_topic_replication_factor = _role(
        "offsets.topic.replication.factor",
        Int(min=1),
        3,
        "The replication factor of __consumer_offsets. If it is not set, at most the number of"
        " brokers.",
    )
    offsets_topic_segment_bytes = _role(
        "offsets.topic.segment.bytes",
        Bytes(min=1),
        104_857_600,
        "The segment.bytes of __consumer_offsets.",
    )
    transaction_max_timeout_ms = _role(
        "transaction.max.timeout.ms",
        Milliseconds(min=1, bits=32),
        900_000,
        "The longest transaction timeout that a producer may request.",
    )
    transactional_id_expiration_ms = _role(
        "transactional.id.expiration.ms",
        Milliseconds(min=1, bits=32),
        604_800_000,
        "A transactional id that is idle for this long is deleted.",
    )
    transaction_state_log_num_partitions = _role(
        "transaction.state.log.num.partitions",
        Int(min=1),
        50,
        "Partitions of __transaction_state.",
    )
    transaction_state_log_replication_factor = _role(
        "transaction.state.log.replication.factor",
        Int(min=1),
        3,
        "The replication factor of __transaction_state. If it is not set, at most the number of"
        " brokers.",
    )
    transaction_state_log_min_isr = _role(
        "transaction.state.log.min.isr",
        Int(min=1),
        2,
        "The min.insync.replicas of __transaction_state; a lone broker needs no other replica.",
    )
    transaction_state_log_segment_bytes = _role(
        "transaction.state.log.segment.bytes",
        Bytes(min=1),
        104_857_600,
        "The segment.bytes of __transaction_state.",
    )
    transaction_state_log_load_buffer_size = _role(
        "transaction.state.log.load.buffer.size",
        Bytes(min=1),
        5_242_880,
        "How many bytes are read at a time when the state of transactions is loaded.",
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms = _role(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        Milliseconds(min=1, bits=32),
        10_000,
        "How often the coordinator looks for transactions that are open for longer than their"
        " timeout, and aborts them.",
    )
    transaction_remove_expired_transaction_cleanup_interval_ms = _role(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        Milliseconds(min=1, bits=32),
        3_600_000,
        "How often the coordinator looks for expired transactional ids, and deletes them.",
    )
    transaction_partition_verification_enable = Option[bool](
        name="transaction.partition.verification.enable",
        kind=Bool(),
        default=True,
        scope=Scope.BROKER,
        needs_restart=False,
        doc="Ask the coordinator whether a partition is in the transaction before the first append"
        " of the transaction to it. Without this, a late batch can open a transaction that nobody"
        " ends.",
    )
    add_partitions_to_txn_retry_backoff_ms = _role(
        "add.partitions.to.txn.retry.backoff.ms",
        Milliseconds(min=1, bits=32),
        20,
        "How long a leader waits before it asks the coordinator again, if the previous transaction"
        " of the producer is not complete yet.",
    )
    add_partitions_to_txn_retry_backoff_max_ms = _role(
        "add.partitions.to.txn.retry.backoff.max.ms",
        Milliseconds(min=0, bits=32),
        100,
        "For how long a leader asks the coordinator again; then the producer must retry.",
    )

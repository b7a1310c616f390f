"""Opens the partitions of a topic on a lone broker: each with its log, each led here.

In: a topic and how many partitions it has. Out: the topic with its partitions.
Always: a log belongs to the topic with its id; the log of another topic of that name is renamed.
Not here: which topics there are (broker/catalog.py), the files of a log (log/), a cluster
(broker/replicas/roles.py).
"""

from typing import Protocol, cast
from uuid import UUID

from barnabas.broker.catalog_interface import TopicsContext, configure, log_config, set_codec
from barnabas.broker.no_log import NoLog
from barnabas.broker.partition import Partition
from barnabas.broker.role import Role
from barnabas.broker.storage.storage import Storage
from barnabas.broker.topic import Topic
from barnabas.log.log import Log
from barnabas.model.ids import NO_TOPIC_ID, BrokerId, TopicPartition
from barnabas.model.system_errors import NO_DESCRIPTORS, NO_ROOM


class OpeningContext(TopicsContext, Protocol):
    """What this module needs of the broker."""

    logs: Storage


def open_partitions(broker: OpeningContext, topic: Topic, total: int, lost: str = "") -> None:
    """`lost`: the offline directory that may have a missing log."""
    logs = broker.logs
    set_codec(broker, topic)
    config = log_config(topic.config, broker)
    own = BrokerId(broker.id)
    for index in range(len(topic.partitions), total):
        name = TopicPartition(topic.name, index)
        log = _own_log(broker, name, topic.id)
        why_lost = lost or logs.damaged.get(name, "")
        if log is None and why_lost:
            topic.partitions.append(offline_partition(name, own, why_lost))
            continue
        log = log or logs.create(name, topic.id, config)
        _lead(logs, log)
        partition = Partition(name, log, logs.home(name), own)
        configure(broker, partition, topic.config)
        topic.partitions.append(partition)
        if partition.is_unsynced:
            _sync(logs, partition)


def set_aside(broker: OpeningContext, name: TopicPartition) -> None:
    path = broker.logs.set_aside(name)
    broker.log.warning("stray log renamed", partition=name, path=path)


def _sync(logs: Storage, partition: Partition) -> None:
    """A crashed process left it unsynced: do not serve records that a power failure could still
    undo."""
    try:
        partition.log.flush()
    except OSError as error:
        if error.errno in NO_DESCRIPTORS + NO_ROOM:
            raise
        reason = f"sync failed: {error}"
        partition.fail(reason)
        logs.home(partition.name).lose(reason)


def _own_log(broker: OpeningContext, name: TopicPartition, topic_id: UUID) -> Log | None:
    """The log under this name, if it is this topic's and not that of one before it."""
    log = broker.logs.logs.get(name)
    if log is None or log.topic_id == topic_id:
        return log
    if log.topic_id == NO_TOPIC_ID:  # its creation was interrupted, or the file was lost
        log.write_topic_id(topic_id)
        return log
    set_aside(broker, name)
    return None


def _lead(logs: Storage, log: Log) -> None:
    """After a crash, records that consumers have read may be lost: a new epoch shows it."""
    epoch = max(log.epochs.latest, 0)
    crashed = log.end_offset > 0 and not logs.was_clean(log.partition)
    log.begin_epoch(epoch + crashed, durable=crashed)
    log.advance_high_watermark(log.end_offset)


def offline_partition(name: TopicPartition, broker: BrokerId, reason: str) -> Partition:
    """A partition whose log directory is offline until the broker restarts with a healthy disk."""
    partition = Partition(name, cast(Log, NoLog()), None, broker, Role.OFFLINE)
    partition.failure = reason
    return partition

"""The logs of replicas: which log a replica gets, and what happens to logs without a replica.

In: partitions that have a replica here. Out: partitions with their logs; renamed stray logs.
Always: a log belongs to one topic, by its id; a log that may be on an offline disk is not created
again; a log without a replica is renamed, not deleted.
Not here: on which disk a log is (broker/storage/storage.py), roles (roles.py).
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any
from uuid import UUID

from barnabas.broker.catalog_interface import configure
from barnabas.broker.partition import Partition
from barnabas.broker.storage.log_directory import storage_error
from barnabas.broker.topic import Topic
from barnabas.controller.proof import ReplicaCompleteness, ReplicaReport
from barnabas.log.config import LogConfig
from barnabas.log.directory.directory import IncompleteMark
from barnabas.log.log import Log
from barnabas.model.ids import NO_TOPIC_ID, TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.context import ReplicasContext


STRAYS_S = 30.0

_ABSENT = ReplicaReport(
    ReplicaCompleteness.ABSENT, False, -1, 0, "has no log of it: its disk was replaced"
)


def find_log(
    broker: "ReplicasContext",
    topic: Topic,
    config: LogConfig,
    partition: Partition,
    *,
    is_new: bool,
    complete: bool,
) -> None:
    """Its existing log, or a new one. `is_new`: there was no log here before.
    `complete`: the partition has no records yet; otherwise the log was marked as incomplete
    before."""
    logs = broker.logs
    name = partition.name
    log = _own_log(broker, name, topic.id)
    if log is None:
        lost = logs.where_lost(name)
        if lost and not is_new:
            partition.fail(lost)
            raise storage_error(name, lost)
        log = logs.create(name, topic.id, config, complete=complete)
    partition.assign_log(log, logs.home(name))
    configure(broker, partition, topic.config)
    log.config = config


def describe(broker: "ReplicasContext", name: TopicPartition, topic_id: UUID) -> ReplicaReport:
    """What this broker has of a partition, for the election of its leader."""
    logs = broker.logs
    log = logs.logs.get(name)
    if log is None or log.topic_id not in (topic_id, NO_TOPIC_ID):
        lost = logs.where_lost(name)
        if lost:
            return ReplicaReport(
                ReplicaCompleteness.LOST,
                False,
                -1,
                0,
                f"has its log on an offline directory, {lost}",
            )
        if log is None and logs.incomplete(name) not in (None, IncompleteMark.EMPTY):
            return ReplicaReport(
                ReplicaCompleteness.LOST,
                False,
                -1,
                0,
                "has lost its log, which is in its checkpoints",
            )
        return _ABSENT
    incomplete = logs.incomplete(name)
    end = log.end_offset
    last_epoch = log.epochs.latest_written(log.start_offset, end)
    if incomplete is IncompleteMark.EMPTY and end == 0:
        return _ABSENT
    if incomplete in (IncompleteMark.LOST, IncompleteMark.EMPTY):
        reason = f"started its log again, empty, and has copied it only up to offset {end}"
        return ReplicaReport(ReplicaCompleteness.LOST, False, last_epoch, end, reason)
    if incomplete is IncompleteMark.SHORT:
        reason = f"has a log that ends at offset {end}, below its recorded high watermark"
        return ReplicaReport(ReplicaCompleteness.SHORT, False, last_epoch, end, reason)
    replicas = broker.replicas
    confirmed = replicas is not None and replicas.incomplete.is_confirmed(name, log.topic_id)
    return ReplicaReport(
        ReplicaCompleteness.COMPLETE, confirmed or logs.was_clean(name), last_epoch, end
    )


def _own_log(broker: "ReplicasContext", name: TopicPartition, topic_id: UUID) -> Log | None:
    log = broker.logs.logs.get(name)
    if log is None or log.topic_id == topic_id:
        return log
    if log.topic_id == NO_TOPIC_ID:  # its creation was interrupted, or the file was lost
        log.write_topic_id(topic_id)
        return log
    path = broker.logs.set_aside(name)
    broker.log.warning("log of another topic renamed", partition=name, path=path)
    return None


class StrayLogs:
    """Logs whose replica was deleted or moved away: renamed, a while after all were listed."""

    def __init__(
        self,
        broker: "ReplicasContext",
        one_at_a_time: asyncio.Lock,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._broker = broker
        self._one_at_a_time = one_at_a_time
        self._spawn = spawn
        self._timer: asyncio.TimerHandle | None = None

    def schedule(self) -> None:
        """All replicas here have been listed; logs to be deleted are deleted first."""
        self.close()
        self._timer = self._broker.loop.call_later(STRAYS_S, lambda: self._spawn(self.rename()))

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    async def rename(self) -> None:
        async with self._one_at_a_time:
            renamed = await _rename_strays(self._broker)
        if not renamed:
            self.schedule()


async def _rename_strays(broker: "ReplicasContext") -> bool:
    """Their topics were deleted, or their replicas moved, while this broker was down or its disk
    full. False if one could not be renamed: try again later."""
    logs = broker.logs
    renamed = True
    for name, log in list(logs.logs.items()):
        topic = broker.topics.get(name.topic)
        known = topic.partitions[name.partition : name.partition + 1] if topic else []
        holders = [partition for partition in known if partition.log is log]
        if any(broker.id in partition.replicas for partition in holders):
            continue
        for partition in holders:
            partition.drop_log()
        try:
            async with logs.home(name).renaming:
                path = logs.set_aside(name)
        except OSError as error:
            broker.log.error("stray log not renamed", partition=name, reason=str(error))
            renamed = False
        else:
            broker.log.warning("stray log renamed", partition=name, path=path)
    return renamed

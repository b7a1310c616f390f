"""DescribeBroker: this broker's state, and the controller's history with causes, for our own
client."""

import os
from itertools import islice
from typing import TYPE_CHECKING

from barnabas.broker.health import health_of
from barnabas.broker.net.dispatch import Call
from barnabas.model.version import VERSION
from barnabas.system.machine import boot_id
from barnabas.wire.messages.describe_broker import (
    ControllerEvent,
    DescribeBrokerRequest,
    DescribeBrokerResponse,
    DescribedLogDir,
    OfflinePartition,
    ThrottledClient,
    WaitingPartition,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

EVENTS_MAX = 10_000
OFFLINE_MAX = 1_000
THROTTLED_MAX = 100
WAITING_MAX = 100
TEXT_LENGTH_MAX = 300


def handle(broker: "Broker", request: DescribeBrokerRequest, call: Call) -> DescribeBrokerResponse:
    cluster = broker.cluster
    controlling = None if cluster is None else cluster.controlling
    health = health_of(broker.logs, broker.heartbeat, broker.log)
    return DescribeBrokerResponse(
        broker_id=broker.id,
        broker_epoch=-1 if cluster is None else cluster.broker_epoch,
        process_id=os.getpid(),
        machine=boot_id(),
        version=VERSION,
        controller_id=broker.controller_id,
        controller_epoch=-1 if controlling is None else controlling.epoch,
        is_controller=controlling is None or controlling.active,
        events=_events(broker, request.after, request.events_max),
        loop_delay_ms_p99=health.loop_delay_ms_p99,
        open_files=health.open_files,
        open_files_max=health.open_files_max,
        log_lines_dropped=health.log_lines_dropped,
        log_dirs=[
            DescribedLogDir(path=each.path, state=each.state, reason=each.reason)
            for each in health.log_dirs
        ],
        offline=_offline(broker),
        throttled=_throttled(broker),
        waiting=_waiting(broker),
    )


def _waiting(broker: "Broker") -> list[WaitingPartition]:
    """The first ones."""
    waiting = (log for log in broker.logs.logs.values() if log.waiting_bytes)
    return [
        WaitingPartition(
            topic=log.partition.topic,
            partition=log.partition.partition,
            waiting_bytes=log.waiting_bytes,
            log_bytes=log.size,
            limit_bytes=log.config.waiting_bytes_max,
        )
        for log in islice(waiting, WAITING_MAX)
    ]


def _throttled(broker: "Broker") -> list[ThrottledClient]:
    """Those of the last minute, the latest first."""
    if broker.quotas is None:
        return []
    return [
        ThrottledClient(
            entity=str(recent.limit.shared_by)[:TEXT_LENGTH_MAX],
            quota=recent.kind.value,
            limit=recent.limit.value,
            source=str(recent.limit.source)[:TEXT_LENGTH_MAX],
            times=recent.times,
            wait_ms=recent.wait_ms,
        )
        for recent in broker.quotas.log.lately()[:THROTTLED_MAX]
    ]


def _offline(broker: "Broker") -> list[OfflinePartition]:
    """The first partitions without a leader."""
    if broker.cluster is None or not broker.cluster.controlling.active:
        return []
    machine = broker.cluster.controlling.machine
    return [
        OfflinePartition(
            topic=each.name.topic,
            partition=each.name.partition,
            reason=machine.why_offline(each.name),
        )
        for each in islice(machine.cluster.leaderless, OFFLINE_MAX)
    ]


def _events(broker: "Broker", after: int, count: int) -> list[ControllerEvent]:
    """The latest `count` events."""
    if broker.cluster is None or not broker.cluster.controlling.active or count <= 0:
        return []
    entries = broker.cluster.controlling.history(after)[-min(count, EVENTS_MAX) :]
    return [
        ControllerEvent(
            number=entry.number,
            at_ms=entry.at_ms,
            what=entry.what,
            cause=entry.cause,
            isr=list(entry.isr),
            isr_before=list(entry.isr_before),
            topic=entry.topic,
            partition=entry.partition,
            leader=entry.leader,
            leader_epoch=entry.leader_epoch,
            leader_before=entry.leader_before,
        )
        for entry in entries
    ]

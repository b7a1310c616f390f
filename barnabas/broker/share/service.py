"""What share groups need of a broker: the share coordinator, sessions, and loaded share partitions.

In: requests of members and of other brokers. Out: the parts that answer them.
Always: created by the first request about share groups.
"""

import asyncio
from collections.abc import Coroutine
from traceback import format_exception
from typing import Any, NamedTuple

from barnabas.broker.context import GroupsContext
from barnabas.broker.partition import Partition
from barnabas.broker.share.coordination import ShareCoordination
from barnabas.broker.share.partitions import LoadedShares
from barnabas.broker.share.states import ShareStates
from barnabas.config.group import GroupConfig
from barnabas.config.share.group_options import duration_ms
from barnabas.coordinators.ports import Now
from barnabas.coordinators.share.delivery_causes import DeliveryStatistics
from barnabas.coordinators.share.keys import parse_coordinator_key
from barnabas.coordinators.share.sessions import ShareSession, ShareSessions
from barnabas.coordinators.share.share_partition import ShareOptions, ShareRoom
from barnabas.keeper.paths import GROUPS
from barnabas.model.errors import Code, Retriable
from barnabas.wire.codec import ProtocolMessage


class ShareGroupSettings(NamedTuple):
    """The options of one share group."""

    options: ShareOptions
    committed: bool
    offset_reset: str
    dead_letter_topic: str
    dead_letters_with_records: bool


def share_service(broker: GroupsContext) -> "ShareService":
    """The broker's, made on first use."""
    if broker.share is None:
        broker.share = ShareService(broker)
    return broker.share


class ShareService:
    """Share groups on one broker."""

    def __init__(self, broker: GroupsContext) -> None:
        self.broker = broker
        self.loop = broker.loop
        self.coordination = ShareCoordination(broker)
        self.states = ShareStates(broker, self.coordination)
        self.sessions = ShareSessions(broker.config.group_share_max_share_sessions)
        self.partitions = LoadedShares(self)
        self.ended = DeliveryStatistics()  # of share partitions that were dropped
        self.writes = 0
        self.writes_refused = 0
        self.dead_letters = 0
        self.dead_letters_failed = 0
        self._settings: dict[str, ShareGroupSettings] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = False

    @property
    def room(self) -> ShareRoom:
        return self.partitions.room

    def now(self) -> Now:
        return Now(self.broker.clock.monotonic_ms(), self.broker.clock.wall_ms())

    def stop(self) -> None:
        """The logs are about to close."""
        self._stopped = True
        self.coordination.stop()
        self.states.stop()
        for share in self.partitions:
            share.drop()
        for task in self._tasks:
            task.cancel()

    def coordinator_of(self, text: str) -> int:
        """The broker that has the state of a share partition; INVALID_REQUEST if it is no key."""
        key = parse_coordinator_key(text)
        return self.coordination.leader_of(self.coordination.index_of(key))

    # Settings

    def settings_of(self, group: str) -> ShareGroupSettings:
        found = self._settings.get(group)
        if found is None:
            found = self._read_settings(group)
            if len(self._settings) >= 10_000:
                self._settings.clear()
            self._settings[group] = found
        return found

    def _read_settings(self, group: str) -> ShareGroupSettings:
        broker = self.broker
        settings = broker.catalog.entities.get((GROUPS, group), {})
        config = GroupConfig(settings, broker.layers)
        return ShareGroupSettings(
            ShareOptions(
                lock_ms=config.share_record_lock_duration_ms,
                delivery_limit=config.share_delivery_count_limit,
                locks_max=config.share_partition_max_record_locks,
                renewals=config.share_renew_acknowledge_enable,
                backoff_ms=config.barnabas_share_release_backoff_ms,
            ),
            committed=config.share_isolation_level == "read_committed",
            offset_reset=config.share_auto_offset_reset,
            dead_letter_topic=config.errors_deadletterqueue_topic_name,
            dead_letters_with_records=config.errors_deadletterqueue_copy_record_enable,
        )

    def group_configured(self, group: str) -> None:
        self._settings.pop(group, None)
        for share in self.partitions.of_group(group):
            share.configure(self.settings_of(group))

    async def initial_offset(self, partition: Partition, settings: ShareGroupSettings) -> int:
        """Where a group begins that has no offset yet."""
        log = partition.log
        if partition.leading is not None and (
            log.high_watermark < partition.leading.machine.epoch_start
        ):
            raise Retriable(
                Code.OFFSET_NOT_AVAILABLE, f"{partition.name}: the high watermark is not known yet"
            )
        if settings.offset_reset == "earliest":
            return log.start_offset
        back_ms = duration_ms(settings.offset_reset)
        end = log.high_watermark if partition.delay is None else partition.delay.end()
        if back_ms is None:
            return end
        at_ms = self.broker.clock.wall_ms() - back_ms
        try:
            part = log.time_slice(at_ms)
            if part is not None and partition.log_directory is not None and log.is_cold(part):
                await partition.log_directory.warm([part])
            found = log.find_time(at_ms)
        except OSError as error:
            raise partition.unreadable(error) from error
        return end if found is None or found.offset >= end else found.offset

    # Sessions

    def closed(self, connection: object) -> None:
        """What the members of a closed connection hold is available again at once."""
        self.released(*self.sessions.disconnected(connection))

    def released(self, *ended: ShareSession) -> None:
        """What their members hold is available again. Nothing is kept of a group without a session
        here: its offsets can be altered, and it can be deleted."""
        if self._stopped:
            return
        for group, member in (session.key for session in ended):
            self.partitions.release(group, member, self.now())
        for group in {session.key.group: None for session in ended}:
            if not self.sessions.has_members(group):
                self.partitions.retire(group)

    def writes_ended(self, code: Code) -> None:
        self.writes += 1
        if code:
            self.writes_refused += 1

    async def answer_itself(self, request: ProtocolMessage, version: int) -> ProtocolMessage:
        """A request to this broker, as a peer would send it."""
        return await self.broker.dispatcher.answer(request, version)

    def keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failed(error)

    def failed(self, error: BaseException) -> None:
        """Count and log an unexpected error."""
        self.broker.counts.failures += 1
        trace = "".join(format_exception(error))
        self.broker.log.error("work on share groups failed", error=repr(error), trace=trace)

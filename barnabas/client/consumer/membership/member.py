"""Executes what a membership decides: sends requests, calls the reader, sends heartbeats.

In: a state machine (classic.py, consumer.py) and the callbacks for partitions. Out: requests,
callbacks.
Always: the machine is used under one lock, because a blocking reader has a heartbeat thread; a
rebalance makes progress only in `advance`, between two polls.
Not here: deciding (the machines), reading (client/consumer/reader.py).
"""

import logging
import threading
from collections.abc import Awaitable, Callable
from uuid import UUID

from barnabas.assignment import AssignableTopic, Topics
from barnabas.client.cluster import ClusterClient
from barnabas.client.consumer.membership.membership import (
    AssignPartitions,
    Cause,
    CommitterIdentity,
    CoordinatorRequest,
    Describe,
    EndMembership,
    LosePartitions,
    Membership,
    Resolve,
    RevokePartitions,
    Step,
    WaitStep,
)
from barnabas.client.consumer.subscription import Subscription
from barnabas.client.errors import error_of
from barnabas.client.metadata_snapshot import MetadataSnapshot
from barnabas.client.net import PendingResponse
from barnabas.model.errors import Code, KafkaError, Retriable
from barnabas.wire.apis import APIS
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages.join_group import JoinGroupRequest
from barnabas.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from barnabas.wire.messages.sync_group import SyncGroupRequest

_log = logging.getLogger("barnabas.client")
_LEAVE_MS_MAX = 5_000  # how long leaving is tried: a broker may be restarting
_ANSWER_LATE_MS = 5_000  # in addition to the coordinator's own timeout
_MISSING_LOOK_MS = 1_000  # how often to look for a topic that is not there yet
_MOVED = frozenset({Code.NOT_COORDINATOR, Code.COORDINATOR_NOT_AVAILABLE})

PartitionsCallback = Callable[
    [RevokePartitions | LosePartitions | AssignPartitions], Awaitable[None]
]


class MembershipDriver:
    """One consumer as a member of its group."""

    def __init__(
        self,
        cluster: ClusterClient,
        group_id: str,
        machine: Membership,
        wanted: Subscription,
        on_partitions: PartitionsCallback,
        changed: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._machine = machine
        self._wanted = wanted
        self._on_partitions = on_partitions
        self._changed = changed  # a poll has something to do
        self._guard = threading.Lock()
        self._pending: tuple[CoordinatorRequest, PendingResponse[ProtocolMessage]] | None = None
        self._held: Step | None = None  # a step whose brokers have not answered yet
        self._looking = cluster.net.bounded_task()
        self._finding = cluster.net.bounded_task()
        self._describing = cluster.net.bounded_task()
        self._look_at = 0
        self._last_taken: Cause | None = None
        self._missing: list[str] = []  # subscribed topics that did not exist
        self._beat_due: int | None = None
        self._background_flow = cluster.net.background_flow(self._beat)
        self.wait_until = 0

    @property
    def identity(self) -> CommitterIdentity | None:
        return self._machine.identity

    @property
    def state(self) -> str:
        """The state of the membership machine, in lower case."""
        state = getattr(self._machine, "state", None)
        if state is None:
            return "joining" if self.identity is None else "stable"
        return str(state.name).lower()

    @property
    def error_text(self) -> str:
        """Why this consumer last lost partitions, or why it is not in its group."""
        cause = self._machine.left_because if self.identity is None else None
        cause = cause or self._last_taken
        return f": {cause}" if cause is not None else ""

    @property
    def answers(self) -> list[PendingResponse[ProtocolMessage]]:
        """What `advance` waits for."""
        return [self._pending[1]] if self._pending else []

    def subscribe(self, wanted: Subscription) -> None:
        self._wanted = wanted
        self._look_at = 0

    async def advance(self, deadline: int | None = None) -> None:
        """Execute all steps that need no waiting for other members.

        Brokers that have not answered by the deadline are waited for in the next call.
        """
        net = self._cluster.net
        with self._guard:
            self._machine.polled(net.now_ms())
        self.wait_until = 0
        while True:
            now = net.now_ms()
            if now >= self._look_at and not await self._looked(now, deadline):
                return
            if self._pending is not None:
                if not self._pending[1].done():
                    return
                await self._take_answer()
                continue
            step, self._held = self._held, None
            if step is None:
                with self._guard:
                    step = self._machine.next_step(net.now_ms())
            if step is None:
                self._watch_beat()
                return
            if isinstance(step, WaitStep):
                self.wait_until = step.until
                return
            if isinstance(step, EndMembership):
                raise step.error
            if isinstance(step, CoordinatorRequest):
                if not await self._ask(step, deadline):
                    self._held = step
                    return
            elif isinstance(step, Describe):
                if not await self._describe(step, deadline):
                    self._held = step
                    return
            elif isinstance(step, Resolve):
                names = await self._names(step.ids)
                with self._guard:
                    self._machine.resolved(names, net.now_ms())
            else:
                await self._tell(step)

    async def _tell(self, step: RevokePartitions | LosePartitions | AssignPartitions) -> None:
        _log.info("group %s: %s", self._group_id, _said(step))
        if not isinstance(step, AssignPartitions):
            self._last_taken = step.cause
        try:
            await self._on_partitions(step)
        except Exception:
            self._done(step)  # the reader failed, the rebalance did not
            raise
        self._done(step)

    def _done(self, step: RevokePartitions | LosePartitions | AssignPartitions) -> None:
        with self._guard:
            self._machine.done(step, self._cluster.net.now_ms())

    async def leave(self, reason: str) -> None:
        """Leave the group. A failure is not an error: the session will time out."""
        self._background_flow.stop()
        with self._guard:
            ask = self._machine.leave(reason, self._cluster.net.now_ms())
        self._pending = None
        if ask is not None and self._cluster.known is not None:
            request = ask.request
            limit_ms = min(_LEAVE_MS_MAX, self._cluster.timeout_ms)

            async def leave_once() -> None:
                response = await self._call(request, limit_ms)
                problem = error_of(getattr(response, "error_code", 0))
                if isinstance(problem, Retriable):
                    # any other error says that we are not a member, which is the goal
                    raise problem

            try:
                await self._cluster.retrying(leave_once, timeout_ms=limit_ms)
            except KafkaError as problem:
                _log.warning(
                    "group %s: could not send LeaveGroup, the session will time out: %s",
                    self._group_id,
                    problem,
                )

    # --- called by poll ---

    async def _describe(self, step: Describe, deadline: int | None) -> bool:
        if not await self._describing.done(lambda: self._view(step.topics), deadline):
            return False
        view = self._cluster.known
        assert view is not None
        with self._guard:
            self._machine.described(_topics(view), self._cluster.net.now_ms())
        return True

    async def _ask(self, ask: CoordinatorRequest, deadline: int | None) -> bool:
        """False: the coordinator has not been found yet."""
        request = ask.request
        timeout_ms = self._cluster.timeout_ms
        if isinstance(request, JoinGroupRequest | SyncGroupRequest):
            timeout_ms = max(timeout_ms, self._cluster.config.max_poll_interval_ms)
            timeout_ms += _ANSWER_LATE_MS
        cluster, group_id = self._cluster, self._group_id
        try:
            if cluster.coordinator_connected(group_id) is None and not await self._finding.done(
                lambda: cluster.coordinator(group_id), deadline
            ):
                return False
            connection = await cluster.coordinator(group_id)
            answer = connection.send(request, APIS[request.api_key].response, timeout_ms=timeout_ms)
        except KafkaError as problem:
            self._failed(request, problem)
            return True
        except BaseException:
            # Cancelled while connecting: the machine must not wait for a response for ever.
            self._failed(request, Retriable(Code.NETWORK_EXCEPTION, "cancelled"))
            raise
        self._pending = (ask, answer)
        return True

    async def _take_answer(self) -> None:
        assert self._pending is not None
        ask, answer = self._pending
        self._pending = None
        try:
            response = await answer
        except KafkaError as problem:
            self._failed(ask.request, problem)
        else:
            self._answered(ask.request, response)

    def _answered(self, request: ProtocolMessage, response: ProtocolMessage) -> None:
        if getattr(response, "error_code", 0) in _MOVED:
            self._cluster.forget_coordinator(self._group_id)
        with self._guard:
            self._machine.answered(request, response, self._cluster.net.now_ms())

    def _failed(self, request: ProtocolMessage, problem: KafkaError) -> None:
        self._cluster.forget_coordinator(self._group_id)
        self._cluster.drop_closed()
        with self._guard:
            self._machine.failed(request, problem, self._cluster.net.now_ms())

    # --- the heartbeat task ---

    def _watch_beat(self) -> None:
        with self._guard:
            due = self._machine.next_beat()
        if due != self._beat_due:
            self._beat_due = due
            self._background_flow.nudge()

    async def _beat(self) -> int | None:
        net = self._cluster.net
        with self._guard:
            ask = self._machine.beat(net.now_ms())
        if ask is not None:
            before = self._machine.identity
            try:
                response = await self._call(ask.request, self._cluster.timeout_ms)
            except KafkaError as problem:
                self._failed(ask.request, problem)
            else:
                self._answered(ask.request, response)
            if before is not None and self._machine.identity is None:
                _log.warning("group %s: this member is no longer in its group", self._group_id)
            self._changed()
        with self._guard:
            self._beat_due = self._machine.next_beat()
        return self._beat_due

    async def _call(self, request: ProtocolMessage, timeout_ms: int) -> ProtocolMessage:
        connection = await self._cluster.coordinator(self._group_id)
        return await connection.call(request, APIS[request.api_key].response, timeout_ms=timeout_ms)

    # --- topics ---

    async def _looked(self, now: int, deadline: int | None) -> bool:
        """Waits only for the first lookup: nothing can be requested before."""
        first = self._look_at == 0

        async def look() -> None:
            try:
                await self._look(now)
            finally:
                self._changed()

        try:
            return await self._looking.done(look, deadline if first else now) or not first
        except Retriable as problem:
            if first:
                raise
            self._look_at = now + self._cluster.config.retry_backoff_ms
            _log.warning("group %s: could not read the topics: %s", self._group_id, problem)
            return True

    async def _look(self, now: int) -> None:
        """Reads the topics: which match the subscription, and whether partitions were added."""
        config = self._cluster.config
        names = self._wanted.names
        watched = tuple(dict.fromkeys([*names, *self._machine.group_topics]))
        if self._wanted.pattern is not None:
            view = await self._cluster.view_of(None)
            names = self._wanted.among(view.topics, internal=not config.exclude_internal_topics)
        else:
            view = await self._view(watched, create=config.allow_auto_create_topics)
        missing = [name for name in watched if name not in view.topics]
        if missing and missing != self._missing:
            _log.warning(
                "group %s: no topic %s (yet), so nothing is read there: create it, or check its"
                " name",
                self._group_id,
                ", ".join(missing),
            )
        self._missing = missing
        self._look_at = now + min(
            config.metadata_max_age_ms or 1, _MISSING_LOOK_MS if missing else 1 << 40
        )
        with self._guard:
            self._machine.subscribe(names, now)
            self._machine.watched(_topics(view))

    async def _view(self, names: tuple[str, ...], *, create: bool = False) -> MetadataSnapshot:
        await self._cluster.view(names)
        return await self._cluster.refresh(create=create)

    async def _names(self, ids: tuple[UUID, ...]) -> dict[UUID, str]:
        known = self._cluster.known
        found = {id_: known.name_of(id_) for id_ in ids} if known is not None else {}
        if all(found.get(id_) for id_ in ids):
            return found
        connection = await self._cluster.anyone()
        response = await connection.call(
            MetadataRequest(
                topics=[MetadataRequestTopic(topic_id=id_, name=None) for id_ in ids],
                allow_auto_topic_creation=False,
            ),
            MetadataResponse,
            timeout_ms=self._cluster.timeout_ms,
        )
        return {one.topic_id: one.name for one in response.topics if one.name}


def _topics(view: MetadataSnapshot) -> Topics:
    """The topics as assignors see them."""
    racks = {broker.id: broker.rack for broker in view.brokers.values() if broker.rack}
    return {
        name: AssignableTopic(
            len(topic.partitions),
            topic.id,
            tuple(
                frozenset(racks[replica] for replica in partition.replicas if replica in racks)
                for partition in topic.partitions
            )
            if racks
            else (),
        )
        for name, topic in view.topics.items()
    }


def _said(step: RevokePartitions | LosePartitions | AssignPartitions) -> str:
    verb = {RevokePartitions: "revoked", LosePartitions: "lost", AssignPartitions: "assigned"}[
        type(step)
    ]
    cause: Cause = step.cause
    return f"{verb} {', '.join(map(str, step.partitions))}: {cause}"

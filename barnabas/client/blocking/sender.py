"""The work of a blocking producer's thread: sends requests and reads responses.

In: sockets with responses, time. Out: what to wait for, and how long.
Always: the outbox (producer/outbox.py) is used under the lock of `changed`, which is notified of
every change. Sockets that carry records are used by the one thread that calls, without the lock,
and it never waits for one of them, so a silent broker does not delay the records for another. Work
that may wait for one broker (a DNS lookup, a connect, a request for metadata or a producer id) has
its own short-lived thread.
Not here: the thread itself, and the callers that wait for it (producer.py).
"""

import os
import select
import threading
import weakref
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple

from barnabas.client.blocking.connection import BlockingConnection, BlockingResponse
from barnabas.client.blocking.net import run
from barnabas.client.cluster import PRODUCE, ClusterClient
from barnabas.client.producer.accumulator import Accumulator
from barnabas.client.producer.outbox import Outbox, Outgoing
from barnabas.client.producer.producing import (
    ProduceCall,
    answers_of,
    identify,
    learn,
    now_ms,
    producer_identity,
    refresh_metadata,
    request_of,
    tried,
)
from barnabas.client.producer.transacting import Transacting
from barnabas.model.errors import KafkaError
from barnabas.wire.messages.produce import ProduceResponse

_SLEEP_S_MAX = 60.0
# Flows; those that connect have a broker's number.
_METADATA, _IDENTITY, _PARTITIONS = "metadata", "identity", "partitions"

Ready = tuple[int, int]  # a socket and what poll() says of it


class SenderWait(NamedTuple):
    """What to wait for: answers at these sockets, room in some, a notification, or so long."""

    sockets: Sequence[int]
    unsent: Sequence[int]  # of these sockets, those that have more to send
    wait_s: float


class _Sent(NamedTuple):
    outgoing: Outgoing
    request: ProduceCall
    answer: BlockingResponse[ProduceResponse] | None  # without acks: none will come
    connection: BlockingConnection
    end: int  # of the request, in the bytes sent on this connection
    sent_deadline: int

    @property
    def deadline(self) -> int:
        """Later, if the broker does not read for a while."""
        if self.answer is None:
            return self.sent_deadline
        return max(self.sent_deadline, int(self.answer.deadline * 1000))


class SocketWakeUp:
    """Wakes a thread that waits for sockets."""

    def __init__(self) -> None:
        self._pipe_read, self._pipe_write = os.pipe()
        os.set_blocking(self._pipe_write, False)
        # The garbage collector may call this on a thread that is in it.
        self._lock = threading.RLock()
        self._closed = False

    def notify(self) -> None:
        with self._lock:
            if self._closed:
                return  # its descriptor may be another file's by now
            try:
                os.write(self._pipe_write, b"!")
            except BlockingIOError:
                pass  # the thread is already notified

    def wait(self, rest: SenderWait) -> list[Ready]:
        """The sockets that have something, or room, after a notification, or the time."""
        poller = select.poll()
        for descriptor in (self._pipe_read, *rest.sockets):
            poller.register(descriptor, select.POLLIN)
        for descriptor in rest.unsent:
            poller.modify(descriptor, select.POLLIN | select.POLLOUT)
        ready = poller.poll(rest.wait_s * 1000)
        if any(descriptor == self._pipe_read for descriptor, _ in ready):
            os.read(self._pipe_read, 4096)
        return ready

    def close(self) -> None:
        with self._lock:
            self._closed = True
            os.close(self._pipe_read)
            os.close(self._pipe_write)


class Sender:
    """Called by one thread, but for `wake`, which is called under the lock.

    `wake_up`: of that thread, once it runs.
    """

    def __init__(
        self,
        cluster: ClusterClient,
        outbox: Outbox,
        accumulator: Accumulator,
        changed: threading.Condition,
        transacting: Transacting | None = None,
    ) -> None:
        self._cluster = cluster
        self._outbox = outbox
        self._accumulator = accumulator
        self._transacting = transacting
        self._changed = changed
        self._timeout_ms = cluster.config.request_timeout_ms
        self._sent: list[_Sent] = []
        self._connections: dict[int, BlockingConnection] = {}
        self._flows: dict[object, None] = {}  # under way, each on a thread of its own
        self._failure: BaseException | None = None  # of a flow, which is a bug
        self._identify_at = 0
        self._down_until: dict[int, int] = {}
        self._looked_at = 0  # when it was last asked what is due
        self._asleep = False
        self._notified = False  # while it was awake
        self.wake_up: SocketWakeUp | None = None
        self.stopping = False  # set under the lock, and then it does not rest any more

    def wake(self) -> None:
        if self._asleep and self.wake_up is not None:
            self._asleep = False
            self.wake_up.notify()
        else:
            self._notified = True

    @property
    def adding(self) -> bool:
        """Whether partitions are being added to a transaction."""
        return _PARTITIONS in self._flows

    def due(self) -> bool:
        """Do what is due; False: nothing was."""
        with self._changed:
            self._asleep = self._notified = False
            if self._failure is not None:
                raise self._failure
            self._looked_at = now = now_ms()
            requests = self._outbox.poll(now, self._ready)
            self._outbox.metadata_refresh.expire(now)
            self._changed.notify_all()
            if self._outbox.metadata_refresh.wanted(now):
                self._outbox.metadata_refresh.asking = True
                self._begin(_METADATA, refresh_metadata(self._cluster, self._accumulator.topics()))
            if self._outbox.wants_identity() and now >= self._identify_at:
                self._begin(_IDENTITY, producer_identity(self._cluster))
            if self._transacting is not None and self._transacting.adding:
                self._begin(_PARTITIONS, self._transacting.add_partitions())
            for node in self._to_connect(now):
                self._begin(node, self._cluster.broker(node, apart=PRODUCE))
        for outgoing in requests:
            self._send(outgoing)
        return bool(requests)

    def rest(self) -> SenderWait:
        """Until something may be due: at once, if it came due since it was looked for."""
        with self._changed:
            deadlines = [sent.deadline for sent in self._sent]
            if (next_one := self._outbox.next_deadline(self._looked_at)) is not None:
                deadlines.append(next_one)
            waits = (*self._down_until.values(), self._identify_at)
            deadlines += [at for at in waits if at > self._looked_at]
            connections = {sent.connection: None for sent in self._sent}
            lost = any(each.closed for each in connections)  # and its requests must be failed
            notified = self._notified or self.stopping or lost
            self._asleep = not notified
        sockets = [each.fileno() for each in connections if not each.closed]
        unsent = [each.fileno() for each in connections if each.unsent]
        if notified:
            return SenderWait(sockets, unsent, 0)
        if not deadlines:
            return SenderWait(sockets, unsent, _SLEEP_S_MAX)
        return SenderWait(sockets, unsent, max(min(deadlines) - now_ms(), 1) / 1000)

    def take_in(self, ready: Sequence[Ready]) -> None:
        """Use these sockets; then answers that came, and requests that will have none."""
        connections = {sent.connection.fileno(): sent.connection for sent in self._sent}
        for descriptor, events in ready:
            if descriptor not in connections:
                continue
            # Each call lets another thread have the interpreter: none is made in vain.
            try:
                if events & select.POLLOUT:
                    connections[descriptor].push()
                if events & ~select.POLLOUT:
                    connections[descriptor].take_in()
            except KafkaError:
                pass  # the connection says so to each of its requests
        with self._changed:
            now = now_ms()
            self._sent = [sent for sent in self._sent if not self._settled(sent, now)]
            self._changed.notify_all()

    def _settled(self, sent: _Sent, now: int) -> bool:
        problem: KafkaError | None = sent.connection.problem
        if sent.answer is None and sent.connection.left >= sent.end:
            self._outbox.sent_one_way(sent.outgoing)
            return True
        if sent.answer is not None and sent.answer.response is not None:
            try:
                response = sent.answer.wait()
            except KafkaError as why:
                problem = why
            else:
                self._outbox.answered(sent.outgoing, answers_of(response, sent.request.names), now)
                return True
        elif problem is None:
            if now < sent.deadline:
                return False
            problem = sent.connection.time_out()
        assert problem is not None
        self._outbox.unanswered(sent.outgoing, problem, now)
        return True

    def _ready(self, node: int) -> bool:
        connection = self._connections.get(node)
        if connection is None or connection.closed:
            return False
        return not self._cluster.is_due((node, PRODUCE))

    def _to_connect(self, now: int) -> list[int]:
        leaders = {q.leader: None for q in self._accumulator.active if q.leader >= 0}
        return [
            node
            for node in leaders
            if not self._ready(node) and now >= self._down_until.get(node, 0)
        ]

    def _send(self, outgoing: Outgoing) -> None:
        settings = self._outbox.settings
        connection = self._connections[outgoing.node]
        now = now_ms()
        request = request_of(outgoing, settings, self._timeout_ms, self._outbox.transactions)
        try:
            answer: BlockingResponse[ProduceResponse] | None = None
            if settings.acks == 0:
                request.send_one_way(connection)
            else:
                waiting = request.send(connection)
                assert isinstance(waiting, BlockingResponse)
                answer = waiting
        except KafkaError as problem:
            with self._changed:
                self._outbox.unsent(outgoing, problem, now)
            return
        deadline = now + self._timeout_ms
        sent = _Sent(outgoing, request, answer, connection, connection.queued, deadline)
        if answer is None and not connection.unsent:
            with self._changed:
                self._outbox.sent_one_way(outgoing)
            return
        self._sent.append(sent)

    # --- flows beside ---

    def _begin(self, key: object, flow: Coroutine[Any, Any, Any]) -> None:
        if key in self._flows:
            flow.close()
            return
        self._flows[key] = None
        ended = weakref.WeakMethod(self._ended)
        threading.Thread(
            target=_carry_out, args=(key, flow, ended), name="barnabas-producer-flow", daemon=True
        ).start()

    def _ended(self, key: object, found: Any, problem: BaseException | None) -> None:
        """Called by the flow's thread."""
        with self._changed:
            del self._flows[key]
            now = now_ms()
            if problem is not None and not isinstance(problem, KafkaError):
                self._failure = problem
            elif key == _METADATA:
                learn(self._outbox, found, problem, now, reached=self._cluster.reached)
            elif key == _IDENTITY:
                if identify(self._outbox, found, problem):
                    self._identify_at = now + self._outbox.settings.backoff_ms
            elif key == _PARTITIONS:
                pass  # the state of the transaction says what went wrong
            else:
                assert isinstance(key, int)
                self._connected(key, found, problem, now)
            self._changed.notify_all()
            self.wake()

    def _connected(self, node: int, connection: Any, problem: KafkaError | None, now: int) -> None:
        if problem is not None:
            self._down_until[node] = now + self._outbox.settings.backoff_ms
            self._outbox.unreachable(node, problem)
            return
        assert isinstance(connection, BlockingConnection)
        connection.send_ahead()
        self._connections[node] = connection


def _carry_out(
    key: object,
    flow: Coroutine[Any, Any, Any],
    ended: "weakref.WeakMethod[Callable[[object, Any, BaseException | None], None]]",
) -> None:
    """It holds no producer while it waits: a forgotten one can go."""
    found: tuple[Any, BaseException | None]
    try:
        found = run(tried(flow))
    except BaseException as why:
        found = None, why
    end = ended()
    if end is not None:
        end(key, *found)

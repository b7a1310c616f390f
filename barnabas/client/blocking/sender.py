"""What the thread of a blocking producer does: requests out, answers in, and what they need.

In: sockets with answers, time. Out: what to wait for, and how long.
Always: what decides (outbox.py) is touched under the lock of `changed`, which is notified of every
change; sockets are used by the one thread that calls, and without the lock.
Not here: the thread itself, and who waits for it (producer.py).
"""

import os
import select
import threading
import time
from collections.abc import Sequence
from typing import NamedTuple

from barnabas.client.accumulator import Accumulator
from barnabas.client.blocking.connection import Answer, Connection
from barnabas.client.blocking.net import run
from barnabas.client.cluster import Cluster
from barnabas.client.outbox import Outbox, Outgoing
from barnabas.client.producing import (
    Request,
    answers_of,
    identify,
    learn,
    now_ms,
    picture,
    producer_identity,
    request_of,
    tried,
)
from barnabas.model.errors import Code, KafkaError, Retriable
from barnabas.wire.messages.produce import ProduceResponse

_SLEEP_S_MAX = 60.0


class Rest(NamedTuple):
    """What to wait for: answers at these sockets, the bell, or so long."""

    sockets: Sequence[int]
    wait_s: float


class _Sent(NamedTuple):
    outgoing: Outgoing
    request: Request
    answer: Answer[ProduceResponse]
    connection: Connection
    deadline: int


class Bell:
    """Wakes a thread that waits for sockets."""

    def __init__(self) -> None:
        self._listens, self._rings = os.pipe()
        os.set_blocking(self._rings, False)

    def ring(self) -> None:
        try:
            os.write(self._rings, b"!")
        except BlockingIOError:
            pass  # it rings already

    def wait(self, rest: Rest) -> list[int]:
        """The sockets that have something, after the bell, or the time."""
        poller = select.poll()
        for descriptor in (self._listens, *rest.sockets):
            poller.register(descriptor, select.POLLIN)
        ready = [descriptor for descriptor, _ in poller.poll(rest.wait_s * 1000)]
        if self._listens in ready:
            os.read(self._listens, 4096)
        return ready

    def close(self) -> None:
        os.close(self._listens)
        os.close(self._rings)


class Sender:
    """Called by one thread, but for `wake`, which is called under the lock."""

    def __init__(
        self,
        cluster: Cluster,
        outbox: Outbox,
        accumulator: Accumulator,
        changed: threading.Condition,
    ) -> None:
        self._cluster = cluster
        self._outbox = outbox
        self._accumulator = accumulator
        self._changed = changed
        self._timeout_ms = cluster.config.request_timeout_ms
        self._sent: list[_Sent] = []
        self._down_until: dict[int, int] = {}
        self._looked_at = 0  # when it was last asked what is due
        self._asleep = False
        self._rung = False  # while it was awake
        self.stopping = False  # set under the lock, and then it does not rest any more

    def wake(self, bell: Bell | None) -> None:
        if self._asleep and bell is not None:
            self._asleep = False
            bell.ring()
        else:
            self._rung = True

    def due(self) -> bool:
        """Do what is due; False: nothing was."""
        with self._changed:
            self._asleep = self._rung = False
            self._looked_at = now = now_ms()
            requests = self._outbox.poll(now, self._ready)
            self._changed.notify_all()
            wants_metadata = self._outbox.picture.wanted(now)
            wants_identity = self._outbox.wants_identity()
        for outgoing in requests:
            self._send(outgoing)
        down = self._to_connect()
        for node in down:
            self._connect(node)
        if wants_metadata:
            self._refresh()
        if wants_identity:
            self._identify()
        return bool(requests or down or wants_metadata or wants_identity)

    def rest(self) -> Rest:
        """Until something may be due: at once, if it came due since it was looked for."""
        with self._changed:
            deadlines = [sent.deadline for sent in self._sent]
            if (next_one := self._outbox.next_deadline(self._looked_at)) is not None:
                deadlines.append(next_one)
            deadlines += [at for at in self._down_until.values() if at > self._looked_at]
            sockets = {
                sent.connection.fileno(): None for sent in self._sent if not sent.connection.closed
            }
            rung = self._rung or self.stopping
            self._asleep = not rung
        if rung:
            return Rest(list(sockets), 0)
        if not deadlines:
            return Rest(list(sockets), _SLEEP_S_MAX)
        return Rest(list(sockets), max(min(deadlines) - now_ms(), 1) / 1000)

    def take_in(self, ready: Sequence[int]) -> None:
        """Read these sockets; then answers that came, and requests that will have none."""
        connections = {sent.connection.fileno(): sent.connection for sent in self._sent}
        for descriptor in ready:
            if descriptor not in connections:
                continue
            try:
                connections[descriptor].take_in(self._timeout_ms / 1000)
            except KafkaError:
                pass  # the connection says so to each of its requests
        with self._changed:
            now = now_ms()
            self._sent = [sent for sent in self._sent if not self._settled(sent, now)]
            self._changed.notify_all()

    def _settled(self, sent: _Sent, now: int) -> bool:
        problem: KafkaError | None = sent.connection.problem
        if sent.answer.response is not None:
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
            sent.connection.close()
            late = f"{sent.connection.address}: no answer in time"
            problem = Retriable(Code.REQUEST_TIMED_OUT, late)
        assert problem is not None
        self._outbox.unanswered(sent.outgoing, problem, now)
        return True

    def _ready(self, node: int) -> bool:
        return self._cluster.connected(node) is not None

    def _to_connect(self) -> list[int]:
        with self._changed:
            now = now_ms()
            leaders = {q.leader: None for q in self._accumulator.active if q.leader >= 0}
            return [
                node
                for node in leaders
                if not self._ready(node) and now >= self._down_until.get(node, 0)
            ]

    def _send(self, outgoing: Outgoing) -> None:
        rules = self._outbox.rules
        connection = self._cluster.connected(outgoing.node)
        now = now_ms()
        request = request_of(outgoing, rules, self._timeout_ms)
        try:
            if connection is None:
                raise Retriable(Code.NETWORK_EXCEPTION, f"broker {outgoing.node} hung up")
            if rules.acks == 0:
                request.tell(connection)
                with self._changed:
                    self._outbox.told(outgoing)
                return
            answer = request.send(connection)
        except KafkaError as problem:
            with self._changed:
                self._outbox.unsent(outgoing, problem, now)
            return
        assert isinstance(connection, Connection)
        assert isinstance(answer, Answer)
        self._sent.append(_Sent(outgoing, request, answer, connection, now + self._timeout_ms))

    # --- flows beside ---

    def _refresh(self) -> None:
        with self._changed:
            topics = self._accumulator.topics()
        found = run(tried(picture(self._cluster, topics)))
        with self._changed:
            learn(self._outbox, *found, now_ms(), first=self._cluster.known is None)
            self._changed.notify_all()

    def _identify(self) -> None:
        found = run(tried(producer_identity(self._cluster)))
        with self._changed:
            again = identify(self._outbox, *found)
            self._changed.notify_all()
        if again:
            time.sleep(self._outbox.rules.backoff_ms / 1000)

    def _connect(self, node: int) -> None:
        _, problem = run(tried(self._cluster.broker(node)))
        if problem is not None:
            with self._changed:
                self._down_until[node] = now_ms() + self._outbox.rules.backoff_ms
                self._outbox.unreachable(node, problem)

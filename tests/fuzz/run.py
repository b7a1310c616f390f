"""Fuzzes one broker process over many connections.

In: a seed and a number of requests. Out: figures, or Broken with what was sent.
Always: a round is made from the seed and its number alone, but for the ids of topics.
"""

import re
import socket
import tempfile
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from uuid import UUID

from barnabas.wire.apis import APIS, PRIVATE_FROM
from tests.fuzz import corpus, logins
from tests.fuzz.generate import TOPICS, Generator, too_generous
from tests.fuzz.mutate import framed, misframed, mutated
from tests.fuzz.replies import Unfit, check, check_before_login
from tests.fuzz.watch import Broken, Watch
from tests.process import BrokerProcess
from tests.raw import TIMEOUT_S
from tests.support.probe import advertised_apis

CONNECTIONS = 16  # of one round
SERVICE_EVERY = 20  # rounds
RENEW_EVERY = 400
REMEMBERED = 40 * CONNECTIONS
MIB = 1 << 20
_PEER = re.compile(r'"peer": "127\.0\.0\.1:(\d+)"')
Address = tuple[str, int]


@dataclass
class Figures:
    """How it went."""

    requests: int = 0
    connections: int = 0
    answered_bytes: int = 0
    logins: int = 0  # that were seen to succeed
    rounds: int = 0
    took_s: float = 0.0
    served_s_max: float = 0.0
    rss: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Entrance:
    """Where requests go, as whom, and what no reply to them may have."""

    port: int
    login: bytes = b""  # sent first
    logged_in: bool = True
    hidden: tuple[bytes, ...] = ()
    hidden_ids: tuple[UUID, ...] = ()  # of topics: a client that knows an id learns no name from it


class Fuzz:
    """Rounds of connections, each with a handful of requests and then the end."""

    def __init__(
        self, broker: BrokerProcess, watch: Watch, seed: int, entrance: Entrance | None = None
    ) -> None:
        self._entrance = entrance or Entrance(broker.port)
        self._address: Address = (broker.host, self._entrance.port)
        self._watch = watch
        self._seed = seed
        self._corpus = corpus.load()
        # Our own APIs are told to our own client alone.
        own = [api for key, api in APIS.items() if key >= PRIVATE_FROM]
        self._versions = advertised_apis(broker.host, broker.port)
        self._versions |= {api.key: (api.min_version, api.max_version) for api in own}
        self._ids: list[UUID] = [*watch.renew(TOPICS), *self._entrance.hidden_ids]
        self._sent: deque[tuple[int, bytes]] = deque(maxlen=REMEMBERED)  # by the port used
        self.figures = Figures()

    def round(self, number: int) -> None:
        random = Random(f"{self._seed} {number}")
        generator = Generator(random, self._versions, self._ids)
        pipelines = [self._pipeline(random, generator) for _ in range(CONNECTIONS)]
        with ExitStack() as stack:
            opened = [stack.enter_context(self._send(pipeline)) for pipeline in pipelines]
            self._look_at_replies(random, opened, pipelines)
        self.figures.rounds += 1

    def _look_at_replies(
        self, random: Random, opened: list[socket.socket], pipelines: list[bytes]
    ) -> None:
        for connection, pipeline in zip(opened, pipelines, strict=True):
            received, whole = self._receive(connection, pipeline)
            self.figures.answered_bytes += len(received)
            self.figures.connections += 1
            try:
                deep = random.random() < 0.1
                self.figures.requests += self._check(pipeline, received, whole, deep)
            except Unfit as unfit:
                raise Broken(f"{unfit}; sent was {pipeline.hex()}") from unfit

    def _check(self, pipeline: bytes, received: bytes, whole: bool, deep: bool) -> int:
        for each in self._entrance.hidden:
            if each in received:
                raise Unfit(f"a reply has {each!r}, which is hidden: {received.hex()}")
        if not self._entrance.logged_in:
            return check_before_login(pipeline, received)
        dealt = check(pipeline, received, whole=whole, deep=deep)
        if not self._entrance.login:
            return dealt
        # A connection that is reset, or closed on half a request, loses replies.
        if whole and received:
            logins.check_success(received)
            self.figures.logins += 1
        return max(0, dealt - logins.REQUESTS)

    def _pipeline(self, random: Random, generator: Generator) -> bytes:
        parts = [self._entrance.login]
        for _ in range(random.choice((1, 2, 4, 8))):
            if not self._entrance.logged_in and random.random() < 0.7:
                parts.append(logins.login_request(random))
                continue
            recorded = random.random() < 0.25
            body = random.choice(self._corpus) if recorded else generator.request()
            # By its correlation id, a reply is known from that to a request without an answer.
            body = body[:4] + random.randbytes(4) + body[8:]
            if random.random() < 0.6:
                body = mutated(body, random)
            if not too_generous(body):
                parts.append(framed(body))
        if random.random() < 0.1:
            parts.append(misframed(generator.request(), random))
        if random.random() < 0.02:
            parts.append(random.randbytes(random.randrange(1, 300)))
        return b"".join(parts)

    def _send(self, pipeline: bytes) -> socket.socket:
        connection = socket.create_connection(self._address, timeout=TIMEOUT_S)
        self._sent.append((connection.getsockname()[1], pipeline))
        try:
            connection.sendall(pipeline)
            connection.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError):
            pass
        except OSError as error:
            if error.errno != 107:  # not connected any more
                raise
        return connection

    def _receive(self, connection: socket.socket, pipeline: bytes) -> tuple[bytes, bool]:
        """What came, and whether the broker closed in good order after it."""
        received = bytearray()
        whole = True
        try:
            while piece := connection.recv(1 << 18):
                received += piece
        except ConnectionResetError:
            whole = False  # it closed with requests unread; the last reply may be cut
        except TimeoutError:
            raise Broken(
                f"neither answered nor closed in {TIMEOUT_S} s: {pipeline.hex()}"
            ) from None
        finally:
            connection.close()
        return bytes(received), whole

    def look(self, number: int) -> None:
        """Everything that must hold, and tidying up."""
        try:
            self._watch.check_alive()
            if number % SERVICE_EVERY == 0:
                self._watch.check_service()
                self._watch.check_log()
            if number % RENEW_EVERY == 0:
                self._ids = [*self._watch.renew(TOPICS), *self._entrance.hidden_ids]
        except (Broken, OSError) as broken:
            raise Broken(f"{broken}\n{self._diagnosis(str(broken))}") from broken

    def _diagnosis(self, text: str) -> str:
        """What the peers named in a complaint had sent."""
        ports = {int(port) for port in _PEER.findall(text)}
        lines = [f"port {port} sent {data.hex()}" for port, data in self._sent if port in ports]
        return "\n".join(lines) or "\n".join(
            f"port {port} sent {data.hex()}" for port, data in list(self._sent)[-CONNECTIONS:]
        )


def fuzz(requests: int, seed: int, say: Callable[[str], None]) -> Figures:
    """Broken names the seed and the round."""
    with tempfile.TemporaryDirectory(prefix="barnabas-fuzz-") as directory:
        log = Path(directory) / "broker.log"
        # Logs that are deleted go at once, and an idle connection is not what is tested here.
        broker = BrokerProcess(None, {"num.partitions": "1"}, log=log).start()
        watch = Watch(broker, log)
        try:
            return run_fuzz(broker, watch, requests, seed, say)
        finally:
            watch.close()
            if broker.is_running():
                broker.stop()


def run_fuzz(
    broker: BrokerProcess,
    watch: Watch,
    requests: int,
    seed: int,
    say: Callable[[str], None],
    entrance: Entrance | None = None,
) -> Figures:
    running = Fuzz(broker, watch, seed, entrance)
    figures = running.figures
    started = time.monotonic()
    number = 0
    steps = max(requests // 20, 1)
    while figures.requests < requests:
        number += 1
        try:
            running.round(number)
            running.look(number)
        except Broken as broken:
            raise Broken(f"seed {seed}, round {number}: {broken}") from broken
        if figures.requests >= steps * (len(figures.rss) + 1):
            figures.rss.append(watch.rss())
            took = time.monotonic() - started
            say(
                f"{figures.requests} requests, {figures.requests / took:.0f} a second,"
                f" {figures.rss[-1] // MIB} MiB"
            )
    running.look(0)
    figures.took_s = time.monotonic() - started
    figures.served_s_max = watch.served_s_max
    return figures


def check_flat(rss: list[int], allowance: int = 24 * MIB) -> None:
    """Once warm (a quarter of the way), memory must not go on growing."""
    warm = max(rss[: max(len(rss) // 4, 1)])
    end = max(rss[-max(len(rss) // 4, 1) :])
    if end > warm + allowance:
        series = ", ".join(str(each // MIB) for each in rss)
        raise Broken(f"memory grew from {warm // MIB} to {end // MIB} MiB: {series}")

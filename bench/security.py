"""The suite "security": what logins, access rules and quotas cost, and whom a flood delays.

In: a broker of ours with a listener SASL_SSL. Out: tables of Barnabas alone.
Always: floods come from a process of their own, and latencies are measured on a connection that
logged in before; all are on this machine, and share its cores.
"""

import json
import resource
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from statistics import median, quantiles
from struct import unpack
from typing import Any, TypeVar

import barnabas.sync
from barnabas.security.acl.decisions import AclDecisions
from barnabas.security.acl.rules import (
    AclOperation,
    AclResourceType,
    AclRule,
    PatternType,
    Permission,
    ResourcePattern,
)
from barnabas.security.principal import USER as USER_KIND
from barnabas.security.principal import Principal
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.frames import read_response, request_frame
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from bench import proc
from bench.figures import Goal, Row, Table
from bench.sides import directory
from bench.suite import Settings, Suite, say
from tests.compat.sasl_brokers import PASSWORD, USER, SaslProcess, sasl_brokers
from tests.support.certificates import Pki, new_pki

CONNECTIONS, CONNECTIONS_QUICK = 10_000, 500
SPARE = 500
RULES = 10_000
FLOOD_S, FLOOD_S_QUICK = 15.0, 3.0
HEARTBEAT_EVERY_S = 0.005
QUOTA_S, QUOTA_S_QUICK = 30.0, 5.0
LIMIT = 2_000_000  # bytes per second of the throttled client
FLOODS = ("handshakes", "half handshakes", "failed logins")
OPTIONS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:broker;User:{USER}",
    "max.connections": "100000",
    "group.initial.rebalance.delay.ms": "0",
}
R = TypeVar("R", bound=ProtocolMessage)


@dataclass(frozen=True)
class SecuredBroker:
    process: SaslProcess
    pki: Pki

    @property
    def address(self) -> tuple[str, int]:
        return self.process.host, self.process.port

    def options(self) -> dict[str, str]:
        return {
            "bootstrap.servers": self.process.bootstrap_servers,
            "security.protocol": "SASL_SSL",
            "ssl.truststore.location": self.pki.path("ca.pem"),
            "sasl.mechanism": "PLAIN",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
        }


@contextmanager
def _running() -> Iterator[SecuredBroker]:
    with directory("ram") as base:
        pki = new_pki(base / "certificates")
        with sasl_brokers(base, 1, {**pki.broker(), **OPTIONS}, "SASL_SSL") as process:
            yield SecuredBroker(process, pki)


class LoggedIn:
    """A connection that has logged in by PLAIN; one request at a time."""

    def __init__(self, address: tuple[str, int], context: ssl.SSLContext) -> None:
        plain = socket.create_connection(address, timeout=60)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = context.wrap_socket(plain, server_hostname="localhost")
        self.call(SaslHandshakeRequest(mechanism="PLAIN"), 1, SaslHandshakeResponse)
        token = f"\0{USER}\0{PASSWORD}".encode()
        answer = SaslAuthenticateRequest(auth_bytes=token)
        if self.call(answer, 2, SaslAuthenticateResponse).error_code:
            raise ConnectionError("the login failed")

    def call(self, request: ProtocolMessage, version: int, answer: type[R]) -> R:
        self._socket.sendall(request_frame(request.api_key, version, 1, "bench", request))
        (size,) = unpack(">i", self._exactly(4))
        _, response = read_response(self._exactly(size), request.api_key, version)
        assert isinstance(response, answer)
        return response

    def _exactly(self, count: int) -> bytes:
        received = b""
        while len(received) < count:
            piece = self._socket.recv(count - len(received))
            if not piece:
                raise ConnectionResetError("the broker closed the connection")
            received += piece
        return received

    def close(self) -> None:
        self._socket.close()


def _trusting(broker: SecuredBroker) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=broker.pki.path("ca.pem"))


def _connections(quick: bool) -> Table:
    count = CONNECTIONS_QUICK if quick else CONNECTIONS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < count + SPARE:
        note = f"{hard} open files are allowed (ulimit -n)"
        return Table("Idle connections", [Row("memory", "MB", None, None, None, note=note)])
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        with _running() as broker, ExitStack() as held:
            context = _trusting(broker)
            started, cpu = time.monotonic(), proc.cpu_s(broker.process.pid)
            for _ in range(count):
                held.callback(LoggedIn(broker.address, context).close)
            seconds = time.monotonic() - started
            cpu_ms = (proc.cpu_s(broker.process.pid) - cpu) / count * 1000
            memory = proc.rss_mb(broker.process.pid)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return Table(
        f"{count:,} connections that have logged in, idle",
        [
            Row("memory of the broker", "MB", memory, None, None, Goal(most=400), plain=True),
            Row("handshake and login", "broker CPU ms", cpu_ms, None, None),
            Row("one after another", "connections/s", count / seconds, None, None),
        ],
    )


def _latencies(beat: Callable[[], object], seconds: float, every_s: float) -> list[float]:
    """Milliseconds; the next one begins when it is due, or late if the last took longer."""
    found = []
    end = time.monotonic() + seconds
    due = time.monotonic()
    while (now := time.monotonic()) < end:
        if now < due:
            time.sleep(due - now)
        began = time.monotonic()
        beat()
        found.append((time.monotonic() - began) * 1000)
        due = max(due + every_s, time.monotonic())
    return found


def _p99(values: list[float]) -> float:
    return quantiles(values, n=100)[98]


@contextmanager
def _flooding(broker: SecuredBroker, kind: str) -> Iterator[Callable[[], int]]:
    """How many connections it has made, when asked at the end."""
    host, port = broker.address
    arguments = json.dumps([kind, host, port, broker.pki.path("ca.pem")])
    flood = subprocess.Popen(
        [sys.executable, "-m", "bench.flood", arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert flood.stdin is not None
    assert flood.stdout is not None
    output = flood.stdout
    output.readline()  # it has begun

    def count() -> int:
        assert flood.stdin is not None
        flood.stdin.close()
        return int(output.readline())

    try:
        yield count
    finally:
        flood.kill()
        flood.wait()
        output.close()


def _floods(quick: bool) -> Table:
    seconds = FLOOD_S_QUICK if quick else FLOOD_S
    rows = []
    with _running() as broker:
        client = LoggedIn(broker.address, _trusting(broker))
        request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")

        def beat() -> None:
            client.call(request, 4, HeartbeatResponse)

        # The first ones wait until the group coordinator is loaded.
        _latencies(beat, 2.0, HEARTBEAT_EVERY_S)
        for kind in (None, *FLOODS):
            say(f"  heartbeats, {kind or 'no flood'}")
            if kind is None:
                found, made = _latencies(beat, seconds, HEARTBEAT_EVERY_S), 0
            else:
                with _flooding(broker, kind) as count:
                    began = time.monotonic()
                    found = _latencies(beat, seconds, HEARTBEAT_EVERY_S)
                    made = int(count() / (time.monotonic() - began))
            what = "no flood" if kind is None else f"{made:,} {kind} a second"
            goal = None if kind is None else Goal(most=50)
            rows += [
                Row(f"heartbeat, {what}", "p50 ms", median(found), None, None),
                Row(f"heartbeat, {what}", "p99 ms", _p99(found), None, None, goal, plain=True),
            ]
        client.close()
    return Table("A connection that has logged in, during floods of others", rows)


def _rules() -> Table:
    """The decision alone, as a handler asks for it."""
    alice = Principal(USER_KIND, "alice")

    def rule(number: int) -> AclRule:
        kind = PatternType.PREFIXED if number % 3 == 0 else PatternType.LITERAL
        pattern = ResourcePattern(AclResourceType.TOPIC, f"topic-{number}", kind)
        who = "User:alice" if number % 2 else f"User:user-{number}"
        return AclRule(pattern, who, "*", AclOperation.READ, Permission.ALLOW)

    decisions = AclDecisions(rules=[rule(number) for number in range(RULES)])
    ask = decisions.is_allowed
    what: Any = (alice, "10.0.0.1", AclOperation.READ, AclResourceType.TOPIC, "topic-5001")

    def cached() -> float:
        began = time.perf_counter()
        for _ in range(100_000):
            ask(*what)
        return (time.perf_counter() - began) / 100_000 * 1e6

    def computed() -> float:
        spent = 0.0
        for number in range(2_000):
            decisions.cache.clear()
            began = time.perf_counter()
            ask(alice, "10.0.0.1", AclOperation.READ, AclResourceType.TOPIC, f"topic-{number}")
            spent += time.perf_counter() - began
        return spent / 2_000 * 1e6

    return Table(
        f"A decision with {RULES:,} access rules",
        [
            Row(
                "of a client and topic that asked before",
                "µs",
                min(cached() for _ in range(5)),
                None,
                None,
                Goal(most=1),
                plain=True,
            ),
            Row(
                "the first of a client and topic",
                "µs",
                min(computed() for _ in range(5)),
                None,
                None,
                Goal(most=20),
                plain=True,
            ),
        ],
    )


def _quotas(quick: bool) -> Table:
    """One client is over its quota all the time; another sends small requests."""
    seconds = QUOTA_S_QUICK if quick else QUOTA_S
    with _running() as broker, barnabas.sync.Admin(broker.options()) as admin:
        for topic in ("noisy", "other"):
            admin.create_topic(topic, partitions=1)
        admin.alter_quota({"client-id": "noisy"}, {"producer_byte_rate": float(LIMIT)})
        settings = {**broker.options(), "client.id": "other", "linger.ms": "0"}
        with barnabas.sync.Producer(settings) as producer:

            def send() -> None:
                producer.send("other", b"x" * 100)

            _latencies(send, 2.0, HEARTBEAT_EVERY_S)
            rounds: list[tuple[list[float], list[float]]] = []
            rates = []
            for _ in range(3):
                alone = _latencies(send, seconds / 3, HEARTBEAT_EVERY_S)
                with _flooding(broker, "produce") as count:
                    began = time.monotonic()
                    beside = _latencies(send, seconds, HEARTBEAT_EVERY_S)
                    rates.append(count() / (time.monotonic() - began) / LIMIT)
                rounds.append((alone, beside))
    alone_p99 = median(_p99(alone) for alone, _ in rounds)
    beside_p99 = median(_p99(beside) for _, beside in rounds)
    return Table(
        f"A producer that would send more than its quota of {LIMIT // 1_000_000} MB/s, and another",
        [
            Row("the other, alone", "p99 ms", alone_p99, None, None),
            Row("the other, beside it", "p99 ms", beside_p99, None, None),
            Row(
                "beside it to alone",
                "ratio",
                beside_p99 / alone_p99,
                None,
                None,
                Goal(most=1.1),
                plain=True,
            ),
            Row("rate to quota", "ratio", median(rates), None, None),
        ],
    )


PARTS: dict[str, Callable[[bool], Table]] = {
    "connections": _connections,
    "floods": _floods,
    "rules": lambda _: _rules(),
    "quotas": _quotas,
}


def _run(settings: Settings) -> list[Table]:
    return [make(settings.quick) for name, make in PARTS.items() if settings.wants(name)]


SUITE = Suite(
    name="security",
    title="Logins, access rules and quotas",
    how=(
        "Barnabas alone, on a RAM-backed directory. Clients log in over SASL_SSL with PLAIN, which "
        "costs a client less than SCRAM. A flood comes from a process with eight threads. A "
        f"heartbeat is sent every {HEARTBEAT_EVERY_S * 1000:.0f} ms, on one connection."
    ),
    parts=tuple(PARTS),
    run=_run,
)

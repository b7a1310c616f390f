"""The suite "tls": records in and out over TLS, beside Apache Kafka with the same certificates.

In: a running side with a listener that encrypts, and a scale. Out: one `Sample` per measurement.
Always: both brokers have the same key, certificate and versions of TLS, and the same client.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench import free_memory, librdkafka
from bench.figures import CPU, RECORDS_PER_S, Goal, Ratios, Sample, Samples, Table
from bench.sides import DELETE_SOON, KAFKA, Side, directory
from bench.suite import PLACES, Pace, Settings, Suite, Workload, drive, rows_of, say
from tests.ports import free_ports
from tests.process import KEPT, BrokerProcess
from tests.support.certificates import Pki, new_pki
from tests.support.kafka import running_kafka

CONSUME_PASSES = 3
_NEVER = "a side of another suite"


@dataclass
class EncryptedSide(Side):
    """`servers`: the listener with TLS; topics are created on the plain one."""

    servers: str = _NEVER
    trust: dict[str, str] = field(default_factory=dict)


class TwoListeners(BrokerProcess):
    """`barnabas up` with a second listener."""

    encrypted_port = 0

    def command(self) -> list[str]:
        return [*super().command(), "--listen", f"SSL://127.0.0.1:{self.encrypted_port}"]


def _broker_options(pki: Pki) -> dict[str, str]:
    return {
        **DELETE_SOON,
        "ssl.keystore.location": pki.path("server.pem"),
        "ssl.keystore.type": "PEM",
    }


@contextmanager
def _running(names: list[str], base: Path) -> Iterator[list[Side]]:
    pki = new_pki(base / "certificates")
    trust = {"security.protocol": "SSL", "ssl.ca.location": pki.path("ca.pem")}
    with ExitStack() as up:
        sides: list[Side] = []
        for name in names:
            plain, encrypted, controller = free_ports(3)
            home = base / name
            if name == KAFKA:
                options = {
                    **_broker_options(pki),
                    "listeners": f"PLAINTEXT://127.0.0.1:{plain},SSL://127.0.0.1:{encrypted},"
                    f"CONTROLLER://127.0.0.1:{controller}",
                    "advertised.listeners": f"PLAINTEXT://127.0.0.1:{plain},"
                    f"SSL://127.0.0.1:{encrypted}",
                    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,"
                    "SSL:SSL",
                    "controller.quorum.voters": f"1@127.0.0.1:{controller}",
                }
                pid = up.enter_context(running_kafka(home, options, port=plain)).pid
            else:
                home.mkdir(parents=True)
                ours = TwoListeners(
                    home / "data",
                    {**KEPT, **_broker_options(pki)},
                    port=plain,
                    log=home / "broker.log",
                )
                ours.encrypted_port = encrypted
                ours.start()
                up.callback(ours.stop)
                pid = ours.pid
            at = f"127.0.0.1:{encrypted}"
            sides.append(EncryptedSide(name, f"127.0.0.1:{plain}", pid, at, trust))
        yield sides


def _sample(side: Side, records: int, cpu_before: float, seconds: float) -> Sample:
    return {RECORDS_PER_S: records / seconds, CPU: (side.cpu_s() - cpu_before) / records * 1e6}


def _exchange(label: str, record_bytes: int, records: int) -> Workload:
    produced, consumed = f"produce {label}", f"consume {label}"

    def run(side: Side, scale: float) -> Iterator[Samples]:
        assert isinstance(side, EncryptedSide)
        count = int(records * scale)
        with side.topic() as topic:
            free_memory.touch()
            cpu = side.cpu_s()
            options = {**librdkafka.PRODUCE_LARGE_BATCHES, **side.trust}
            seconds = librdkafka.produce(side.servers, topic, count, record_bytes, options)
            yield {produced: _sample(side, count, cpu, seconds)}
            free_memory.touch()
            for _ in range(CONSUME_PASSES):
                cpu = side.cpu_s()
                options = {**librdkafka.CONSUME, **side.trust}
                seconds = librdkafka.consume(side.servers, topic, count, options)
                yield {consumed: _sample(side, count, cpu, seconds)}

    return Workload(f"tls-{label.replace(' ', '')}", (produced, consumed), run)


WORKLOADS = (_exchange("1 KB", 1_000, 500_000), _exchange("100 B", 100, 2_000_000))

GOALS: Ratios = {
    (f"{verb} {label}", figure): goal
    for verb in ("produce", "consume")
    for label in ("1 KB", "100 B")
    for figure, goal in ((RECORDS_PER_S, Goal(least=1.2)), (CPU, Goal(most=0.6)))
}

FULL = Pace(rounds=6, warm_up_passes=6, scale=1.0, places=("ram",))
QUICK = Pace(rounds=2, warm_up_passes=3, scale=0.2, places=("ram",))


def _run(settings: Settings) -> list[Table]:
    chosen = [workload for workload in WORKLOADS if settings.wants(workload.name)]
    pace = QUICK if settings.quick else FULL
    tables = []
    for place in (settings.places or pace.places) if chosen else ():
        say(PLACES[place])
        with directory(place) as base, _running(list(settings.sides), base) as sides:
            compared = drive(sides, chosen, pace, settings.rounds or pace.rounds)
        tables.append(Table(PLACES[place], rows_of(chosen, compared, GOALS)))
    return tables


SUITE = Suite(
    name="tls",
    title="One broker: records in and out over TLS",
    how=(
        f"{FULL.rounds} interleaved rounds after {FULL.warm_up_passes} warm-up rounds, as in the "
        "suite of one broker: librdkafka without Python, full batches, new topics of one "
        "partition. Both brokers have the same P-256 certificate, and the client chooses TLS 1.3 "
        "with AES-256-GCM."
    ),
    parts=tuple(workload.name for workload in WORKLOADS),
    run=_run,
)

"""Brokers that clients must log in to, and the options with which each library does."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from barnabas.cli.security import stored_users
from barnabas.security.sasl.mechanism import SCRAMS
from tests.ports import free_ports_from
from tests.process import KEPT, BrokerProcess

USER, PASSWORD = "alice", "canary =,\"' 7f3a"
ODD_USER = "a=b,c"
BROKER_PASSWORD = "canary-between-brokers"
ATTEMPTS = 3
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def quoted_password() -> str:
    """As sasl.jaas.config has it."""
    return PASSWORD.replace("\\", "\\\\").replace('"', '\\"')


def client_jaas(mechanism: str, user: str = USER) -> str:
    module = _PLAIN if mechanism == "PLAIN" else _SCRAM
    return f'{module} required username="{user}" password="{quoted_password()}";'


def _in_properties(value: str) -> str:
    return value.replace("\\", "\\\\")


class SaslProcess(BrokerProcess):
    """`barnabas up` with a listener that requires a login, on a file of options."""

    file: Path
    count = 1
    protocol = "SASL_PLAINTEXT"

    def command(self) -> list[str]:
        return [
            *(sys.executable, "-m", "barnabas", "up", "--data", str(self.data)),
            *("--listen", f"{self.protocol}://127.0.0.1:{self.port}", "-F", str(self.file)),
            *(("--brokers", str(self.count)) if self.count > 1 else ()),
        ]


class SaslCluster(SaslProcess):
    """Three of them."""

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"127.0.0.1:{self.port + number}" for number in range(self.count))


@contextmanager
def sasl_brokers(
    directory: Path,
    count: int = 1,
    options: Mapping[str, str] | None = None,
    protocol: str = "SASL_PLAINTEXT",
) -> Iterator[SaslProcess]:
    """Running, with users that were made before the first start."""
    listener = f"listener.name.{protocol.lower()}"
    data = directory / "data"
    with stored_users.opened(str(data), None) as keeper:
        for user in (USER, ODD_USER):
            stored_users.set_password(keeper, user, PASSWORD, SCRAMS, 4096)
        stored_users.set_password(keeper, "broker", BROKER_PASSWORD, SCRAMS, 4096)
    settings = {
        **KEPT,
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        f"{listener}.scram-sha-512.sasl.jaas.config": f"{_SCRAM} required"
        f' username="broker" password="{BROKER_PASSWORD}";',
        f"{listener}.plain.sasl.jaas.config": f"{_PLAIN} required"
        f' user_{USER}="{quoted_password()}";',
        **(options or {}),
    }
    file = directory / "server.properties"
    lines = [f"{name}={_in_properties(value)}" for name, value in settings.items()]
    file.write_text("\n".join(lines) + "\n")
    kind = SaslProcess if count == 1 else SaslCluster
    port = 0 if count == 1 else free_ports_from(count)
    process = kind(data, port=port, log=directory / "broker.log")
    process.file, process.count, process.protocol = file, count, protocol
    first = port
    process.start()
    if count > 1:
        process.port = first
    try:
        yield process
    finally:
        if process.is_running():
            process.stop()


def until_nobody_was_late(broker: SaslProcess, attempt: Callable[[], object]) -> None:
    """A client that the machine starves at the end of its login is late, connects again and loses
    nothing. One that never logs in again is late at each attempt."""
    for _ in range(ATTEMPTS):
        late = broker.log.count("has expired")
        attempt()
        if broker.log.count("has expired") == late:
            return
    raise AssertionError(f"logged in too late {ATTEMPTS} times: {broker.log[-2000:]}")

"""Brokers with TLS, and with what each library connects to them."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.ports import free_ports_from
from tests.process import KEPT, BrokerProcess
from tests.support.certificates import Pki


class TlsProcess(BrokerProcess):
    """`barnabas up` with one listener, which encrypts."""

    pki: Pki
    count = 1
    protocol = "SSL"

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"127.0.0.1:{self.port + number}" for number in range(self.count))

    def command(self) -> list[str]:
        file = self._log.with_suffix(".properties")  # a command line must not have secrets
        file.write_text("".join(f"{name}={value}\n" for name, value in self._options.items()))
        return [
            *(sys.executable, "-m", "barnabas", "up", "--data", str(self.data), "-F", str(file)),
            *("--listen", f"{self.protocol}://127.0.0.1:{self.port}"),
            *(("--brokers", str(self.count)) if self.count > 1 else ()),
        ]


@contextmanager
def tls_brokers(
    directory: Path, pki: Pki, count: int = 1, options: Mapping[str, str] | None = None
) -> Iterator[TlsProcess]:
    """Running; clients must have a certificate."""
    settings = {**KEPT, **pki.broker("required"), **(options or {})}
    port = 0 if count == 1 else free_ports_from(count)
    process = TlsProcess(directory / "data", settings, port=port, log=directory / "broker.log")
    process.pki, process.count = pki, count
    process.start()
    if count > 1:
        process.port = port
    try:
        yield process
    finally:
        if process.is_running():
            process.stop()

"""Runs the tests of transactions and of share groups of librdkafka and of franz-go, unchanged.

In: for librdkafka, the directory of its sources, built with its tests and with RapidJSON
(`./configure && make && make -C tests build`). Go fetches franz-go itself. Out: a line per suite,
on one broker and on three; 1 if one failed. With `--servers` another broker is tested, for example
Apache Kafka.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.process import BrokerProcess, ClusterProcess
from tests.support.cache import once, run
from tests.support.go import MODULE
from tests.support.install import program
from tests.support.java import kafka_lib

# Idempotence with many failures and timeouts, transactional consumers (with Java's producer as well
# as its own), transactional producers, and two against a broker of its own.
LIBRDKAFKA_TESTS = ("0090", "0094", "0098", "0103", "0105", "0144")
# Share consumers: subscriptions, acknowledgements, commits, concurrency, transactions, the end,
# topics that are deleted or created again, max.poll.interval.ms. The others use its own mock.
LIBRDKAFKA_SHARE_TESTS = (
    *("0170", "0171", "0172", "0173", "0174", "0175", "0176"),
    *("0177", "0178", "0179", "0180", "0181", "0184", "0185"),
)
WITHOUT_AUTO_CREATION = ("0184",)  # it deletes topics that a producer is writing to
WITH_THREE_REPLICAS = ("0098", "0103")  # of their topics
FRANZ_TESTS = (
    "TestTxnEtl",
    "TestShareGroupETL",
    "TestShareGroupAckOnClose|TestShareGroupOffsetsAdmin",
)
FRANZ_WITH_CHAOS = ("TestTxnEtl", "TestShareGroupETL")  # connections that break
SKIPPED = b"--- SKIP"  # a Go test that is skipped ends with 0
PATIENCE = 5  # times as long as the limits of librdkafka's tests, for a busy machine
SUITE_S_MAX = 1800.0
OPTIONS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.share.min.record.lock.duration.ms": "1000",
}


@dataclass(frozen=True)
class ClientSuite:
    """One program that ends with 0 if the broker behaves."""

    name: str
    command: list[str]
    where: Path
    env: Mapping[str, str] = field(default_factory=dict)
    auto_creation: bool = True  # of topics, by the broker

    def passes(self, log: Path) -> bool:
        with open(log, "wb") as out:
            done = subprocess.run(
                self.command,
                cwd=self.where,
                env={**os.environ, **self.env},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                timeout=SUITE_S_MAX,
                check=False,
            )
        return done.returncode == 0 and SKIPPED not in log.read_bytes()


def librdkafka_suites(
    sources: Path, servers: str, home: Path, replicas: int
) -> Iterator[ClientSuite]:
    """Its tests start Java's producer by the scripts of a Kafka release."""
    release = home / "kafka"
    (release / "bin").mkdir(parents=True, exist_ok=True)
    if not (release / "libs").exists():
        (release / "libs").symlink_to(kafka_lib())
    script = release / "bin" / "kafka-run-class.sh"
    script.write_text('#!/bin/bash\nexec java -cp "$CLASSPATH:$KAFKA_PATH/libs/*" "$@"\n')
    script.chmod(0o755)
    conf = home / "test.conf"
    conf.write_text(f"bootstrap.servers={servers}\ntest.timeout.multiplier={PATIENCE}\n")
    for number in (*LIBRDKAFKA_TESTS, *LIBRDKAFKA_SHARE_TESTS):
        if number in WITH_THREE_REPLICAS and replicas < 3:
            continue
        yield ClientSuite(
            f"librdkafka {number}{', share' if number in LIBRDKAFKA_SHARE_TESTS else ''}",
            ["./test-runner", "-p1"],
            sources / "tests",
            {
                "TESTS": number,
                "RDKAFKA_TEST_CONF": str(conf),
                "TEST_KAFKA_VERSION": "4.3.0",
                "KAFKA_PATH": str(release),
                "BROKERS": servers,
                "LD_LIBRARY_PATH": f"{sources / 'src'}:{sources / 'src-cpp'}",
            },
            number not in WITHOUT_AUTO_CREATION,
        )


def franz_go_suites(servers: str, home: Path, replicas: int, records: int) -> Iterator[ClientSuite]:
    """Six consumers and producers in a chain, all group protocols; share groups in a chain; then
    both with connections that break."""
    runs = [(name, "0") for name in FRANZ_TESTS] + [(name, "1") for name in FRANZ_WITH_CHAOS]
    for name, chaos in runs:
        yield ClientSuite(
            f"franz-go {name}{', with chaos' if chaos == '1' else ''}",
            [str(_franz_tests()), "-test.run", f"^({name})$", "-test.timeout", "15m", "-test.v"],
            home,
            {
                "KGO_SEEDS": servers,
                "KGO_TEST_RF": str(replicas),
                "KGO_TEST_RECORDS": str(records),
                "KGO_TEST_CHAOS": chaos,
                "KGO_LOG_LEVEL": "none",
            },
        )


def _franz_tests() -> Path:
    """The tests of the version that the other tests use, as a program."""

    def build(directory: Path) -> None:
        (directory / "go.mod").write_text(MODULE)
        (directory / "use.go").write_text(
            'package franz\n\nimport _ "github.com/twmb/franz-go/pkg/kgo"\n'
        )
        run(
            [
                program("go"),
                "test",
                "-mod=mod",
                "-c",
                "-o",
                "tests",
                "github.com/twmb/franz-go/pkg/kgo",
            ],
            cwd=directory,
            timeout_s=300,
            env={"CGO_ENABLED": "0"},
            what="the tests of franz-go",
        )

    return once("franz-tests-1.22.2", build) / "tests"


@contextmanager
def brokers(count: int, home: Path, *, auto_creation: bool = True) -> Iterator[str]:
    log = home / "broker.log"
    options = {**OPTIONS, "auto.create.topics.enable": str(auto_creation).lower()}
    if count > 1:
        broker: BrokerProcess = ClusterProcess(count, home / "data", options, log=log)
    else:
        broker = BrokerProcess(home / "data", options, log=log)
    broker.start()
    try:
        yield broker.bootstrap_servers
    finally:
        if broker.is_running():
            broker.stop()
    broker.check_log()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.compat.client_suites")
    parser.add_argument("--librdkafka", type=Path, help="its sources, built with its tests")
    parser.add_argument("--records", type=int, default=20_000, help="of franz-go's test (20000)")
    parser.add_argument("--brokers", type=int, nargs="*", default=[1, 3])
    parser.add_argument("--servers", help="of another broker, instead")
    parser.add_argument("--only", default="", help="suites whose name contains this")
    given = parser.parse_args()
    failed = 0
    for count in [1] if given.servers else given.brokers:
        for auto_creation in (True, False):
            failed += run_suites(given, count, auto_creation=auto_creation)
    return 1 if failed else 0


def run_suites(given: argparse.Namespace, count: int, *, auto_creation: bool) -> int:
    """How many failed of those for such brokers."""
    failed = 0
    home = Path(tempfile.mkdtemp(prefix="barnabas-suites-"))
    with ExitStack() as stack:
        servers = given.servers or stack.enter_context(
            brokers(count, home, auto_creation=auto_creation)
        )
        replicas = min(servers.count(",") + 1, 3)
        suites = list(franz_go_suites(servers, home, replicas, given.records))
        if given.librdkafka is not None:
            suites += librdkafka_suites(given.librdkafka.resolve(), servers, home, replicas)
        for suite in suites:
            if given.only not in suite.name or suite.auto_creation != auto_creation:
                continue
            log = home / f"{suite.name.replace(' ', '-')}.log"
            began = time.monotonic()
            passed = suite.passes(log)
            failed += not passed
            where = "" if passed else f": {log}"
            print(
                f"{count} brokers  {suite.name}: {'passed' if passed else 'FAILED'}"
                f" ({time.monotonic() - began:.0f} s){where}",
                flush=True,
            )
    if not failed:
        shutil.rmtree(home)
    return failed


if __name__ == "__main__":
    sys.exit(main())

"""Ten thousand partitions in three brokers: creation, restarts and failover, with clients that
retry.

In: the number of partitions. Out: a table for Barnabas alone: the time of each step, the memory of
the brokers, and that no client got an error.
Always: librdkafka's producer and consumer and our own run all the time; a step ends when every
broker is up and every replica is in sync.
"""

import os
import signal
import time
from collections.abc import Callable

from bench import proc
from bench.failover import BROKERS, Running, signal_and_measure, wait_whole
from bench.figures import Goal, Row, Table
from bench.sides import BARNABAS, directory
from bench.suite import say
from tests.cluster.crowd import Crowd
from tests.cluster.load import Violation
from tests.cluster.many import REPLICATED, Address, create, numbered
from tests.process import ClusterProcess

PARTITIONS, PARTITIONS_QUICK = 10_000, 1_000
TOPICS = 10  # that they are spread over
VICTIM, RESTARTED = 3, 2
GONE_S_MAX = 60.0


class _Steps:
    """Measures each step until all replicas are in sync again."""

    def __init__(self, cluster: ClusterProcess, total: int) -> None:
        self.names = [f"many-{number}" for number in range(TOPICS)]
        self.address: Address = (cluster.host, cluster.port)
        self.rows: list[Row] = []
        self._cluster = cluster
        self._total = total

    def step(self, what: str, do: Callable[[], None]) -> None:
        say(f"  {what}")
        started = time.monotonic()
        do()
        wait_whole(self.address, self.names, self._total)
        seconds = time.monotonic() - started
        memory_mb = proc.rss_mb(self._cluster.pid)
        say(f"  {seconds:.1f} s, {memory_mb:.0f} MB")
        self.rows.append(Row(f"{what}: all in sync", "s", seconds, None, None))
        self.rows.append(Row(what, "memory MB, all brokers", memory_mb, None, None))

    def create(self) -> None:
        for name in self.names:
            create(self.address, name, self._total // TOPICS)

    def kill(self) -> None:
        running = Running(BARNABAS, numbered(self._cluster))
        taken = signal_and_measure(running, self.address, set(self.names), VICTIM)
        say(f"  {len(taken)} led by others: first {taken[0]:.2f} s, last {taken[-1]:.2f} s")
        self.rows.append(
            Row("the last of its partitions takes records", "s", taken[-1], None, None)
        )

    def restart_one(self) -> None:
        process = numbered(self._cluster)[RESTARTED]
        os.kill(process, signal.SIGTERM)
        deadline = time.monotonic() + GONE_S_MAX
        while os.path.exists(f"/proc/{process}") and time.monotonic() < deadline:
            time.sleep(0.01)

    def restart_all(self) -> None:
        self._cluster.stop()
        self._cluster.start()


def many_partitions(quick: bool) -> Table:
    total = PARTITIONS_QUICK if quick else PARTITIONS
    say(f"{total} partitions in {BROKERS} brokers")
    with directory("ram") as base:
        home = base / "many"
        home.mkdir()
        cluster = ClusterProcess(BROKERS, home / "data", REPLICATED, log=home / "log")
        cluster.start()
        steps = _Steps(cluster, total)
        crowd = None
        errors, taken = 0, 0
        try:
            steps.step("created", steps.create)
            places = [(name, n) for name in steps.names for n in range(total // TOPICS)]
            crowd = Crowd(cluster.bootstrap_servers, places)
            crowd.start()
            crowd.go_on()
            for what, do in (
                ("one broker restarted", steps.restart_one),
                ("one broker killed with -9", steps.kill),
                ("all brokers restarted", steps.restart_all),
            ):
                steps.step(what, do)
                crowd.go_on()
            taken = crowd.finish()
        except Violation as problem:  # a client got an error, or a record is lost
            say(f"  {problem}")
            errors = 1
        finally:
            if crowd is not None:
                crowd.abandon()
            if cluster.is_running():
                cluster.stop()
    rows = [
        *steps.rows,
        Row(
            "errors reported to clients, records lost",
            "",
            errors,
            None,
            None,
            Goal(most=0),
            plain=True,
        ),
        Row("records written and read meanwhile", "records", float(taken), None, None),
    ]
    return Table(f"{total:,} partitions in three brokers, clients that retry", rows)

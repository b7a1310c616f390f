"""Brokers, a writer that never stops, a driver with its pipelines, and how they are killed."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from random import Random
from threading import Event, Thread

from confluent_kafka import Producer

from barnabas.client.blocking.admin import Admin
from barnabas.client.consumer.offset_lookup import Committed
from barnabas.model.ids import TopicPartition as At
from tests.process import BrokerProcess, running_broker
from tests.spark.kills import truth
from tests.support.cache import ROOT
from tests.support.kafka import kafka_for_tests

TOPIC = "orders"
PARTITIONS = 3
KEYS = 40
POISON_EVERY = 7
DEAD = "orders.dlq"
READERS = "readers"
LAKES = ("parquet", "delta", "latest")
TABLES, SINK, KAFKA_SINK = "tables", "sink", "kafka-sink"
COPIES = "copies"  # the topic of the sink
_PER_S = 100
_UP_S_MAX = 240
_END_S_MAX = 300
_LAST_RUNS_MAX = 5


def descendants(pid: int) -> list[int]:
    """Children first, each with its own."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(child) for child in task.read_text().split()]
        except OSError:
            continue
        for child in children:
            found += [child, *descendants(child)]
    return found


def kill(pids: list[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


class Arena:
    """One long life of a few pipelines, on one master. `what`: lakes and mirrors, or a stream that
    writes exactly once into a topic of Barnabas or of Apache Kafka.
    """

    def __init__(
        self,
        directory: Path,
        master: str,
        random: Random,
        workers: list[int],
        what: str = TABLES,
    ) -> None:
        self._what = what
        self._lakes = LAKES if what == TABLES else ()
        self._target: BrokerProcess | None = None
        self._directory = directory
        self._master = master
        self._random = random
        self._workers = workers
        self._up = ExitStack()
        self._stop = Event()
        self._watched: list[BaseException] = []
        self._threads: list[Thread] = []
        self._driver: subprocess.Popen[bytes] | None = None
        self._log = directory / "driver.log"
        self._from = 0  # where the log of this driver begins
        self._executors_killed = 0
        self.kills: Counter[str] = Counter()

    def __enter__(self) -> "Arena":
        self._directory.mkdir(parents=True, exist_ok=True)
        here = self._up.enter_context(running_broker(self._directory / "source"))
        self.source = self.twin = here.bootstrap_servers
        if self._what == KAFKA_SINK:
            kafka = self._up.enter_context(kafka_for_tests(self._directory / "target"))
            self.target = kafka.bootstrap_servers
        else:
            self._target = self._up.enter_context(running_broker(self._directory / "target"))
            self.target = self._target.bootstrap_servers
        if self._what == TABLES:
            twin = self._up.enter_context(running_broker(self._directory / "twin"))
            self.twin = twin.bootstrap_servers
        else:
            with Admin({"bootstrap.servers": self.target}) as admin:
                admin.create_topic(COPIES, partitions=PARTITIONS)
        with Admin({"bootstrap.servers": self.source}) as admin:
            admin.create_topic(TOPIC, partitions=PARTITIONS)
        for task in (self._write, self._watch):
            self._threads.append(Thread(target=self._guarded, args=(task,), daemon=True))
            self._threads[-1].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if self._driver is not None:
            kill([self._driver.pid, *descendants(self._driver.pid)])
            self._driver.wait()
        self._up.close()

    # --- what goes on all the time ---

    def _guarded(self, task: Callable[[], None]) -> None:
        try:
            task()
        except BaseException as problem:
            self._watched.append(problem)

    def _write(self) -> None:
        producer = Producer({"bootstrap.servers": self.source, "linger.ms": 5})
        number = 0
        while not self._stop.wait(0.1):
            for _ in range(_PER_S // 10):
                key = number % KEYS
                value = b"poison %d" if number % POISON_EVERY == 0 else b'{"number": %d}'
                producer.produce(
                    TOPIC, value % number, key=b"key %d" % key, partition=key % PARTITIONS
                )
                number += 1
            producer.poll(0)
        assert producer.flush(60) == 0

    def _watch(self) -> None:
        """Groups are looked at while everything runs, and while nothing does."""
        while not self._stop.wait(0.2):
            for lake in self._lakes:
                checkpoint = self._directory / f"state-{lake}" / "lake"
                truth.check_group(self.source, f"lake-{lake}", checkpoint)

    # --- a round ---

    def round(self) -> str:
        """Somebody is killed; what must be true is looked at."""
        if self._driver is None or self._driver.poll() is not None:
            self._start("300ms")
        self._move_readers()
        kinds = ["driver", "driver", "executor"]
        whom = self._random.choice(kinds + ["broker"] * (self._what == SINK))
        if whom != "driver" or self._random.random() < 0.75:
            self._await_batches(self._random.randint(1, 8))
            time.sleep(self._random.random())
        else:
            time.sleep(self._random.random() * 10)  # it may still be starting
        kills = {
            "driver": self._kill_driver,
            "executor": self._kill_executor,
            "broker": self._kill_broker,
        }
        said = kills[whom]()
        self.kills[said] += 1
        self.check(whole=False)
        return said

    def _kill_driver(self) -> str:
        driver = self._driver
        assert driver is not None
        family = descendants(driver.pid)
        way = self._random.choice(["all", "python", "java"])
        kill({"all": [driver.pid, *family], "python": [driver.pid], "java": family[:1]}[way])
        if way == "java":
            kill([driver.pid])  # it is of no use any more
        driver.wait()
        self._driver = None
        return f"driver ({way})"

    def _kill_executor(self) -> str:
        driver = self._driver
        assert driver is not None
        executors = [each for worker in self._workers for each in descendants(worker)]
        if not self._workers:  # local: Java's children, which run what is Python
            executors = descendants(driver.pid)[1:]
        if executors:
            kill([self._random.choice(executors)])
        self._executors_killed += 1
        return "executor"

    def _kill_broker(self) -> str:
        assert self._target is not None
        self._target.restart()
        self._executors_killed += 1  # a batch may fail
        return "broker"

    def check(self, *, whole: bool) -> None:
        if self._watched:
            raise self._watched[0]
        if self._what != TABLES:
            copies = truth.committed_values(self.target, COPIES)
            truth.check_sink(copies, truth.read(self.source, TOPIC), whole=whole)
            return
        columns = ("_partition", "_offset", "value")
        good = truth.parquet_rows(self._directory / "lake-parquet")
        bad = truth.dead_rows(self.source, DEAD)
        every = truth.delta_rows(self._directory / "lake-delta", columns)
        source = truth.read(self.source, TOPIC)  # after the lakes: it has all that is there
        truth.check_lake("parquet and dead letters", good + bad, source, whole=whole)
        truth.check_lake("delta", every, source, whole=whole)  # type: ignore[arg-type]
        if whole:
            latest = truth.delta_rows(self._directory / "lake-latest", ("key", "value"))
            truth.check_latest("latest", latest, truth.read(self.source, TOPIC))
        truth.check_mirror(self.source, self.target, TOPIC, READERS, whole=whole)
        truth.check_identical(self.source, self.twin, TOPIC, whole=whole)

    def finish(self) -> int:
        """All is read to the end, and looked at; how many records there were."""
        if self._driver is not None:
            self._kill_driver()
        self._stop.set()
        for thread in self._threads:
            thread.join()
        for _ in range(_LAST_RUNS_MAX):
            self._start("available_now")
            driver = self._driver
            assert driver is not None
            deadline = time.monotonic() + _END_S_MAX
            while driver.poll() is None and time.monotonic() < deadline:
                time.sleep(0.1)
            if driver.poll() == 0:
                break
            # A crowded machine may not start Spark's processes in the time that Spark gives them.
            self._kill_driver()
        else:
            raise truth.Untrue(f"no last run ended well:\n{self._tail()}")
        self.check(whole=True)
        for lake in self._lakes:
            checkpoint = self._directory / f"state-{lake}" / "lake"
            truth.check_group(self.source, f"lake-{lake}", checkpoint)
        return sum(map(len, truth.read(self.source, TOPIC).values()))

    # --- the driver ---

    def _specs(self, trigger: str) -> list[Path]:
        import yaml

        found = []
        source = {"servers": self.source, "topics": [TOPIC]}
        documents: dict[str, dict[str, object]] = {}
        if self._what != TABLES:
            documents["sink"] = self._sink_document(trigger)
        for lake in self._lakes:
            sink = {
                "format": "parquet" if lake == "parquet" else "delta",
                "path": str(self._directory / f"lake-{lake}"),
                "keep": "latest" if lake == "latest" else "all",
            }
            run = {"trigger": trigger, "checkpoint": str(self._directory / f"state-{lake}")}
            documents[f"lake-{lake}"] = {"kind": "lake", "sink": sink, "run": run}
        # Each record is good or bad, and in exactly one place.
        if self._what == TABLES:
            documents["lake-parquet"]["errors"] = {"dlq": DEAD}
            documents["lake-parquet"]["source"] = {"format": "json", "schema": "number long"}
        mirrors = (("mirror", self.target, "translated"), ("mirror-twin", self.twin, "identical"))
        for name, servers, offsets in mirrors if self._what == TABLES else ():
            sink = {"servers": servers, "offsets": offsets}
            documents[name] = {"kind": "mirror", "sink": sink, "run": {"trigger": trigger}}
        for name, document in documents.items():
            options = {"kafka.client.id": name}  # of one process, but not of one connection
            path = self._directory / f"{name}.yml"
            read: dict[str, object] = {**source, "options": options, **document.pop("source", {})}  # type: ignore[dict-item]
            path.write_text(yaml.safe_dump({"name": name, "source": read, **document}))
            found.append(path)
        return found

    def _sink_document(self, trigger: str) -> dict[str, object]:
        sink = {"servers": self.target, "topic": COPIES, "exactly_once": True}
        run = {"trigger": trigger, "checkpoint": str(self._directory / "state-sink")}
        return {
            "kind": "stream",
            "transform": "tests.spark.kills.driver:copied",
            "sink": sink,
            "run": run,
        }

    def _start(self, trigger: str) -> None:
        if (
            self._driver is not None
            and not self._executors_killed
            and "failed to connect back" not in self._tail()  # a crowded machine
        ):
            raise truth.Untrue(f"the driver ended by itself:\n{self._tail()}")
        self._executors_killed = 0
        self._from = self._log.stat().st_size if self._log.exists() else 0
        specs = [str(path) for path in self._specs(trigger)]
        with open(self._log, "ab") as log:
            self._driver = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.kills.driver", self._master, *specs],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _await_batches(self, count: int) -> None:
        """More than there are now, or the driver has ended."""
        deadline = time.monotonic() + _UP_S_MAX
        wanted = self._batches() + count
        while self._batches() < wanted:
            if self._watched:
                raise self._watched[0]
            if self._driver is None or self._driver.poll() is not None:
                self._start("300ms")
                wanted = count
            if time.monotonic() > deadline:
                raise truth.Untrue(f"no batch in {_UP_S_MAX} s:\n{self._tail()}")
            time.sleep(0.05)

    def _said(self) -> bytes:
        with open(self._log, "rb") as log:
            log.seek(self._from)
            return log.read()

    def _batches(self) -> int:
        return self._said().count(b": batch ")

    def _tail(self) -> str:
        return self._said()[-4000:].decode(errors="replace")

    def _move_readers(self) -> None:
        with Admin({"bootstrap.servers": self.source}) as admin:
            places = [At(TOPIC, number) for number in range(PARTITIONS)]
            ends = admin.offsets(dict.fromkeys(places, -1))
            before = admin.group_offsets(READERS)
            moved = {}
            for at in places:
                least = before[at].offset if at in before else 0
                moved[at] = Committed(self._random.randint(least, max(ends[at].offset, least)))
            admin.alter_group_offsets(READERS, moved)

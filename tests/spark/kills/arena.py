"""Brokers, a writer that never stops, a driver with its pipelines, and how they are killed."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from threading import Event, Thread

from confluent_kafka import Producer

from barnabas.client.blocking.admin import Admin
from barnabas.client.consumer.offset_lookup import Committed
from barnabas.model.ids import TopicPartition as At
from tests.process import KEPT, BrokerProcess, running_broker
from tests.spark.kills import truth
from tests.spark.kills.processes import DriverProcess, descendants, kill
from tests.spark.kills.subjects import (
    COPIES,
    KAFKA_SINK,
    READERS,
    REFUSED,
    SINK,
    TOPIC,
    Pipelines,
    Subject,
)
from tests.support import kafka
from tests.support.s3 import BUCKET, S3Server
from tests.waiting import WAIT_S

PARTITIONS = 3
KEYS = 40
POISON_EVERY = 7
_PER_S = 100
_UP_S_MAX = 600  # a crowded machine
_END_S_MAX = 300
_LAST_RUNS_MAX = 5
_ROUNDS_PER_UPKEEP = 10
KINDS = ("driver", "executor", "broker", "kafka", "store", "two drivers", "checkpoint")
_NO_EXECUTOR = "started no executor"
_BACKUP = "backup"
_SECOND = "second"


class Arena:
    """One long life of the pipelines of a subject, on one master."""

    def __init__(
        self,
        directory: Path,
        master: str,
        random: Random,
        workers: list[int],
        subject: Subject,
        store: S3Server | None = None,
        only: Sequence[str] = (),
    ) -> None:
        self._only = only
        self._subject = subject
        self._store = store
        self._brokers: list[BrokerProcess] = []
        self._kafka: tuple[Path, int] | None = None
        self._kafka_broker: kafka.KafkaBroker | None = None
        self._directory = directory
        self._master = master
        self._random = random
        self._workers = workers
        self._up = ExitStack()
        self._stop = Event()
        self._watched: list[BaseException] = []
        self._threads: list[Thread] = []
        self._driver: DriverProcess | None = None
        self._second: DriverProcess | None = None
        self._may_end = False  # something was done that ends a driver
        self._has_backup = False
        self._rounds = 0
        self.kills: Counter[str] = Counter()

    def __enter__(self) -> "Arena":
        self._directory.mkdir(parents=True, exist_ok=True)
        self._up.callback(self._end_drivers)
        source = self._start_broker("source")
        targets: dict[str, str] = {}
        if SINK in self._subject.sinks:
            targets[SINK] = self._start_broker("target")
        if KAFKA_SINK in self._subject.sinks:
            self._kafka = kafka.prepare(self._directory / "kafka", KEPT)
            self._up.callback(self._stop_kafka)
            self._kafka_broker = kafka.start(*self._kafka, kafka.SHORT_LIVED)
            targets[KAFKA_SINK] = self._kafka_broker.bootstrap_servers
        for servers in targets.values():
            with Admin({"bootstrap.servers": servers}) as admin:
                admin.create_topic(COPIES, partitions=PARTITIONS)
        if self._subject.mirrors:
            targets["mirror"] = self._start_broker("target")
            targets["mirror-twin"] = self._start_broker("twin")
        self._source = source
        bucket = f"s3://{BUCKET}"
        self.pipelines = Pipelines(self._subject, self._directory, source, targets, bucket)
        with Admin({"bootstrap.servers": source}) as admin:
            admin.create_topic(TOPIC, partitions=PARTITIONS)
        for task in (self._write, self._watch):
            self._threads.append(Thread(target=self._guarded, args=(task,), daemon=True))
            self._threads[-1].start()
        return self

    def _start_broker(self, name: str) -> str:
        started = self._up.enter_context(running_broker(self._directory / name))
        self._brokers.append(started)
        return started.bootstrap_servers

    def _stop_kafka(self) -> None:
        if self._kafka_broker is not None:
            self._kafka_broker.stop()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._up.close()

    def _end_drivers(self) -> None:
        for driver in (self._driver, self._second):
            if driver is not None:
                driver.kill()

    # --- what goes on all the time ---

    def _guarded(self, task: Callable[[], None]) -> None:
        try:
            task()
        except BaseException as problem:
            self._watched.append(problem)

    def _write(self) -> None:
        producer = Producer({"bootstrap.servers": self._source, "linger.ms": 5})
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
        assert producer.flush(WAIT_S) == 0

    def _watch(self) -> None:
        """Groups are looked at while everything runs, and while nothing does."""
        while not self._stop.wait(0.2):
            self._check_groups()

    def _check_groups(self) -> None:
        if self._subject.mirrors:  # no checkpoint is ever restored there
            for lake in self._subject.lakes:
                checkpoint = self._directory / f"state-{lake}" / "lake"
                truth.check_group(self._source, f"lake-{lake}", checkpoint)

    # --- a round ---

    def round(self) -> str:
        """Something is killed; what must be true is looked at."""
        self._rounds += 1
        if self._driver is None or self._driver.exit_code is not None:
            self._start("300ms")
        self._move_readers()
        whom = self._random.choice(self._kinds())
        if whom != "driver" or self._random.random() < 0.75:
            self._await_batches(self._random.randint(1, 5))
            time.sleep(self._random.random())
        else:
            time.sleep(self._random.random() * 10)  # it may still be starting
        kills = {
            "driver": self._kill_driver,
            "executor": self._kill_executor,
            "broker": self._kill_broker,
            "kafka": self._kill_kafka,
            "store": self._kill_store,
            "two drivers": self._run_two_drivers,
            "checkpoint": self._restore_checkpoint,
        }
        said = kills[whom]()
        self.kills[said] += 1
        self.check(whole=False)
        if self._store is not None and self._rounds % _ROUNDS_PER_UPKEEP == 0:
            self.pipelines.maintain(all_=False)
        return said

    def _kinds(self) -> list[str]:
        kinds = ["driver", "driver", "executor"]
        if not self._subject.mirrors:
            kinds += ["driver", "executor", "broker", "two drivers", "checkpoint"]
        kinds += ["kafka"] * (self._kafka is not None) + ["store"] * (self._store is not None)
        if not self._only:
            return kinds
        chosen = [kind for kind in kinds if kind in self._only]
        if not chosen:
            raise ValueError(f"--kill: these pipelines have {', '.join(sorted(set(kinds)))}")
        return chosen

    def _kill_driver(self) -> str:
        assert self._driver is not None
        way = self._random.choice(["all", "python", "java"])
        self._driver.kill(way)
        self._driver = None
        if not self._subject.mirrors and self._random.random() < 0.3:
            for sinks in (True, False):
                self.pipelines.copy_checkpoints(_BACKUP, sinks=sinks)
            self._has_backup = True
        return f"driver ({way})"

    def _kill_executor(self) -> str:
        assert self._driver is not None
        executors = [each for worker in self._workers for each in descendants(worker)]
        if not self._workers:  # local: Java's children, which run what is Python
            executors = self._driver.children()[1:]
        if executors:
            kill([self._random.choice(executors)])
        self._may_end = True
        return "executor"

    def _kill_broker(self) -> str:
        self._may_end = True  # a batch may fail
        which = self._random.randrange(len(self._brokers))
        broker = self._brokers[which]
        broker.kill()
        broker.start()
        return f"broker ({'target' if which else 'source'})"

    def _kill_kafka(self) -> str:
        assert self._kafka_broker is not None
        assert self._kafka is not None
        self._may_end = True
        self._kafka_broker.process.kill()
        self._kafka_broker.process.wait()
        time.sleep(self._random.choice([0.0, 1.0, 5.0]))
        self._kafka_broker = kafka.start(*self._kafka, kafka.SHORT_LIVED)
        return "broker (Apache Kafka)"

    def _kill_store(self) -> str:
        assert self._store is not None
        self._may_end = True
        self._store.kill()
        time.sleep(self._random.choice([0.0, 1.0, 5.0]))
        self._store.start()
        return "store"

    def _run_two_drivers(self) -> str:
        """Of the same pipelines: on the same checkpoints, or with copies of those of lakes, as on
        another machine. Then one of the two is killed, and the other may have ended by itself.
        """
        self._may_end = True
        state, said = "state", "two drivers"
        if self._subject.lakes and self._random.random() < 0.5:
            state, said = _SECOND, "two drivers (copied checkpoint)"
            self.pipelines.copy_checkpoints(_SECOND, sinks=False)
        specs = self.pipelines.specs("300ms", state)
        second = self._second = self._launch(specs, "second.log")
        batches = self._random.randint(1, 5)
        deadline = time.monotonic() + _UP_S_MAX
        while second.exit_code is None and second.batches() < batches:
            if time.monotonic() > deadline:
                raise truth.Untrue(f"no batch in {_UP_S_MAX} s:\n{second.tail()}")
            time.sleep(0.05)
        if _NO_EXECUTOR in second.tail():
            raise truth.Untrue(f"the second driver did not run at the same time:\n{second.tail()}")
        if self._random.random() < 0.5 and self._driver is not None:
            self._driver.kill()
            self._driver = None
            time.sleep(self._random.random() * 2)  # the other one goes on alone
        second.kill()
        return said

    def _restore_checkpoint(self) -> str:
        """Lakes continue; a stream with an older checkpoint stops, and writes nothing twice."""
        if self._driver is not None:
            self._driver.kill()
            self._driver = None
        if self._subject.sinks and self._has_backup:
            self._start_stale_sinks()
        if not self._subject.lakes:
            return "older checkpoint"
        if not self._has_backup or self._random.random() < 0.5:
            self.pipelines.restore_checkpoints("no such copy", sinks=False)
            return "deleted checkpoint"
        self.pipelines.restore_checkpoints(_BACKUP, sinks=False)
        return "older checkpoint"

    def _start_stale_sinks(self) -> None:
        """With the older checkpoints, until all is copied or refused; then with the newest."""
        self.pipelines.copy_checkpoints("newest", sinks=True)
        self.pipelines.restore_checkpoints(_BACKUP, sinks=True)
        for name in self._subject.sinks:
            spec = self.pipelines.specs("available_now")[name]
            stale = self._second = self._launch({name: spec}, "stale.log")
            deadline = time.monotonic() + _UP_S_MAX
            while stale.exit_code is None:
                if time.monotonic() > deadline:
                    raise truth.Untrue(f"no end with an older checkpoint:\n{stale.tail()}")
                time.sleep(0.1)
            if stale.exit_code == 0:  # the copy was the newest: it goes on from there
                self.pipelines.copy_checkpoints("newest", sinks=True, only=name)
            elif REFUSED not in stale.tail():
                raise truth.Untrue(f"{name}, with an older checkpoint:\n{stale.tail()}")
        self.pipelines.restore_checkpoints("newest", sinks=True)

    def check(self, *, whole: bool) -> None:
        if self._watched:
            raise self._watched[0]
        self.pipelines.check(whole=whole)

    def finish(self) -> int:
        """All is read to the end, and looked at; how many records there were."""
        if self._driver is not None:
            self._kill_driver()
        self._stop.set()
        for thread in self._threads:
            thread.join()
        for _ in range(_LAST_RUNS_MAX):
            driver = self._driver = self._launch(
                self.pipelines.specs("available_now"), "driver.log"
            )
            deadline = time.monotonic() + _END_S_MAX
            while driver.exit_code is None and time.monotonic() < deadline:
                time.sleep(0.1)
            if driver.exit_code == 0:
                break
            # A crowded machine may not start Spark's processes in the time that Spark gives them.
            driver.kill()
            self._driver = None
        else:
            raise truth.Untrue(f"no last run ended well:\n{driver.tail()}")
        self.check(whole=True)
        self._check_groups()
        return sum(map(len, truth.read(self._source, TOPIC).values()))

    # --- the driver ---

    def _start(self, trigger: str) -> None:
        tail = "" if self._driver is None or self._may_end else self._driver.tail()
        if tail and "failed to connect back" not in tail:  # that is a crowded machine
            raise truth.Untrue(f"the driver ended by itself:\n{tail}")
        self._may_end = False
        self._driver = self._launch(self.pipelines.specs(trigger), "driver.log")

    def _launch(self, specs: Mapping[str, Path], log: str) -> DriverProcess:
        return DriverProcess(self._master, specs.values(), self._directory / log)

    def _await_batches(self, count: int) -> None:
        """More than there are now; a driver that has ended is started again."""
        ended: list[str] = []
        deadline = time.monotonic() + _UP_S_MAX
        assert self._driver is not None
        wanted = self._driver.batches() + count
        while self._driver.batches() < wanted:
            if self._watched:
                raise self._watched[0]
            if self._driver.exit_code is not None:
                ended.append(self._driver.tail()[-1000:])
                self._start("300ms")
                wanted = count
            if time.monotonic() > deadline:
                tails = "\n--- ended, and was started again\n".join([*ended, self._driver.tail()])
                raise truth.Untrue(f"no batch in {_UP_S_MAX} s:\n{tails}")
            time.sleep(0.05)

    def _move_readers(self) -> None:
        with Admin({"bootstrap.servers": self._source}) as admin:
            places = [At(TOPIC, number) for number in range(PARTITIONS)]
            ends = admin.offsets(dict.fromkeys(places, -1))
            before = admin.group_offsets(READERS)
            moved = {}
            for at in places:
                least = before[at].offset if at in before else 0
                moved[at] = Committed(self._random.randint(least, max(ends[at].offset, least)))
            admin.alter_group_offsets(READERS, moved)

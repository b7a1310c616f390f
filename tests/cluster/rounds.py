"""Rounds of faults on one cluster under load, each looked at, and everything again at the end.

In: a number of rounds, kinds of faults, a keeper, a seed. Out: what was done, or Violation, which
names the seed and the directory that is kept.
Always: a round begins whole and ends when the cluster is whole again and records go on in every
partition, to every consumer. At the end replicas are the same, byte for byte.
"""

import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TypeVar

from barnabas.model.errors import Code
from barnabas.wire.records import decode_batch, iter_batches
from tests.cluster.checker import Anomaly, History, Place
from tests.cluster.faults import DISK_KINDS, KINDS
from tests.cluster.load import (
    CONSUMERS,
    PRODUCERS,
    OwnLoad,
    OwnReader,
    RdkafkaLoad,
    RdkafkaReader,
    Violation,
    Worker,
    mark_of,
)
from tests.cluster.members import ZOOKEEPER, Cluster
from tests.raw import records_in
from tests.support.zookeeper import Zookeeper
from tests.waiting import WAIT_S, until

K = TypeVar("K")

TOPICS = {"one": 1, "several": 3}
ROUNDS_PER_CLUSTER = 25
MEMORY = Path("/dev/shm")
BAD_WORDS = ("Traceback", "request failed")
BAD_LEVEL = '"level": "error"'
SHOWN_MAX = 20
TELLING = "append refused"  # in the log of a broker, if records are there twice


@dataclass
class Done:
    """What a number of rounds came to."""

    faults: Counter[str] = field(default_factory=Counter)
    acknowledged: int = 0
    seconds: list[float] = field(default_factory=list)


class Arena:
    """A cluster under load."""

    def __init__(
        self, home: Path, random: Random, brokers: int, zookeeper: Zookeeper | None
    ) -> None:
        self._random = random
        self.cluster = Cluster(home, brokers, zookeeper)
        places = [(name, number) for name, count in TOPICS.items() for number in range(count)]
        self.history = History(places, PRODUCERS)
        self.lock = threading.Lock()
        self.workers: list[Worker] = []
        self._hurt_disks = False

    def start(self) -> None:
        self.cluster.start()
        for topic, partitions in TOPICS.items():
            self.cluster.create_topic(topic, partitions)
        servers, shared = self.cluster.bootstrap_servers, (self.history, self.lock)
        self.workers = [
            RdkafkaLoad(PRODUCERS[0], servers, *shared, Random(self._random.random())),
            OwnLoad(PRODUCERS[1], servers, *shared, Random(self._random.random())),
            RdkafkaReader(CONSUMERS[0], servers, *shared),
            OwnReader(CONSUMERS[1], servers, *shared),
        ]
        for worker in self.workers:
            worker.start()
        self._go_on(self._acknowledged_to)
        self._go_on(self._read_to)
        self.cluster.wait_whole()  # the topic of the groups too

    def round(self, kind: str) -> str:
        """A line that says what was done."""
        if kind in DISK_KINDS:  # no cluster bears the loss of a disk that alone was in sync
            self._hurt_disks = True
            self.cluster.wait_settled()
        transcript = KINDS[kind](
            self.cluster, self._random, lambda: self._go_on(self._acknowledged_to)
        )
        self.cluster.wait_whole()
        self._go_on(self._acknowledged_to)
        self._go_on(self._read_to)
        self.look()
        return transcript

    # Going on

    def _acknowledged_to(self) -> dict[Place, int]:
        with self.lock:
            return {p: h.acknowledged_to for p, h in self.history.partitions.items()}

    def _read_to(self) -> dict[tuple[Place, str], int]:
        """By consumer; what it is given again after a rebalance does not count."""
        with self.lock:
            return {
                (p, consumer): h.read_to(consumer)
                for p, h in self.history.partitions.items()
                for consumer in CONSUMERS
            }

    def _go_on(self, measure: Callable[[], Mapping[K, int]]) -> None:
        """Wait until every one of them is further than it is now."""
        before = measure()

        def further() -> bool:
            self._check_workers()
            return all(now > before[what] for what, now in measure().items())

        def stuck() -> str:
            left = [what for what, now in measure().items() if now <= before[what]]
            diagnoses = [said for worker in self.workers if (said := worker.diagnosis())]
            stacks = [worker.stack() for worker in self.workers]
            return f"no progress: {left}; {'; '.join((*diagnoses, *stacks))}"

        until(further, stuck, WAIT_S)

    def _check_workers(self) -> None:
        for worker in self.workers:
            worker.check()

    # Looking

    def look(self) -> None:
        """Read what is new in each log from its leader, and hold it against what was told."""
        self._check_workers()
        for place in self.history.partitions:
            self._read(place)
        self._raise(self.history.anomalies)
        for member in self.cluster.members.values():
            words = BAD_WORDS if self._hurt_disks else (*BAD_WORDS, BAD_LEVEL)
            for word in words:
                if word in member.log:
                    at = member.log.index(word)
                    said = member.log[max(0, at - 500) : at + 3000]
                    raise Violation(f"broker {member.number} says {word!r}: {said}")

    def _read(self, place: Place) -> None:
        with self.lock:
            partition = self.history[place]
            due, offset = partition.acknowledged_to, partition.log_end
        end = -1
        deadline = time.monotonic() + WAIT_S
        while end < 0 or offset < end:
            with self.cluster.leader_client(place) as client:
                data = client.fetch(place[0], offset, partition=place[1])
            if data.error_code == Code.NOT_LEADER_OR_FOLLOWER and time.monotonic() < deadline:
                continue  # the preferred leader has taken over since
            marks = [
                (record.offset, mark_of(record.value))
                for _, batch in iter_batches(records_in(data))
                for record in decode_batch(batch)
                if record.offset >= offset
            ]
            # A new leader may learn only little by little how far was committed.
            if data.high_watermark > due or time.monotonic() > deadline:
                end = data.high_watermark
            with self.lock:
                for at, mark in marks:
                    partition.logged(at, [mark])
            offset += len(marks)
        with self.lock:
            partition.ends_at(end, due)

    def _raise(self, anomalies: Sequence[Anomaly]) -> None:
        if anomalies:
            shown = "\n  ".join(str(anomaly) for anomaly in anomalies[:SHOWN_MAX])
            said = "\n  ".join(self._lines(TELLING))
            raise Violation(f"{len(anomalies)} anomalies:\n  {shown}\nbrokers said:\n  {said}")

    def _lines(self, word: str) -> list[str]:
        """The last lines with this word of all brokers."""
        found = [
            line
            for member in self.cluster.members.values()
            for line in member.log.splitlines()
            if word in line
        ]
        return sorted(found)[-SHOWN_MAX:]  # each begins with its time

    # The end

    def finish(self) -> None:
        """Let the load end, read all logs again, and compare the replicas."""
        for worker in self.workers[: len(PRODUCERS)]:
            worker.finish()
        with self.lock:
            ends = {p: h.acknowledged_to for p, h in self.history.partitions.items()}

        def all_read() -> bool:
            self._check_workers()
            return all(now >= ends[p] for (p, _), now in self._read_to().items())

        until(all_read, lambda: f"acknowledged {ends}, read {self._read_to()}", WAIT_S)
        for worker in self.workers[len(PRODUCERS) :]:
            worker.finish()
        self.look()
        self._raise(self.history.check())
        self.cluster.wait_whole()
        # A controller that is cut off leaves the in-sync sets as they were until it is replaced.
        until(lambda: not self._unlike(), lambda: f"replicas differ: {self._unlike()}")
        codes = self.cluster.stop()
        if any(codes.values()):
            raise Violation(f"brokers ended with {codes}")
        self._compare_replicas()

    def _compare_replicas(self) -> None:
        if sizes := self._unlike():
            raise Violation(f"replicas differ: {sizes}")

    def _unlike(self) -> dict[str, dict[int, int]]:
        return self.cluster.unlike(list(self.history.partitions))

    def abandon(self) -> None:
        for worker in self.workers:
            worker.finishing.set()
        self.cluster.abandon()


def run_all(
    rounds: int,
    kinds: Sequence[str],
    keeper: str,
    seed: int,
    say: Callable[[str], None],
    brokers: int = 3,
) -> Done:
    """`rounds` of each kind, mixed; a new cluster every so often."""
    done = Done()
    order = [kind for kind in kinds for _ in range(rounds)]
    Random(f"{seed} order").shuffle(order)
    for number, first in enumerate(range(0, len(order), ROUNDS_PER_CLUSTER)):
        some = order[first : first + ROUNDS_PER_CLUSTER]
        _rounds(number, some, keeper, seed, say, brokers, done)
        say(f"{first + len(some)} of {len(order)} rounds, {done.acknowledged} records acknowledged")
    return done


def _rounds(
    number: int,
    kinds: Sequence[str],
    keeper: str,
    seed: int,
    say: Callable[[str], None],
    brokers: int,
    done: Done,
) -> None:
    base = MEMORY if MEMORY.is_dir() else None
    directory = Path(tempfile.mkdtemp(prefix="barnabas-cluster-", dir=base))
    server = None
    if keeper == ZOOKEEPER:
        (directory / "server").mkdir()
        server = Zookeeper(directory / "server")
    arena = Arena(directory / "cluster", Random(f"{seed} {number}"), brokers, server)
    transcript: list[str] = []
    try:
        arena.start()
        for kind in kinds:
            transcript.append(kind)
            started = time.monotonic()
            transcript[-1] = f"{kind}: {arena.round(kind)}"
            done.seconds.append(time.monotonic() - started)
            say(f"  {transcript[-1]} ({done.seconds[-1]:.1f} s)")
            done.faults[kind] += 1
        transcript.append("the end")
        arena.finish()
    except Exception as problem:
        raise Violation(
            f"seed {seed}, cluster {number}, round {len(transcript)}"
            f" ({'; '.join(transcript[-4:])}): {problem}\nkept: {directory}"
        ) from problem
    finally:
        arena.abandon()
        if server is not None:
            server.kill()
    done.acknowledged += arena.history.acknowledged_count
    shutil.rmtree(directory)

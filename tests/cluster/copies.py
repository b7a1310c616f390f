"""Records copied in transactions through kills and restarts, of brokers and of copiers.

In: a variant (which clients copy, and how their group works), a number of records and of rounds, a
seed. Out: what was done, or Violation, which names the seed and the directory that is kept.
Always: a reader of committed records gets, in each partition of the target, the records of the
source, each once, in order, while copiers and brokers come and go. A round ends when all records
that were there at its start, and those written in it, have been read. At the end nothing is open,
and replicas are the same, byte for byte.
The scheme is that of Kafka's system test of transactions.
"""

import argparse
import secrets
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

import barnabas.sync
from tests.cluster.copier import CopierTask
from tests.cluster.copiers import CopierProcess, Copiers, Zombie
from tests.cluster.faults import KINDS
from tests.cluster.load import Violation
from tests.cluster.members import Cluster
from tests.cluster.rounds import BAD_LEVEL, BAD_WORDS, MEMORY
from tests.waiting import PROGRAM_S, WAIT_S, until

SOURCE, TARGET, GROUP = "source", "target", "copiers"
RECORDS = 100_000
OPTIONS = {
    "transaction.state.log.num.partitions": "3",
    "group.consumer.session.timeout.ms": "20000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "log.segment.bytes": "2000000",
}


@dataclass(frozen=True)
class Variant:
    """`copiers`: a library, or "own-1" for the first protocol of transactions."""

    copiers: Sequence[str]
    partitions: int
    protocol: str = "classic"
    assigned: bool = False  # by hand: offsets are sent without metadata of the group

    def tasks(self, servers: str, size: int) -> list[CopierTask]:
        return [
            CopierTask(
                library=library.removesuffix("-1"),
                version=1 if library.endswith("-1") else 2,
                name=f"copier-{number}-{library}",
                servers=servers,
                source=SOURCE,
                target=TARGET,
                group=GROUP,
                protocol=self.protocol,
                partitions=[number] if self.assigned else [],
                size=size,
            )
            for number, library in enumerate(self.copiers)
        ]


VARIANTS = {
    "classic": Variant(("own", "confluent", "own-1"), partitions=9),
    "consumer": Variant(("own", "confluent", "own-1"), partitions=9, protocol="consumer"),
    "assigned": Variant(("confluent", "confluent"), partitions=2, assigned=True),
    "java": Variant(("java", "confluent", "own"), partitions=9),
    "java-assigned": Variant(("java", "java"), partitions=2, assigned=True),
}
BROKER_FAULTS = ("kill", "rolling-restart")
COPIER_FAULTS = ("copier-killed", "copier-replaced", "copiers-killed", "copiers-restarted")
FAULTS = (*BROKER_FAULTS, *COPIER_FAULTS)


class CommittedReader:
    """Reads the target, and holds each record against the one that must be next."""

    def __init__(self, servers: str, partitions: int) -> None:
        self._partitions = partitions
        self.next = list(range(partitions))  # by partition: the number that must come
        self.count = 0
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "unused",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 50,
                "reconnect.backoff.max.ms": 200,
                "socket.timeout.ms": 10_000,
                "topic.metadata.refresh.interval.ms": 1_000,
                "log_level": 0,
            }
        )
        self._consumer.assign(
            [TopicPartition(TARGET, number, OFFSET_BEGINNING) for number in range(partitions)]
        )

    def read(self) -> None:
        for message in self._consumer.consume(5_000, 0.05):
            if message.error() is not None:
                continue  # a broker is away
            number, partition = int(message.value() or b""), message.partition() or 0
            due = self.next[partition]
            if number != due:
                kind = "a duplicate" if number < due else "a record is missing"
                raise Violation(
                    f"{TARGET}-{partition}, offset {message.offset()}: record {number},"
                    f" but {due} is next: {kind}"
                )
            self.next[partition] += self._partitions
            self.count += 1

    def close(self) -> None:
        self._consumer.close()


@dataclass
class Copied:
    """What some runs came to."""

    records: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    early_ends: int = 0
    seconds: list[float] = field(default_factory=list)


class CopyRun:
    """One cluster, its copiers, and the reader."""

    def __init__(self, home: Path, variant: Variant, size: int, random: Random) -> None:
        self._random = random
        self._variant = variant
        self.cluster = Cluster(home, 3, options=OPTIONS)
        tasks = variant.tasks(self.cluster.bootstrap_servers, size)
        self.copiers = Copiers(tasks, home)
        self._zombies: list[Zombie] = []
        self._written = 0

    def start(self) -> None:
        self.cluster.start()
        for topic in (SOURCE, TARGET):
            self.cluster.create_topic(topic, self._variant.partitions)
        self._producer = Producer(
            {
                "bootstrap.servers": self.cluster.bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 5,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        self.reader = CommittedReader(self.cluster.bootstrap_servers, self._variant.partitions)
        self.copiers.start()

    def round(self, fault: str, records: int) -> str:
        """Write, wait until some of it is copied, do harm, wait until all of it is."""
        self._write(records)
        before = self.reader.count
        self._until(before + records // 4)
        transcript = self._harm(fault)
        self._until(self._written)
        return transcript

    def _write(self, records: int) -> None:
        for number in range(self._written, self._written + records):
            partition = number % self._variant.partitions
            self._producer.produce(SOURCE, str(number), partition=partition)
            self._producer.poll(0)
        self._written += records
        left = self._producer.flush(WAIT_S)
        if left:
            raise Violation(f"{left} records of the source are not acknowledged")

    def _until(self, count: int) -> None:
        def reached() -> bool:
            self.copiers.tend()
            self.reader.read()
            return self.reader.count >= count

        until(reached, lambda: self._stuck(count), PROGRAM_S)

    def _stuck(self, count: int) -> str:
        with barnabas.sync.Admin(bootstrap_servers=self.cluster.bootstrap_servers) as admin:
            open_ = self._open(admin)
            offsets = admin.group_offsets(GROUP)
        return (
            f"{self.reader.count} of {count} records copied, next {self.reader.next}, group at"
            f" {offsets}, open {open_}\n{self.copiers.diagnosis()}"
        )

    def _harm(self, fault: str) -> str:
        if fault in KINDS:
            goes = min(self.reader.count + 1, self._written)
            transcript = KINDS[fault](self.cluster, self._random, lambda: self._until(goes))
            self.cluster.wait_whole()
            return transcript
        some = self.copiers.all
        if fault == "copier-replaced":
            return self._replace(self._random.choice(some))
        if fault == "copier-killed":
            some = [self._random.choice(some)]
        for each in some:
            if fault == "copiers-restarted":
                each.stop()
            else:
                each.kill()
        for each in some:
            each.start()
        return f"{', '.join(each.task.name for each in some)}"

    def _replace(self, copier: CopierProcess) -> str:
        """It wakes up in the middle of a transaction that another one has aborted."""
        zombie = copier.replace()
        self._zombies.append(zombie)
        self._until(min(self.reader.count + 1, self._written))
        zombie.go_on()

        def is_over() -> bool:  # it is fenced when it has something to write
            self.copiers.tend()
            self.reader.read()
            return zombie.has_ended() or self.reader.count >= self._written

        until(is_over, lambda: f"not fenced: {copier.diagnosis()}", PROGRAM_S)
        zombie.kill()
        return copier.task.name

    def finish(self) -> None:
        """Nothing more comes, nothing is open, and all replicas have the same."""
        self.copiers.stop()
        servers = self.cluster.bootstrap_servers
        with barnabas.sync.Admin(bootstrap_servers=servers) as admin:
            until(
                lambda: not self._open(admin),
                lambda: f"open: {self._open(admin)}",
                WAIT_S,
            )
            report = admin.transactions_report([TARGET])
        if report.held:
            raise Violation(f"transactions that no coordinator ends: {report.held}")
        self.reader.read()
        self.reader.read()
        if self.reader.count != self._written:
            raise Violation(f"{self.reader.count} records, {self._written} were written")
        self.reader.close()
        self.cluster.wait_whole()
        places = [(TARGET, number) for number in range(self._variant.partitions)]
        until(lambda: not self.cluster.unlike(places), lambda: str(self.cluster.unlike(places)))
        codes = self.cluster.stop()
        if any(codes.values()):
            raise Violation(f"brokers ended with {codes}")
        for member in self.cluster.members.values():
            for word in (*BAD_WORDS, BAD_LEVEL):
                if word in member.log:
                    said = member.log[max(0, member.log.index(word) - 500) :][:3000]
                    raise Violation(f"broker {member.number} says {word!r}: {said}")

    def _open(self, admin: barnabas.sync.Admin) -> list[str]:
        states = ["Ongoing", "PrepareCommit", "PrepareAbort"]
        return [str(each) for each in admin.list_transactions(states=states)]

    def abandon(self) -> None:
        for zombie in self._zombies:
            zombie.kill()
        self.copiers.kill()
        self.cluster.abandon()


def run_copies(
    name: str,
    seed: int,
    say: Callable[[str], None],
    *,
    records: int = RECORDS,
    faults: Sequence[str] = FAULTS,
    size: int = 750,
    done: Copied | None = None,
) -> Copied:
    """Each of the faults once, in any order."""
    done = Copied() if done is None else done
    order = list(faults)
    random = Random(f"{seed} {name}")
    random.shuffle(order)
    directory = Path(
        tempfile.mkdtemp(prefix="barnabas-copies-", dir=MEMORY if MEMORY.is_dir() else None)
    )
    run = CopyRun(directory, VARIANTS[name], size, random)
    transcript: list[str] = []
    started = time.monotonic()
    try:
        run.start()
        for fault in order:
            transcript.append(fault)
            at = time.monotonic()
            transcript[-1] = f"{fault}: {run.round(fault, records // len(order))}"
            say(f"  {transcript[-1]} ({time.monotonic() - at:.1f} s)")
            done.faults[fault] += 1
        transcript.append("the end")
        run.finish()
    except Exception as problem:
        raise Violation(
            f"{name}, seed {seed} ({'; '.join(transcript)}): {problem}\nkept: {directory}"
        ) from problem
    finally:
        run.abandon()
    done.records += run.reader.count
    done.early_ends += sum(each.early_ends for each in run.copiers.all)
    done.seconds.append(time.monotonic() - started)
    shutil.rmtree(directory)
    return done


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.copies")
    parser.add_argument("--rounds", type=int, default=1, help="of each variant (1)")
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--variants", default=",".join(VARIANTS), help="with commas between")
    parser.add_argument("--faults", default=",".join(FAULTS), help="with commas between")
    parser.add_argument("--seed", type=int, default=None)
    given = parser.parse_args()
    seed = secrets.randbelow(1 << 32) if given.seed is None else given.seed
    for name in given.variants.split(","):
        if name not in VARIANTS:
            raise SystemExit(f"no such variant: {name}; there are {', '.join(VARIANTS)}")
    for name in given.variants.split(","):
        done = Copied()
        for number in range(given.rounds):
            print(f"{name}, seed {seed + number}", flush=True)
            run_copies(
                name,
                seed + number,
                say=lambda line: print(line, flush=True),
                records=given.records,
                faults=given.faults.split(","),
                done=done,
            )
        print(
            f"{name}: {done.records} records copied through {sum(done.faults.values())} faults in"
            f" {sum(done.seconds):.0f} s: each once, in order; {done.early_ends} copiers gave up"
            " and were started again",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A share group whose brokers and members are killed again and again.

In: a number of rounds, a seed. Out: what was done, or Violation, which names the seed and the
directory that is kept.
Always: each record whose write was acknowledged is accepted by a member, and comes to no member
after another one has been told that its acceptance is stored. A round ends when all records
are accepted and the group has no lag.
"""

import argparse
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import msgspec
from confluent_kafka import Message, Producer

import barnabas.sync
from barnabas.model.errors import KafkaError
from tests.cluster.faults import KINDS
from tests.cluster.load import Violation
from tests.cluster.members import Cluster
from tests.cluster.rounds import BAD_LEVEL, BAD_WORDS, MEMORY
from tests.cluster.share_member import At, Lines, MemberTask
from tests.waiting import PROGRAM_S, WAIT_S, until

TOPIC, GROUP = "jobs", "queue"
PARTITIONS, RECORDS = 3, 300
LIBRARIES = ("own", "confluent", "own")
ROUNDS_PER_CLUSTER = 25
OPTIONS = {
    "group.share.heartbeat.interval.ms": "500",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.session.timeout.ms": "10000",  # killed members keep partitions so long
    "group.share.min.session.timeout.ms": "1000",
    "group.share.delivery.count.limit": "10",  # each attempt of a killed member is one
    "share.coordinator.state.topic.num.partitions": "6",
    "share.coordinator.snapshot.update.records.per.snapshot": "20",
}
GROUP_OPTIONS = {
    "share.auto.offset.reset": "earliest",
    "share.record.lock.duration.ms": "15000",
}
FAULTS = ("broker-killed", "member-killed", "members-killed", "both-killed", "rolling-restart")
WEIGHTS = (4, 3, 2, 4, 1)


class MemberProcess:
    """One member of the group, and those that follow it."""

    def __init__(self, name: str, library: str, servers: str, home: Path) -> None:
        self.name = name
        self.files: list[Path] = []
        self._library = library
        self._servers = servers
        self._home = home
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.files.append(self._home / f"{self.name}-{len(self.files)}.lines")
        task = MemberTask(self._library, self._servers, TOPIC, GROUP, str(self.files[-1]))
        command = [sys.executable, "-m", "tests.cluster.share_member"]
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                [*command, msgspec.json.encode(task).decode()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    @property
    def _log(self) -> Path:
        return self._home / f"{self.name}.log"

    def check(self) -> None:
        if self._process is not None and self._process.poll() is not None:
            raise Violation(f"{self.name} ended by itself: {self._log.read_text()[-3000:]}")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = None

    def stop(self) -> None:
        assert self._process is not None
        until(self.files[-1].exists, f"{self.name} does not start")  # then it can leave
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(PROGRAM_S)
        if code:
            raise Violation(f"{self.name} ended with {code}: {self._log.read_text()[-3000:]}")
        self._process = None


class Ledger:
    """What producers and members have said about each record."""

    def __init__(self) -> None:
        self.produced: set[At] = set()
        self.tried: set[At] = set()
        self.accepted: dict[At, float] = {}  # when it was known
        self._last_got: dict[At, tuple[float, str]] = {}  # when the last such poll began
        self._read: Counter[Path] = Counter()

    def read(self, members: Sequence[MemberProcess]) -> None:
        for path in [path for member in members for path in member.files if path.exists()]:
            with open(path, "rb") as file:
                file.seek(self._read[path])
                new = file.read()
            whole = new[: new.rfind(b"\n") + 1]
            self._read[path] += len(whole)
            for line in whole.splitlines():
                self._add(msgspec.json.decode(line, type=Lines), path.name)

    def _add(self, line: Lines, who: str) -> None:
        self.tried.update(line.trying)
        for at in line.accepted:
            self.accepted[at] = min(line.at, self.accepted.get(at, line.at))
        for at in line.got:
            self._last_got[at] = max((line.began, who), self._last_got.get(at, (0.0, "")))

    def check(self) -> None:
        again = {
            at: f"accepted at {when:.3f}, and got by a poll of {self._last_got[at]}"
            for at, when in self.accepted.items()
            if self._last_got[at][0] > when
        }
        if again:
            raise Violation(f"delivered after their acceptance was confirmed: {again}")
        if foreign := set(self._last_got) - self.produced:
            raise Violation(f"nobody wrote {sorted(foreign)[:20]}")


@dataclass
class Kills:
    """What a number of rounds came to."""

    records: int = 0
    unknown: int = 0  # accepted by a member that was killed, or lost its broker, meanwhile
    faults: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)


class ShareRun:
    """One cluster, its group, and the ledger."""

    def __init__(self, home: Path, random: Random) -> None:
        self._random = random
        self.cluster = Cluster(home, 3, options=OPTIONS)
        servers = self.cluster.bootstrap_servers
        self.members = [
            MemberProcess(f"member-{number}-{library}", library, servers, home)
            for number, library in enumerate(LIBRARIES)
        ]
        self.ledger = Ledger()

    def start(self) -> None:
        self.cluster.start()
        self.cluster.create_topic(TOPIC, PARTITIONS)
        with barnabas.sync.Admin(bootstrap_servers=self.cluster.bootstrap_servers) as admin:
            admin.alter_group(GROUP, put=GROUP_OPTIONS)
        self._producer = Producer(
            {
                "bootstrap.servers": self.cluster.bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 2,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        for member in self.members:
            member.start()

    def round(self, fault: str, records: int) -> str:
        """Write; when some of it is accepted, write more and kill; wait until all is accepted."""
        self._write(records // 2)
        self._producer.flush(WAIT_S)
        missing = len(self._missing())
        self._until(lambda: len(self._missing()) < missing or not missing)
        self._write(records - records // 2)
        transcript = self._harm(fault)
        if left := self._producer.flush(PROGRAM_S):
            raise Violation(f"{left} records are not acknowledged")
        self._until(lambda: not self._missing())
        self._until(lambda: self._lag() == 0)
        self.ledger.check()
        return transcript

    def _write(self, records: int) -> None:
        for number in range(records):
            self._producer.produce(
                TOPIC, b"%d" % number, partition=number % PARTITIONS, on_delivery=self._written
            )
        self._producer.poll(0)

    def _written(self, error: object, message: Message) -> None:
        if error is not None:
            raise Violation(f"not written: {error}")
        self.ledger.produced.add((message.partition() or 0, message.offset() or 0))

    def _missing(self) -> set[At]:
        ledger = self.ledger
        return ledger.produced - ledger.accepted.keys() - ledger.tried

    def _until(self, condition: Callable[[], object]) -> None:
        def reached() -> bool:
            self._producer.poll(0)
            for member in self.members:
                member.check()
            self.ledger.read(self.members)
            return bool(condition())

        until(reached, self._stuck, PROGRAM_S, pause_s=0.05)

    def _stuck(self) -> str:
        missing = sorted(self._missing())
        return f"{len(missing)} records not accepted, {missing[:20]}; lag {self._lag()}"

    def _lag(self) -> int | None:
        try:
            with barnabas.sync.Admin(bootstrap_servers=self.cluster.bootstrap_servers) as admin:
                return sum(each.lag for each in admin.group_offsets(GROUP).values())
        except KafkaError:
            return None  # a broker is away

    def _harm(self, fault: str) -> str:
        said: list[str] = []
        if fault in ("member-killed", "both-killed"):
            said.append(self._kill_members([self._random.choice(self.members)]))
        elif fault == "members-killed":
            said.append(self._kill_members(self.members))
        if fault in ("broker-killed", "both-killed"):
            said.append(self._hurt("kill"))
        elif fault == "rolling-restart":
            said.append(self._hurt("rolling-restart"))
        return ", ".join(said)

    def _kill_members(self, some: Sequence[MemberProcess]) -> str:
        for each in some:
            each.kill()
        for each in some:
            each.start()
        return f"killed {', '.join(each.name for each in some)}"

    def _hurt(self, kind: str) -> str:
        more = len(self.ledger.accepted)
        transcript = KINDS[kind](
            self.cluster,
            self._random,
            lambda: self._until(lambda: len(self.ledger.accepted) > more or not self._missing()),
        )
        self.cluster.wait_whole()
        return transcript

    def finish(self) -> None:
        for member in self.members:
            member.stop()
        self.ledger.read(self.members)
        self.ledger.check()
        codes = self.cluster.stop()
        if any(codes.values()):
            raise Violation(f"brokers ended with {codes}")
        for broker in self.cluster.members.values():
            for word in (*BAD_WORDS, BAD_LEVEL):
                if word in broker.log:
                    said = broker.log[max(0, broker.log.index(word) - 500) :][:3000]
                    raise Violation(f"broker {broker.number} says {word!r}: {said}")

    def abandon(self) -> None:
        for member in self.members:
            member.kill()
        self.cluster.abandon()


def run_kills(
    rounds: int,
    seed: int,
    say: Callable[[str], None],
    *,
    records: int = RECORDS,
    faults: Sequence[str] = (),
    done: Kills | None = None,
) -> Kills:
    """On one cluster. `faults`: these, instead of random ones."""
    done = Kills() if done is None else done
    random = Random(f"share {seed}")
    directory = Path(
        tempfile.mkdtemp(prefix="barnabas-shares-", dir=MEMORY if MEMORY.is_dir() else None)
    )
    run = ShareRun(directory, random)
    transcript: list[str] = []
    try:
        run.start()
        for number in range(rounds):
            fault = faults[number] if faults else random.choices(FAULTS, WEIGHTS)[0]
            transcript.append(fault)
            began = time.monotonic()
            transcript[-1] = f"{fault}: {run.round(fault, records)}"
            done.seconds.append(time.monotonic() - began)
            done.faults[fault] += 1
            say(f"  {transcript[-1]} ({done.seconds[-1]:.1f} s)")
        transcript.append("the end")
        run.finish()
    except Exception as problem:
        raise Violation(
            f"seed {seed} ({'; '.join(transcript)}): {problem}\nkept: {directory}"
        ) from problem
    finally:
        run.abandon()
    done.records += len(run.ledger.produced)
    done.unknown += len(run.ledger.produced - run.ledger.accepted.keys())
    shutil.rmtree(directory)
    return done


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.share_kills")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--records", type=int, default=RECORDS, help=f"of a round ({RECORDS})")
    parser.add_argument("--seed", type=int, default=None)
    given = parser.parse_args()
    seed = secrets.randbelow(1 << 32) if given.seed is None else given.seed
    done = Kills()
    while (left := given.rounds - len(done.seconds)) > 0:
        print(f"seed {seed}", flush=True)
        run_kills(
            min(left, ROUNDS_PER_CLUSTER),
            seed,
            say=lambda line: print(line, flush=True),
            records=given.records,
            done=done,
        )
        seed += 1
    print(
        f"{len(done.seconds)} rounds in {sum(done.seconds):.0f} s ({dict(done.faults)}):"
        f" {done.records} records, all accepted, none delivered after its acceptance was confirmed;"
        f" {done.unknown} acceptances were never confirmed",
        flush=True,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

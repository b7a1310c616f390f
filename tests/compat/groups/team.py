"""Several members of one group, what they own, and what they have read."""

import json
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.process import REPLICAS
from tests.support.java import java_programs
from tests.support.node import kafkajs
from tests.waiting import WAIT_S, until

SESSION_MS = 120_000  # a member that starves for a while stays one
ROOT = Path(__file__).resolve().parents[3]

OPTIONS = {"group.initial.rebalance.delay.ms": "300", "group.min.session.timeout.ms": "1000"}
"""Of a broker whose groups come to rest soon enough for a test."""


def _command(library: str, options: dict[str, Any]) -> list[str]:
    if library == "java":
        words = (options[key] for key in ("group", "name", "strategy", "instance"))
        return java_programs().command(
            "Member",
            *(options["bootstrap"], options["topics"][0], *words, str(options["session_ms"])),
            flags=["-XX:TieredStopAtLevel=1", "-Xmx128m"],
        )
    if library == "kafkajs":
        return kafkajs().command("member.js", json.dumps(options))
    return [sys.executable, "-m", "tests.compat.groups.member", library, json.dumps(options)]


class Member:
    """A process, and what it has said so far."""

    def __init__(self, library: str, options: dict[str, Any]) -> None:
        self.name: str = options["name"]
        self.library = library
        self.owned: list[int] = []
        self.assigned: list[list[int]] = []  # as Java's listener was told
        self.changes = 0  # how often what it owns has changed
        self.read: list[tuple[int, int]] = []
        self.errors: list[int] = []
        self.noise = ""
        self._process = subprocess.Popen(
            _command(library, options),
            cwd=ROOT,
            env=kafkajs().environment if library == "kafkajs" else None,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._ears = [
            threading.Thread(target=self._listen, daemon=True),
            threading.Thread(target=self._listen_to_noise, daemon=True),
        ]
        for ear in self._ears:
            ear.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            if "owned" in said:
                self.owned = said["owned"]
                self.changes += 1
            elif "assigned" in said:
                self.assigned.append(said["assigned"])
            elif "error" in said:
                self.errors.append(said["error"])
            else:
                self.read.append((said["partition"], said["offset"]))

    def _listen_to_noise(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.noise = (self.noise + line.decode(errors="replace"))[-4000:]

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Gone when this returns; all that it said has been heard."""
        if self.is_running:
            self.send(number)
        try:
            self._process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for ear in self._ears:
            ear.join(WAIT_S)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
        self.owned = []


class Team:
    """The members of one group on one topic."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        group: str = "",
        replicas: int = REPLICAS,
    ) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.partitions = partitions
        self.group = group or f"group-of-{topic}"
        self.members: list[Member] = []
        self.past: list[Member] = []
        self.written: Counter[int] = Counter()
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "linger.ms": 1, "enable.idempotence": True}
        )
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        future = self.admin.create_topics([NewTopic(topic, partitions, replicas)])[topic]
        future.result(WAIT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for member in tuple(self.members):
            member.send(signal.SIGCONT)
            self.end(member, signal.SIGKILL if kind else signal.SIGTERM)

    def add(
        self,
        library: str,
        strategy: str = "range",
        *,
        instance: str = "",
        session_ms: int = SESSION_MS,
        pattern: str = "",
    ) -> Member:
        """`pattern`: what to subscribe to instead of the topic's own name."""
        number = len(self.members) + len(self.past)
        options = {
            "bootstrap": self.bootstrap,
            "topics": [pattern or self.topic],
            "group": self.group,
            "name": f"{library}-{number}",
            "strategy": strategy,
            "instance": instance,
            "session_ms": session_ms,
        }
        member = Member(library, options)
        self.members.append(member)
        return member

    def end(self, member: Member, number: signal.Signals = signal.SIGTERM) -> None:
        member.end(number)
        self.members.remove(member)
        self.past.append(member)

    def write(self, count: int) -> None:
        """So many records into every partition."""
        for _ in range(count):
            for partition in range(self.partitions):
                self._producer.produce(self.topic, b"x", partition=partition)
        for partition in range(self.partitions):
            self.written[partition] += count
        assert self._producer.flush(WAIT_S) == 0

    # What must become true

    def wait_shared(self, members: list[Member] | None = None) -> None:
        """Every partition has one owner, and every one of these members has its share."""
        sharing = self.members if members is None else members

        def shared() -> bool:
            owned = sorted(partition for member in sharing for partition in member.owned)
            each = all(member.owned for member in sharing)
            return owned == list(range(self.partitions)) and each

        until(shared, self.describe)

    def wait_read(self) -> None:
        """Every record has been read by somebody."""
        until(lambda: not self.missing(), lambda: (self.describe(), self.missing()[:10]))

    def missing(self) -> list[tuple[int, int]]:
        read = self.read_counts()
        return [
            (partition, offset)
            for partition, count in self.written.items()
            for offset in range(count)
            if (partition, offset) not in read
        ]

    def read_counts(self) -> Counter[tuple[int, int]]:
        return Counter(read for member in (*self.past, *self.members) for read in member.read)

    def come_and_go(self, library: str, strategy: str = "range", *, records: int) -> None:
        """A member joins, then the first one leaves; so many records are read before, between and
        after."""
        self.write(records)
        self.wait_read()
        self.wait_committed()
        newcomer = self.add(library, strategy)
        self.wait_shared()
        self.write(records)
        self.wait_read()
        self.wait_committed()
        self.end(self.members[0])
        self.wait_shared()
        assert newcomer.owned
        self.write(records)
        self.wait_read()
        self.wait_committed()

    def check_read_once(self) -> None:
        twice = {read: count for read, count in self.read_counts().items() if count > 1}
        assert not twice, (twice, self.describe())

    def committed(self) -> dict[int, int]:
        wanted = [TopicPartition(self.topic, partition) for partition in range(self.partitions)]
        # A request made while librdkafka finds all brokers down may never be sent at all: hence
        # an administrator who has not seen the broker go.
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        futures = admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(self.group, wanted)]
        )
        found = futures[self.group].result(WAIT_S).topic_partitions
        return {each.partition: each.offset for each in found}

    def wait_committed(self) -> None:
        """As far as was written, everywhere."""
        until(
            lambda: self.committed() == dict(self.written), lambda: (self.committed(), self.written)
        )

    def lose_one_and_stall_one(self) -> None:
        """Of three members, one is killed and one stops; later that one continues."""
        killed, stalled, other = self.members
        self.write(10)
        self.wait_read()
        self.end(killed, signal.SIGKILL)
        stalled.send(signal.SIGSTOP)
        self.write(10)
        self.wait_shared([other])
        self.wait_read()
        stalled.send(signal.SIGCONT)
        self.wait_shared()
        self.write(10)
        self.wait_read()
        self.wait_committed()

    def describe(self) -> str:
        lines = [
            f"{member.name}: owns {member.owned}, read {len(member.read)}, errors {member.errors},"
            f" running {member.is_running} {member.noise[-1500:]}"
            for member in (*self.members, *self.past)
        ]
        return "\n".join(lines)


@contextmanager
def team_of(
    bootstrap: str, topic: str, partitions: int, libraries: list[str], **options: Any
) -> Iterator[Team]:
    """A team that has come to rest."""
    with Team(bootstrap, topic, partitions) as team:
        for library in libraries:
            team.add(library, **options)
        team.wait_shared()
        yield team

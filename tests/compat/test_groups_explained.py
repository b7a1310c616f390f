"""Groups in trouble, with real consumers: `barnabas group explain` names what is wrong.

And groups that are well, of which it has nothing to say.
"""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from threading import Event, Thread
from typing import Any

import pytest
from confluent_kafka import Producer

from barnabas.client.blocking.admin import Admin
from tests.cli.test_command_group import Here
from tests.compat.groups.team import ROOT
from tests.conftest import broker_with
from tests.process import BrokerProcess
from tests.waiting import WAIT_S, until

SESSION_MS = 20_000  # what a member that is not stopped always keeps
OPTIONS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.heartbeat.interval.ms": "300",
}
PROTOCOLS = ["classic", "consumer"]
broker = broker_with(OPTIONS)


class Situation:
    """A topic, a group on it, its members, and what `explain` says of it."""

    def __init__(self, bootstrap: str, topic: str, protocol: str) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.group = f"group-of-{topic}"
        self.protocol = protocol
        self.shell = Here(bootstrap)
        self.members: list[subprocess.Popen[bytes]] = []
        self._producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})

    def create(self, partitions: int) -> None:
        with Admin({"bootstrap.servers": self.bootstrap}) as admin:
            admin.create_topic(self.topic, partitions=partitions)

    def write(self, records: int, *partitions: int) -> None:
        for partition in partitions:
            for _ in range(records):
                self._producer.produce(self.topic, b"x", partition=partition)
        assert self._producer.flush(WAIT_S) == 0

    @contextmanager
    def writing(self, *partitions: int) -> Iterator[None]:
        """A record at a time, all the time."""
        enough = Event()

        def write() -> None:
            while not enough.wait(0.5):  # so few that a member that starves has no lag to speak of
                self.write(1, *partitions)

        thread = Thread(target=write)
        thread.start()
        try:
            yield
        finally:
            enough.set()
            thread.join()

    def add(self, client: str, work_ms: int = 0, **settings: Any) -> subprocess.Popen[bytes]:
        """A member of its own process. Settings with _ for a dot."""
        given: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            "group.id": self.group,
            "client.id": client,
            "group.protocol": self.protocol,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 200,
            "queued.min.messages": 1,
            "log_level": 0,
        }
        if self.protocol == "classic":
            given |= {"session.timeout.ms": 120_000, "heartbeat.interval.ms": 300}
        given |= {name.replace("_", "."): value for name, value in settings.items()}
        options = {"topic": self.topic, "work_ms": work_ms, "settings": given}
        member = subprocess.Popen(
            [sys.executable, "-m", "tests.compat.groups.worker", json.dumps(options)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.members.append(member)
        return member

    def end(self, member: subprocess.Popen[bytes]) -> None:
        member.terminate()
        member.wait(WAIT_S)
        self.members.remove(member)

    def close(self) -> None:
        for member in self.members:
            member.kill()
        for member in self.members:
            member.wait(WAIT_S)

    def describe(self) -> dict[str, Any]:
        ended = self.shell("group", "describe", self.group, "-J")
        found: dict[str, Any] = {"state": "", "members": [], "lag": 0}
        return found if ended.code else found | json.loads(ended.out)

    def explain(self) -> dict[str, str]:
        """What is wrong, by its name."""
        ended = self.shell("group", "explain", self.group, "-J")
        found = [] if ended.code else json.loads(ended.out)["findings"]
        return {finding["name"]: finding["text"] for finding in found}

    def check_well(self) -> None:
        """Nothing is wrong; but on a busy machine a rebalance may be slow."""
        found = self.explain()
        assert not found.keys() - {"slow-rebalance"}, found

    def wait(self, condition: Callable[[dict[str, Any]], bool]) -> None:
        until(lambda: condition(self.describe()), lambda: (self.describe(), self.explain()))

    def wait_stable(self, members: int) -> None:
        self.wait(lambda now: now["state"] == "Stable" and len(now["members"]) == members)

    def wait_explained(self, name: str) -> str:
        """That, and nothing else; but on a busy machine any rebalance may be slow."""
        said: list[dict[str, str]] = [{}]

        def explained() -> bool:
            said[0] = self.explain()
            return name in said[0] and not said[0].keys() - {name, "slow-rebalance"}

        until(explained, lambda: (said, self.describe()))
        return said[0][name]


@pytest.fixture(params=PROTOCOLS)
def situation(
    broker: BrokerProcess, topic: str, request: pytest.FixtureRequest
) -> Iterator[Situation]:
    made = Situation(broker.bootstrap_servers, topic, request.param)
    try:
        yield made
    finally:
        made.close()


only_classic = pytest.mark.parametrize("situation", ["classic"], indirect=True)
"""Where the protocol makes no difference."""


def test_1_a_member_that_polls_too_rarely(situation: Situation) -> None:
    situation.create(1)
    situation.write(20, 0)
    session = {"session_timeout_ms": SESSION_MS} if situation.protocol == "classic" else {}
    situation.add("sleepy", work_ms=600_000, max_poll_interval_ms=SESSION_MS, **session)
    if situation.protocol == "classic":
        text = situation.wait_explained("poll-interval")
        assert "sleepy at 127.0.0.1 left the group but is still connected" in text
    else:  # where librdkafka does not leave: it falls silent, until it polls again
        causes = ("session-timeout", "poll-interval")
        until(lambda: any(cause in situation.explain() for cause in causes), situation.explain)
        found = situation.explain()
        (text,) = (found[cause] for cause in causes if cause in found)
        assert text.startswith("sleepy at 127.0.0.1")
    assert "max.poll.interval.ms" in text


def test_2_a_member_that_is_stopped(situation: Situation) -> None:
    situation.create(2)
    situation.add("steady")
    session = {"session_timeout_ms": SESSION_MS} if situation.protocol == "classic" else {}
    frozen = situation.add("frozen", **session)
    situation.wait_stable(2)
    frozen.send_signal(signal.SIGSTOP)
    text = situation.wait_explained("session-timeout")
    heard = re.match(r"frozen at 127\.0\.0\.1 sent no heartbeat for (\d+)[.0-9]* (s|min)", text)
    assert heard is not None, text
    assert heard[2] == "min" or int(heard[1]) >= SESSION_MS // 1000
    assert "session.timeout.ms" in text
    assert "is still connected: its process was stopped" in text


def test_3_a_member_that_comes_and_goes(situation: Situation) -> None:
    situation.create(2)
    situation.add("steady")
    for turn in count():
        flapper = situation.add("flapper")
        situation.wait_stable(2)
        situation.end(flapper)
        situation.wait_stable(1)
        if turn == 1:
            situation.check_well()  # twice may be a deployment
        if turn == 2:
            break
    assert "flapper at 127.0.0.1 came and went 3 times" in situation.wait_explained("flapping")


def test_4_more_members_than_partitions(situation: Situation) -> None:
    situation.create(2)
    for number in range(4):
        situation.add(f"member-{number}")
    situation.wait_stable(4)
    text = situation.wait_explained("idle-members")
    assert text.startswith("2 of 4 members have nothing to do")


@only_classic
def test_5_one_partition_that_gets_most_of_the_records(situation: Situation) -> None:
    situation.create(4)
    situation.add("one", work_ms=100)
    situation.add("two", work_ms=100)
    situation.wait_stable(2)
    situation.write(5, 1, 2, 3)
    situation.wait(lambda now: sum(each["committed"] or 0 for each in now["partitions"]) == 15)
    situation.write(1_000, 0)
    situation.wait(lambda now: now["lag"] > 100 and now["partitions"][0]["committed"] is not None)
    text = situation.wait_explained("hot-partition")
    assert text.startswith(f"{situation.topic}-0 has ")


@only_classic
def test_6_a_group_that_nobody_is_in(situation: Situation) -> None:
    situation.create(1)
    situation.write(5, 0)
    last = situation.add("last")
    situation.wait(lambda now: now["lag"] == 0 and len(now["members"]) == 1 and now["partitions"])
    situation.wait(lambda now: now["partitions"][0]["committed"] == 5)
    situation.end(last)
    situation.check_well()
    with situation.writing(0):
        text = situation.wait_explained("no-members")
        assert "the group has no members" in text
        until(lambda: "More come in" in situation.explain()["no-members"], situation.explain)


def test_7_two_members_with_one_instance_id(situation: Situation) -> None:
    situation.create(2)
    situation.add("original", group_instance_id="worker-1")
    situation.wait_stable(1)
    situation.add("copy", group_instance_id="worker-1")
    assert "'worker-1'" in situation.wait_explained("static-twin")


def test_8_a_member_that_holds_up_a_rebalance(situation: Situation) -> None:
    situation.create(2)
    situation.write(100, 0, 1)
    situation.add("ponderous", work_ms=150_000)  # long enough for a newcomer that starts slowly
    situation.wait_stable(1)
    situation.add("newcomer")
    text = situation.wait_explained("slow-rebalance")
    assert "ponderous" in text
    assert "newcomer" not in text


@only_classic
def test_9_a_member_that_is_slower_than_the_others(situation: Situation) -> None:
    situation.create(2)
    situation.add("slow", work_ms=200)
    situation.add("quick")
    situation.wait_stable(2)
    situation.write(1_000, 0, 1)
    text = situation.wait_explained("slow-member")
    assert text.startswith("slow at 127.0.0.1 has ")


def test_a_healthy_group_is_left_in_peace(situation: Situation) -> None:
    """While it starts, reads, grows, shrinks and is deployed anew."""
    situation.create(4)
    first = situation.add("one")
    situation.add("two")
    situation.wait_stable(2)
    situation.check_well()
    with situation.writing(0, 1, 2, 3):
        situation.check_well()
        third = situation.add("three")
        situation.wait_stable(3)
        situation.check_well()
        situation.end(third)
        situation.end(first)
        situation.add("one")
        situation.wait_stable(2)
        situation.check_well()
    situation.wait(lambda now: now["lag"] == 0)
    situation.check_well()

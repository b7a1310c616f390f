"""Whole histories of workers in virtual time: `live(seed)` runs one and raises if a promise broke.

The window under test is the real one; what a driver does around it is here, with every delay,
crash, pause and broker restart that a seed can think of.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from heapq import heappop, heappush
from random import Random
from typing import Any

from barnabas.client.workers.dead_letter_headers import Origin, trail_in
from barnabas.client.workers.policy import Policy, RecordOrder, Retry
from barnabas.client.workers.window.at_least_once import AtLeastOnce
from barnabas.client.workers.window.window import Window
from barnabas.client.workers.window.window_state import WindowState
from barnabas.model.ids import TopicPartition
from tests.client.workers.broker import Broker, Record
from tests.client.workers.worker import Worker

PEACE_MS = 1_200_000

Make = Callable[[Policy, dict[str, int]], Window[Any]]


def at_least_once(policy: Policy, counts: dict[str, int]) -> Window[AtLeastOnce]:
    state = WindowState(policy, counts)
    return Window(state, AtLeastOnce(state))


class Temper:
    """How a record behaves: fails so often, then succeeds; takes so long."""

    def __init__(self, random: Random, can_hang: bool) -> None:
        chance = random.random()
        self.failures = 0
        self.reject = False
        self.hangs = 0  # calls that end only when cancelled
        if chance < 0.12:
            self.failures = 10**9
        elif chance < 0.16:
            self.failures, self.reject = 10**9, True
        elif chance < 0.3:
            self.failures = random.randint(1, 3)
        elif chance < 0.34 and can_hang:
            self.hangs = 1
        self.ms = random.choice((1, 5, 20, 100)) if random.random() < 0.9 else 4_000

    @property
    def poison(self) -> bool:
        return self.failures > 1_000


class Life:
    """One history."""

    def __init__(self, seed: int, make: Make = at_least_once) -> None:
        self.random = random = Random(seed)
        self.make = make
        self.now = 1_000_000
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self.faults = random.choice((0.0, 0.05, 0.2))
        self.retry_topic = "orders.retry" if random.random() < 0.6 else None
        timeout = random.choice((None, 2_000, 6_000))
        self.policy = Policy(
            group="billing",
            order=random.choice(tuple(RecordOrder)),
            window=random.choice((4, 20, 100)),
            concurrency=random.choice((1, 3, 16)),
            retry=Retry(
                random.randint(0, 2),
                backoff=(0.1, 1.0),
                rounds=random.randint(1, 2),
                delay=(0.5, 3.0),
            ),
            retry_topic=self.retry_topic,
            dlq="orders.dlq",
            timeout_ms=timeout,
            commit_interval_ms=random.choice((0, 100, 1_000)),
            drain_ms=random.choice((0, 500, 3_000)),
        )
        topics = {"orders": random.randint(1, 3), "orders.dlq": random.randint(1, 2)}
        read = ["orders"]
        if self.retry_topic is not None:
            topics[self.retry_topic] = random.randint(1, 2)
            read.append(self.retry_topic)
        self.broker = Broker(topics, read, random)
        self.tempers: dict[Origin, Temper] = {}
        self.handled: Counter[Origin] = Counter()
        self.succeeded: set[Origin] = set()
        self.finished: set[tuple[str, int, int]] = set()
        self.left: set[tuple[str, int, int]] = set()  # for another topic
        self._prefixes: dict[TopicPartition, int] = {}
        self.letters: dict[Origin, str] = {}
        self.retried: set[tuple[Origin, int]] = set()
        self.workers: list[Worker] = []
        self._started = 0
        self._produce(random.randint(10, 60), can_hang=timeout is not None)

    def policy_now(self) -> Policy:
        """A deployment may come with a smaller or larger window."""
        if self.random.random() < 0.1:
            return replace(self.policy, window=self.random.choice((2, 50)))
        return self.policy

    def _produce(self, count: int, can_hang: bool) -> None:
        for number in range(count):
            self.after(self.random.randrange(20_000), partial(self._produce_one, number, can_hang))

    def _produce_one(self, number: int, can_hang: bool) -> None:
        partition = self.random.randrange(self.broker.counts["orders"])
        at = TopicPartition("orders", partition)
        key = self.random.choice((None, b"a", b"b", b"c"))
        headers = (("number", str(number).encode()),)
        record = self.broker.append(at, key, b"%d" % number, self.now, headers)
        origin = Origin(at.topic, at.partition, record.offset)
        self.tempers[origin] = Temper(self.random, can_hang)

    # Time

    def after(self, ms: int, act: Callable[[], None]) -> None:
        self._count += 1
        heappush(self._heap, (self.now + ms, self._count, act))

    def run_until(self, end: int, done: Callable[[], bool] | None = None) -> bool:
        steps = 0
        while self._heap and self._heap[0][0] <= end:
            self.now, _, act = heappop(self._heap)
            act()
            steps += 1
            if done is not None and steps % 50 == 0 and done():
                return True
        self.now = max(self.now, end)
        return False

    # What must hold

    def origin_of(self, record: object) -> Origin:
        assert isinstance(record, Record)
        if record.topic == "orders":
            return Origin(record.topic, record.partition, record.offset)
        trail = trail_in(record.headers)
        assert trail is not None
        return trail.origin

    def cause_of(self, origin: Origin) -> str:
        return f"ValueError: {origin} is bad"

    def held_before(self, at: TopicPartition, offset: int) -> int:
        """How many records would be handled again, from the first unfinished one to this."""
        first = self._prefixes.get(at, 0)
        while (*at, first) in self.finished:
            first += 1
        self._prefixes[at] = first
        return sum((*at, each) not in self.left for each in range(first, offset))

    def check_commit(self, offsets: dict[TopicPartition, tuple[int, str]]) -> None:
        for at, (offset, _) in offsets.items():
            for earlier in range(offset):
                assert (at.topic, at.partition, earlier) in self.finished, (
                    f"{at} committed at {offset}, but {earlier} is not finished"
                )

    def check_letter(self, record: Record) -> None:
        trail = trail_in(record.headers)
        assert trail is not None
        original = self.broker.logs[TopicPartition("orders", trail.origin.partition)][
            trail.origin.offset
        ]
        assert (record.key, record.value) == (original.key, original.value)
        assert original.headers[0] in record.headers
        if record.topic == self.retry_topic:
            assert (trail.origin, trail.round) not in self.retried, f"{trail} retried twice"
            self.retried.add((trail.origin, trail.round))
            return
        assert trail.origin not in self.letters, f"{trail.origin} is dead twice"
        self.letters[trail.origin] = trail.cause

    def all_done(self) -> bool:
        return all(
            self.broker.offsets.get(at, (0, ""))[0] == len(self.broker.logs[at])
            for at in self.broker.read
        )

    def check_end(self) -> None:
        for origin, temper in self.tempers.items():
            if temper.poison:
                cause = self.letters.get(origin)
                assert cause is not None, f"poison {origin} is not in the dead-letter topic"
                assert cause == self.cause_of(origin) or cause.startswith("TimeoutError"), cause
            else:
                dead = origin in self.letters
                assert origin in self.succeeded or dead, f"{origin} is lost"
                tries = self.policy.retry.times + 1
                allowed = tries * (self.policy.retry.rounds + 1 if self.retry_topic else 1)
                patient = temper.failures + temper.hangs < allowed and self.calm(temper)
                assert not (dead and patient), f"healthy {origin} is dead: {self.letters[origin]}"

    def calm(self, temper: Temper) -> bool:
        """It always ends before its time is up."""
        limit = self.policy.timeout_ms
        return limit is None or temper.ms < limit

    # What happens

    def run(self) -> None:
        for _ in range(self.random.randint(1, 3)):
            self._start_worker()
        self.after(1_000, self._expire)
        end = self.now + self.random.choice((20_000, 40_000))
        while self.now < end:
            self.run_until(self.now + self.random.randrange(1, 3_000))
            if self.random.random() < 0.6:
                self._trouble()
        self.faults = 0.0
        self.broker.start_again(self.now)
        if not any(worker.alive and not worker.stopping for worker in self.workers):
            self._start_worker()
        quiet = self.run_until(self.now + PEACE_MS, self.all_done)
        assert quiet, "the workers never came to the end"
        self.run_until(self.now + 61_000)  # the last delayed produce has come by then
        self.check_end()

    def _start_worker(self) -> None:
        self._started += 1
        self.workers.append(Worker(self, self._started))

    def _expire(self) -> None:
        self.after(500, self._expire)
        if self.broker.up:
            self.broker.expire(self.now)

    def _trouble(self) -> None:
        chance = self.random.random()
        alive = [worker for worker in self.workers if worker.alive]
        if chance < 0.3 and alive:
            self.random.choice(alive).crash()
            self.after(self.random.randrange(8_000), self._start_worker)
        elif chance < 0.5 and alive:
            self.random.choice(alive).pause(self.random.choice((500, 5_000, 15_000, 40_000)))
        elif chance < 0.65 and len(alive) < 4:
            self._start_worker()
        elif chance < 0.75 and alive:
            self.random.choice(alive).stop()
        elif chance < 0.9:
            self.broker.up = False
            self.after(self.random.randrange(100, 5_000), lambda: self.broker.start_again(self.now))
        elif alive:
            self.broker.rebalance()


def live(seed: int, make: Make = at_least_once) -> None:
    """One whole history from a seed."""
    Life(seed, make).run()

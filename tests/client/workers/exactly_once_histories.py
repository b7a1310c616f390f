"""Whole histories of workers that write exactly once: `live(seed)` raises if a promise broke.

In some histories the first workers are of the other kind, at least once: those that follow must
complete the intents that they left.
"""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

from barnabas.client.producer.record import ProducerRecord
from barnabas.client.workers.dead_letter_headers import Origin, trail_in
from barnabas.client.workers.policy import Policy, RecordOrder
from barnabas.client.workers.window.exactly_once import ExactlyOnce
from barnabas.client.workers.window.outbox import LetterOutbox
from barnabas.client.workers.window.window import Window
from barnabas.client.workers.window.window_partition import WindowRecord
from barnabas.client.workers.window.window_state import WindowState
from barnabas.model.ids import TopicPartition
from tests.client.workers.histories import Life, Make, Temper, at_least_once
from tests.client.workers.transactional_broker import REFUSED, TransactionalBroker, Txn
from tests.client.workers.transactional_worker import TransactionalWorker
from tests.client.workers.worker import Worker

OUT = "out"


def exactly_once(policy: Policy, counts: dict[str, int]) -> Window[ExactlyOnce]:
    state = WindowState(policy, counts)
    return Window(state, ExactlyOnce(state))


class PlainWorker(Worker):
    """At least once, and its handlers have no results. It reads committed records."""

    life: "TransactionalLife"
    look_up = TransactionalWorker.look_up
    poll = TransactionalWorker.poll

    def ended(self, entry: WindowRecord, call: int, cause: str | None, reject: bool) -> None:
        if cause is not None:
            super().ended(entry, call, cause, reject)
        elif self.calls.get(entry) == call:
            self.forget(entry)
            record = entry.record
            self.life.succeeded.add(self.life.origin_of(record))
            self.life.plainly.add((record.topic, record.partition, record.offset))
            self.do(self.window.succeeded(entry, self.life.now))


class TransactionalLife(Life):
    """One history."""

    broker: TransactionalBroker

    def __init__(self, seed: int, make: Make = exactly_once) -> None:
        self._checked: dict[TopicPartition, int] = {}
        self.plainly: set[tuple[str, int, int]] = set()  # handled at least once, without results
        super().__init__(seed, make)
        self.others = Random(seed + 1)  # chance of its own: the records stay the same
        counts = {**self.broker.counts, OUT: 2}
        read = ["orders", *([self.retry_topic] if self.retry_topic else [])]
        self.broker = TransactionalBroker(counts, read, self.random, self.after, self.check_txn)
        self.plain_until = self.now + (15_000 if self.others.random() < 0.3 else 0)
        self.visible: Counter[bytes] = Counter()
        self.by_lane: dict[tuple[int, bytes | None], int] = {}
        self.after(500, self._time_out)

    def transactional_id(self, name: int) -> str:
        """Some workers have the id of one that was there before, and that may only be paused."""
        before = [
            worker.name_of_transactions
            for worker in self.workers
            if isinstance(worker, TransactionalWorker)
            and (not worker.alive or self.now < worker.paused_until)
        ]
        if before and self.others.random() < 0.4:
            return self.others.choice(before)
        return f"billing-{name}"

    def start_again(self) -> None:
        """After a worker that stopped by itself."""
        self.after(self.others.randrange(5_000), self._start_worker)

    def _time_out(self) -> None:
        self.after(500, self._time_out)
        if self.broker.up:
            self.broker.time_out(self.now)

    def _start_worker(self) -> None:
        self._started += 1
        if self.now < self.plain_until:
            made, self.make = self.make, at_least_once
            self.workers.append(PlainWorker(self, self._started))
            self.make = made
        else:
            self.workers.append(TransactionalWorker(self, self._started))

    def _trouble(self) -> None:
        super()._trouble()
        if self.now >= self.plain_until:
            for worker in self.workers:
                if worker.alive and isinstance(worker, PlainWorker):
                    worker.crash()
                    self._start_worker()

    # Results

    def results_of(self, origin: Origin, key: bytes | None) -> tuple[ProducerRecord, ...]:
        number = origin.offset % 4
        if self.is_refused(origin):
            number, value = 1, REFUSED
        to = origin.partition % 2
        return tuple(
            ProducerRecord(
                OUT,
                value if self.is_refused(origin) else f"{origin}#{each}".encode(),
                key,
                (("at", str(origin).encode()),),
                to,
            )
            for each in range(number)
        )

    def is_refused(self, origin: Origin) -> bool:
        return origin.offset % 11 == 7 and not self.tempers[origin].poison

    # What must hold

    def held_before(self, at: TopicPartition, offset: int) -> int:
        """How many records would be handled again, from the first unfinished one to this."""
        found, _ = self.broker.fetch(at, self._checked.get(at, 0), 10**9)
        done = self.finished | self.plainly
        return sum(
            (*at, one.offset) not in done and (*at, one.offset) not in self.left
            for one in found
            if one.offset < offset
        )

    def check_commit(self, offsets: dict[TopicPartition, tuple[int, str]]) -> None:
        """Of a worker that is at least once."""
        for at, (offset, _) in offsets.items():
            found, _ = self.broker.fetch(at, self._checked.get(at, 0), 10**9)
            for one in found:
                here = (*at, one.offset)
                if one.offset < offset:
                    assert here in self.finished or here in self.plainly, f"{here} is not finished"
                    self.finished.add(here)

    def check_txn(self, txn: Txn) -> None:
        """A committed transaction has become visible."""
        for record in txn.written:
            if record.topic == OUT:
                value = record.value or b""
                self.visible[value] += 1
                assert self.visible[value] == 1, f"{value.decode()} is written twice"
                self._check_order(value, record.key)
            else:
                self.check_letter(record)
        for at, (offset, metadata) in txn.offsets.items():
            gone = LetterOutbox(offset, metadata).gone
            for each in (*range(self._checked.get(at, 0), offset), *gone):
                self._finish(at, each)
            self._checked[at] = max(self._checked.get(at, 0), offset)

    def _check_order(self, value: bytes, key: bytes | None) -> None:
        """Records of a lane that did not go through the retry topic are written in order."""
        if self.policy.order is RecordOrder.NONE or (key is None and self._by_key()):
            return
        text, _, _ = value.decode().rpartition("#")
        _, partition, offset = text.split(":")
        origin = Origin("orders", int(partition), int(offset))
        if any(each == origin for each, _ in self.retried):
            return
        lane = (origin.partition, key if self._by_key() else b"")
        last = self.by_lane.get(lane, -1)
        assert last <= origin.offset, f"{origin} is written after offset {last} of its lane"
        self.by_lane[lane] = origin.offset

    def _by_key(self) -> bool:
        return self.policy.order is RecordOrder.KEY

    def _finish(self, at: TopicPartition, offset: int) -> None:
        """The group says that this record is finished: its effects must be visible."""
        found, _ = self.broker.fetch(at, offset, 1)
        if not found or found[0].offset != offset or (*at, offset) in self.finished:
            return
        record = found[0]
        origin = self.origin_of(record)
        round_ = 0
        if record.topic == self.retry_topic:
            trail = trail_in(record.headers)
            assert trail is not None
            round_ = trail.round
        moved = origin in self.letters or (origin, round_ + 1) in self.retried
        if not moved:
            assert origin in self.succeeded, f"{at}:{offset} is not handled"
            for result in self.results_of(origin, record.key):
                assert result.value in self.visible, f"{at}:{offset} lacks {result.value!r}"
        self.finished.add((*at, offset))

    def all_done(self) -> bool:
        for at in self.broker.read:
            offset = max(self.broker.offsets.get(at, (0, ""))[0], 0)
            found, end = self.broker.fetch(at, offset, 1)
            if found or end < len(self.broker.logs[at]):
                return False
        return True

    def check_end(self) -> None:
        for origin, temper in self.tempers.items():
            dead = origin in self.letters
            there = {one for one in self.visible if one.startswith(f"{origin}#".encode())}
            assert not (dead and there), f"{origin} is dead and has results"
            if dead:
                cause = self.letters[origin]
                assert self.may_die(origin, temper), f"healthy {origin} is dead: {cause}"
                continue
            assert not temper.poison, f"poison {origin} is not in the dead-letter topic"
            assert origin in self.succeeded, f"{origin} is lost"
            if (origin.topic, origin.partition, origin.offset) in self.plainly or (
                any(each == origin for each, _ in self.retried) and self.plainly
            ):
                continue
            assert not self.is_refused(origin), f"{origin} is refused, and not dead"
            wanted = {one.value for one in self.results_of(origin, None)}
            assert there == wanted, f"{origin} has {there} of {wanted}"

    def may_die(self, origin: Origin, temper: Temper) -> bool:
        tries = self.policy.retry.times + 1
        allowed = tries * (self.policy.retry.rounds + 1 if self.retry_topic else 1)
        if temper.poison:
            return True
        patient = temper.failures + temper.hangs < allowed and self.calm(temper)
        return not patient or self.is_refused(origin)


def live(seed: int, make: Callable[..., Any] = exactly_once) -> None:
    """One whole history from a seed."""
    TransactionalLife(seed, make).run()

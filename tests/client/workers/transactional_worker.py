"""A worker process that writes exactly once: a real window, and what its driver does with a
transactional producer. Every request may be lost or late, and so may every answer.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.client.producer.record import ProducerRecord
from barnabas.client.workers.window.effects import Effect, WriteTransaction
from barnabas.client.workers.window.exactly_once import AbortCause
from barnabas.client.workers.window.window_partition import WindowRecord
from barnabas.model.ids import TopicPartition
from tests.client.workers.transactional_broker import REFUSED, TxnAnswer
from tests.client.workers.worker import POLL_MAX, Worker

if TYPE_CHECKING:
    from tests.client.workers.exactly_once_histories import TransactionalLife

DELIVERIES_MAX = 3


class Writing:
    """One transaction, step by step."""

    def __init__(self, worker: "TransactionalWorker", effect: WriteTransaction) -> None:
        self.worker = worker
        self.broker = worker.life.broker
        self.effect = effect
        # Of the moment in which the window chose its records.
        self.member, self.generation = worker.member, worker.epoch
        self.name, self.epoch = worker.name_of_transactions, worker.producer_epoch
        self.batches: dict[TopicPartition, list[ProducerRecord]] = {}
        for entry in effect.entries:
            for record in entry.results:
                to = TopicPartition(record.topic, record.partition or 0)
                self.batches.setdefault(to, []).append(record)
        self.cause: AbortCause | None = None
        self.culprit: WindowRecord | None = None
        self.ending = False

    def start(self) -> None:
        if self.member is None:
            self.worker.after(1, lambda: self.told(AbortCause.PASSING))
            return
        for entry in self.effect.entries:
            too_large = any(one.value == REFUSED for one in entry.results)
            if too_large and self.worker.random.random() < 0.3:
                self.culprit = entry  # the producer itself refuses it
                self.abort(AbortCause.REFUSED)
                return
        if not self.batches:
            self.commit_offsets()
        for sequence, (to, records) in enumerate(list(self.batches.items())):
            self.produce(sequence, to, records, 1)

    def produce(
        self, sequence: int, to: TopicPartition, records: list[ProducerRecord], attempt: int
    ) -> None:
        worker, life = self.worker, self.worker.life

        def act() -> Callable[[], None]:
            name, epoch = self.name, self.epoch
            answer = self.broker.write(name, epoch, sequence, to, records, life.now)
            return lambda: answered(answer)

        def answered(answer: TxnAnswer) -> None:
            if self.ending or to not in self.batches:
                return
            if answer is TxnAnswer.DONE:
                del self.batches[to]
                if not self.batches:
                    self.commit_offsets()
            elif answer is TxnAnswer.AGAIN:
                worker.after(20, lambda: self.produce(sequence, to, records, attempt))
            elif answer is TxnAnswer.REFUSED:
                self.abort(AbortCause.REFUSED)
            else:
                self.abort(AbortCause.PASSING)

        def unanswered() -> None:
            if self.ending or to not in self.batches:
                return
            if attempt >= DELIVERIES_MAX:
                self.abort(AbortCause.PASSING)
            else:
                self.produce(sequence, to, records, attempt + 1)

        worker.write(act, unanswered)

    def commit_offsets(self) -> None:
        worker, life = self.worker, self.worker.life
        offsets = {at: (offset, text) for at, (offset, _, text) in self.effect.offsets.items()}

        def act() -> Callable[[], None]:
            assert self.member is not None
            answer = self.broker.commit_offsets(
                self.name, self.epoch, self.member, self.generation, offsets, life.now
            )
            return lambda: answered(answer)

        def answered(answer: TxnAnswer) -> None:
            if answer is TxnAnswer.DONE:
                self.end(commit=True)
            elif answer is TxnAnswer.AGAIN:
                worker.after(20, self.commit_offsets)
            else:
                self.abort(AbortCause.PASSING)

        worker.ask(act, lambda: self.abort(AbortCause.PASSING))

    def abort(self, cause: AbortCause) -> None:
        self.cause = cause
        self.end(commit=False)

    def end(self, *, commit: bool) -> None:
        worker = self.worker
        self.ending = True

        def act() -> Callable[[], None]:
            answer, epoch = self.broker.end(self.name, self.epoch, commit=commit)
            return lambda: answered(answer, epoch)

        def answered(answer: TxnAnswer, epoch: int) -> None:
            if answer is TxnAnswer.DONE:
                worker.producer_epoch = epoch
                self.told(self.cause)
            elif answer is TxnAnswer.AGAIN:
                worker.after(20, lambda: self.end(commit=commit))
            elif answer is TxnAnswer.ABORT and commit:
                self.abort(AbortCause.PASSING)
            else:
                worker.cannot_go_on(self.effect.number)

        worker.ask(act, lambda: self.end(commit=commit))

    def told(self, cause: AbortCause | None) -> None:
        worker, now = self.worker, self.worker.life.now
        number, commits = self.effect.number, self.worker.commits
        if cause is None:
            worker.do(commits.committed(number, now))
        else:
            detail = "MESSAGE_TOO_LARGE: it is refused"
            worker.do(commits.aborted(number, cause, detail, now, culprit=self.culprit))


class TransactionalWorker(Worker):
    life: "TransactionalLife"
    writing = Writing

    def __init__(self, life: "TransactionalLife", name: int) -> None:
        self.name_of_transactions = life.transactional_id(name)
        self.producer_epoch = -1
        super().__init__(life, name)

    def beat(self) -> None:
        """It joins the group once it has ended what an earlier producer of its id left open."""
        if self.producer_epoch >= 0:
            super().beat()
            return

        def act() -> Callable[[], None]:
            epoch = self.life.broker.init(self.name_of_transactions)

            def inited() -> None:
                if epoch is not None and self.producer_epoch < 0:
                    self.producer_epoch = epoch
                self.after(20, self.beat)

            return inited

        self.ask(act, self.beat)

    def cannot_go_on(self, number: int) -> None:
        self.do(self.commits.ended(number, self.life.now))
        self.stop()
        self.life.start_again()

    def look_up(self, at: TopicPartition) -> None:
        member = self.member

        def again() -> None:
            if self.owned.get(at) is False and self.member == member:
                self.look_up(at)

        def act() -> Callable[[], None]:
            if self.life.broker.is_pending(at):
                return lambda: self.after(50, again)
            offset, metadata = self.life.broker.offsets.get(at, (-1, ""))
            return lambda: self.given(at, member, offset, metadata)

        self.ask(act, again)

    def poll(self) -> None:
        self.after(self.random.choice((10, 30)), self.poll)
        if not self.life.broker.up:
            return
        for at, known in list(self.owned.items()):
            if known and at not in self.paused and at not in self.releasing:
                position = self.positions[at]
                count = self.random.randint(1, POLL_MAX)
                records, end = self.life.broker.fetch(at, position, count)
                self.positions[at] = end
                if records:
                    effects = self.window.fetched(at, records, self.life.now)
                    wanted_from = self.window.wanted_from(at)
                    if wanted_from is not None and wanted_from <= records[-1].offset:
                        self.positions[at] = wanted_from
                    self.do(effects)

    def do(self, effects: list[Effect]) -> None:
        writes = [effect for effect in effects if isinstance(effect, WriteTransaction)]
        super().do(effects)
        for effect in writes:
            self.writing(self, effect).start()

    def ended(self, entry: WindowRecord, call: int, cause: str | None, reject: bool) -> None:
        if cause is not None:
            super().ended(entry, call, cause, reject)
            return
        if self.calls.get(entry) != call:
            return
        self.forget(entry)
        origin = self.life.origin_of(entry.record)
        self.life.succeeded.add(origin)
        results = self.life.results_of(origin, entry.record.key)
        self.do(self.window.succeeded(entry, self.life.now, results))

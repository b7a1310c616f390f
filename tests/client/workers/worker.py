"""One worker process of a history: a real window, and around it what a driver does.

Requests to the coordinator arrive in order, perhaps late, perhaps without an answer. A produce
may arrive at any time, even when the process that sent it is long gone.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from barnabas.client.workers.policy import RecordOrder
from barnabas.client.workers.window.effects import (
    Cancel,
    Commit,
    Effect,
    Fail,
    Identify,
    Pause,
    Release,
    Resume,
    SendLetter,
    Start,
)
from barnabas.client.workers.window.outbox import LetterOutbox, LetterProducer
from barnabas.client.workers.window.window import Window
from barnabas.client.workers.window.window_partition import WindowRecord
from barnabas.client.workers.window.window_state import LAST_COMMIT_MS
from barnabas.model.ids import TopicPartition
from tests.client.workers.broker import Answer, Record

if TYPE_CHECKING:
    from tests.client.workers.histories import Life

POLL_MAX = 10
REQUEST_MS = 1_000
HEARTBEAT_MS = 400


class Worker:
    """One process: a window, and around it what a driver does."""

    def __init__(self, life: "Life", name: int) -> None:
        self.life = life
        self.name = name
        self.random = life.random
        self.policy = life.policy_now()
        self.window: Window[Any] = life.make(self.policy, life.broker.counts)
        self.commits = self.window.guarantee
        self.life_number = 0
        self.alive = True
        self.paused_until = 0
        self.inbox: list[Callable[[], None]] = []
        self.member: int | None = None
        self.epoch = 0
        self.owned: dict[TopicPartition, bool] = {}  # True once its offset is known
        self.positions: dict[TopicPartition, int] = {}
        self.intents: dict[TopicPartition, int] = {}  # of the worker before us
        self.paused: set[TopicPartition] = set()
        self.releasing: dict[TopicPartition, int] = {}
        self.calls: dict[WindowRecord, int] = {}
        self.lanes: dict[tuple[TopicPartition, int, bytes | None], WindowRecord] = {}
        self.last: dict[tuple[TopicPartition, int, bytes], int] = {}
        self.stopping = False
        self.channel_free_at = 0
        self.timer_at: int | None = None
        self.after(self.random.randrange(50), self.beat)
        self.after(self.random.randrange(50), self.poll)

    # Time passes here only while the process runs

    def after(self, ms: int, act: Callable[[], None]) -> None:
        def arrive() -> None:
            if not self.alive:
                return
            if self.life.now < self.paused_until:
                self.inbox.append(act)
            else:
                act()

        self.life.after(ms, arrive)

    def pause(self, ms: int) -> None:
        """As SIGSTOP does; what came meanwhile is seen afterwards."""
        self.paused_until = self.life.now + ms

        def go_on() -> None:
            if self.life.now >= self.paused_until:
                waiting, self.inbox = self.inbox, []
                self.random.shuffle(waiting)
                for act in waiting:
                    if self.alive:
                        act()

        self.life.after(ms, go_on)

    def crash(self) -> None:
        self.alive = False

    # Requests

    def ask(self, act: Callable[[], Callable[[], None]], unanswered: Callable[[], None]) -> None:
        """One request on the connection to the coordinator: in order, perhaps never answered."""
        life = self.life
        delay = self.random.choice((1, 3, 10, 40))
        if self.random.random() < life.faults * 0.3:
            delay += self.random.randrange(3_000)
        self.channel_free_at = max(life.now + delay, self.channel_free_at + 1)
        self._send(self.channel_free_at - life.now, act, unanswered)

    def write(self, act: Callable[[], Callable[[], None]], unanswered: Callable[[], None]) -> None:
        """A produce: any connection, any time, even long after this process is gone."""
        delay = self.random.choice((1, 5, 20))
        if self.random.random() < self.life.faults:
            delay = self.random.choice((500, 3_000, 20_000, 60_000))
        self._send(delay, act, unanswered)

    def _send(
        self, delay: int, act: Callable[[], Callable[[], None]], unanswered: Callable[[], None]
    ) -> None:
        life = self.life
        heard = [False]

        def once(then: Callable[[], None]) -> Callable[[], None]:
            def hear() -> None:
                if not heard[0]:
                    heard[0] = True
                    then()

            return hear

        def arrive() -> None:
            if not life.broker.up:
                return
            then = act()
            if self.random.random() >= life.faults * 0.3:
                self.after(self.random.choice((1, 5, 20)), once(then))

        if self.random.random() >= life.faults * 0.2:
            life.after(delay, arrive)
        self.after(REQUEST_MS + delay % 500, once(unanswered))

    # The group

    def beat(self) -> None:
        life = self.life
        self.after(HEARTBEAT_MS, self.beat)
        if not life.broker.up or self.random.random() < life.faults * 0.3:
            return
        if self.stopping and not self.owned:
            if self.member is not None:
                life.broker.leave(self.member)
            self.crash()
            return
        if self.member is None:
            if not self.stopping:
                self.member = life.broker.join(life.now)
            return
        told = life.broker.heartbeat(self.member, set(self.owned), life.now)
        if told is None:
            self.out()
            return
        self.epoch = told.epoch
        self.let_go([at for at in self.owned if at not in told.keep])
        for at in told.keep:
            if at not in self.owned and not self.stopping:
                self.owned[at] = False
                self.look_up(at)

    def out(self) -> None:
        """The group goes on without us."""
        self.member = None
        lost, self.owned = list(self.owned), {}
        self.releasing.clear()
        self.do(self.window.lost(lost, self.life.now))

    def let_go(self, partitions: list[TopicPartition]) -> None:
        now = self.life.now
        taken = [at for at in partitions if at not in self.releasing]
        for at in taken:
            self.releasing[at] = now
        self.do(self.window.revoke(taken, now))

    def look_up(self, at: TopicPartition) -> None:
        member = self.member

        def act() -> Callable[[], None]:
            offset, metadata = self.life.broker.offsets.get(at, (-1, ""))
            return lambda: self.given(at, member, offset, metadata)

        def again() -> None:
            if self.owned.get(at) is False and self.member == member:
                self.look_up(at)

        self.ask(act, again)

    def given(self, at: TopicPartition, member: int | None, offset: int, metadata: str) -> None:
        if self.owned.get(at) is not False or self.member != member or at in self.releasing:
            return
        self.owned[at] = True
        self.positions[at] = max(offset, 0)
        self.paused.discard(at)
        intent = LetterOutbox(offset, metadata).intent
        self.intents[at] = -1 if intent is None else intent.offset
        self.do(self.window.given(at, offset, metadata, self.life.now))

    def stop(self) -> None:
        self.stopping = True
        self.let_go(list(self.owned))

    # Records

    def poll(self) -> None:
        self.after(self.random.choice((10, 30)), self.poll)
        if not self.life.broker.up:
            return
        for at, known in list(self.owned.items()):
            if known and at not in self.paused and at not in self.releasing:
                log = self.life.broker.logs[at]
                position = self.positions[at]
                records = log[position : position + self.random.randint(1, POLL_MAX)]
                if records:
                    effects = self.window.fetched(at, records, self.life.now)
                    wanted_from = self.window.wanted_from(at)
                    self.positions[at] = position + len(records)
                    if wanted_from is not None:
                        self.positions[at] = min(wanted_from, self.positions[at])
                    self.do(effects)

    def do(self, effects: list[Effect]) -> None:
        commits = [effect for effect in effects if isinstance(effect, Commit)]
        if commits:
            self.commit(commits)
        for effect in effects:
            match effect:
                case Start():
                    self.start(effect.entry)
                case Cancel():
                    self.cancel(effect.entry)
                case Pause():
                    self.paused.add(effect.at)
                case Resume():
                    self.paused.discard(effect.at)
                case Identify():
                    self.identify(effect)
                case SendLetter():
                    self.send(effect)
                case Release():
                    self.released(effect.at)
                case Fail():
                    raise AssertionError(f"{effect.at}: {effect.detail}")
                case Commit():
                    pass
        self.set_timer()

    def set_timer(self) -> None:
        due = self.window.next_deadline()
        if due is not None and (self.timer_at is None or due < self.timer_at):
            self.timer_at = due
            self.after(max(due - self.life.now, 0), lambda: self.tick(due))

    def tick(self, due: int) -> None:
        if self.timer_at == due:
            self.timer_at = None
        self.do(self.window.tick(self.life.now))

    def released(self, at: TopicPartition) -> None:
        since = self.releasing.pop(at)
        late = self.life.now - since
        bound = self.life.policy.drain_ms + LAST_COMMIT_MS
        assert late <= bound or self.paused_until > since, f"{at} released after {late} ms"
        self.owned.pop(at, None)

    def start(self, entry: WindowRecord) -> None:
        life = self.life
        record = entry.record
        assert isinstance(record, Record)
        at = TopicPartition(record.topic, record.partition)
        if life.policy.order is not RecordOrder.NONE:
            key = record.key if life.policy.order is RecordOrder.KEY else b""
            if key is not None:
                lane = (at, entry.share.term, key)
                assert lane not in self.lanes, f"{entry} overlaps {self.lanes[lane]}"
                assert self.last.get(lane, -1) <= record.offset, f"{entry} runs out of order"
                self.lanes[lane] = entry
                self.last[lane] = record.offset
        assert len(self.calls) < life.policy.concurrency
        if record.offset > self.intents[at]:  # up to there it must read, however far it is
            held = life.held_before(at, record.offset)
            assert held < self.policy.window, f"{entry} runs {held} records ahead"
        origin = life.origin_of(record)
        temper = life.tempers[origin]
        life.handled[origin] += 1
        call = life.handled[origin]
        self.calls[entry] = call
        if call <= temper.hangs:
            return
        cause = life.cause_of(origin)
        if call - temper.hangs <= temper.failures:
            self.after(temper.ms, lambda: self.ended(entry, call, cause, temper.reject))
        else:
            self.after(temper.ms, lambda: self.ended(entry, call, None, False))

    def ended(self, entry: WindowRecord, call: int, cause: str | None, reject: bool) -> None:
        if self.calls.get(entry) != call:
            return
        self.forget(entry)
        record = entry.record
        if cause is None:
            self.life.succeeded.add(self.life.origin_of(record))
            self.life.finished.add((record.topic, record.partition, record.offset))
            self.do(self.window.succeeded(entry, self.life.now))
        else:
            self.do(self.window.failed(entry, cause, self.life.now, reject=reject))

    def cancel(self, entry: WindowRecord) -> None:
        """Asyncio functions end at once; blocking ones run on, and are heard of later."""
        call = self.calls.get(entry)
        if call is None:
            return
        if (
            self.random.random() < 0.7
            or call <= self.life.tempers[self.life.origin_of(entry.record)].hangs
        ):

            def end() -> None:
                if self.calls.get(entry) == call:
                    self.forget(entry)
                    self.do(self.window.cancelled(entry, self.life.now))

            self.after(1, end)

    def forget(self, entry: WindowRecord) -> None:
        del self.calls[entry]
        for lane, running in list(self.lanes.items()):
            if running is entry:
                del self.lanes[lane]

    # Answers

    def commit(self, commits: list[Commit]) -> None:
        offsets = {commit.at: (commit.offset, commit.metadata) for commit in commits}
        member, epoch = self.member, self.epoch
        life = self.life

        def answered(answer: Answer) -> None:
            for commit in commits:
                if answer is Answer.DONE:
                    self.do(self.commits.committed(commit.at, commit.term, life.now))
                elif answer is Answer.UNKNOWN and self.member == member:
                    self.out()
                else:
                    self.do(self.commits.commit_failed(commit.at, commit.term, life.now))

        def act() -> Callable[[], None]:
            answer = Answer.UNKNOWN
            if member is not None:
                answer = life.broker.commit(member, epoch, offsets)
            if answer is Answer.DONE:
                life.check_commit(offsets)
            return lambda: answered(answer)

        self.ask(act, lambda: answered(Answer.STALE))

    def identify(self, effect: Identify) -> None:
        life = self.life

        def act() -> Callable[[], None]:
            identity = LetterProducer(life.broker.producer_id(), 0)
            return lambda: self.do(
                self.commits.identified(effect.at, effect.term, identity, life.now)
            )

        self.write(
            act,
            lambda: self.do(self.commits.identify_failed(effect.at, effect.term, life.now)),
        )

    def send(self, effect: SendLetter) -> None:
        life = self.life

        def act() -> Callable[[], None]:
            answer, appended = life.broker.produce(effect, life.now)
            if appended is not None:
                life.check_letter(appended)
            if answer is Answer.OUT_OF_ORDER:
                return lambda: self.do(
                    self.commits.letters.send_out_of_order(effect.at, effect.term, life.now)
                )
            life.finished.add((*effect.at, effect.offset))
            life.left.add((*effect.at, effect.offset))
            return lambda: self.do(self.commits.letters.sent(effect.at, effect.term, life.now))

        self.write(
            act, lambda: self.do(self.commits.letters.send_failed(effect.at, effect.term, life.now))
        )

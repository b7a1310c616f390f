"""Random histories of a query of Spark that writes through group commits.

Drivers are killed at each step, or live on beside their successor; tasks are retried, run twice
(speculation), fail, or live on after their driver; replies are lost; the coordinator fails over and
loses what was not committed; time passes until transactions time out; an old copy of the
checkpoint is restored.
Always: a row (an offset of the source) is committed at most once, whatever happens; what is
committed are the first rows of the source, without a gap; when an answer says that a batch is
committed, no transaction that the request named is open.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from barnabas.coordinators.caller import Caller
from barnabas.coordinators.runtime import Now
from barnabas.coordinators.transactions.decision import Identity
from barnabas.coordinators.transactions.group_commit import AskedGroup
from barnabas.coordinators.transactions.limits import IdRoom, TransactionLimits
from barnabas.coordinators.transactions.markers import MarkersDue, MarkersWritten
from barnabas.coordinators.transactions.states import TransactionState
from barnabas.model.errors import Code
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from tests.coordinators.transactions.world import SHARD, Ids, OffsetJournal, World

GROUP = "q"
TASKS = 3
TOPIC = "t"
BATCH_ROWS = 4
BATCHES = 4
TIMEOUT_MS = 20_000
STEPS = 220
QUIET_STEPS_MAX = 4_000


class Broken(AssertionError):
    """A promise is broken."""


class Reply:
    def __init__(self, told: Callable[[Any], None]) -> None:
        self.told = told


class HistoryWorld(World):
    def deliver(self, answers: list[Any]) -> None:
        self._take_effects()
        for token, response in answers:
            token.told(response)


class TargetPartition:
    """The target partition: rows by producer, until a marker decides on them."""

    def __init__(self) -> None:
        self.open: dict[int, list[int]] = {}
        self.ends: dict[int, int] = {}  # by producer id: how many markers it has seen
        self.committed: list[int] = []

    def append(self, producer_id: int, seen: int, rows: list[int]) -> bool:
        """False after a marker that came since the coordinator was asked: the guard is gone."""
        if self.ends.get(producer_id, 0) != seen:
            return False
        self.open.setdefault(producer_id, []).extend(rows)
        return True

    def mark(self, due: MarkersDue) -> None:
        self.ends[due.producer_id] = self.ends.get(due.producer_id, 0) + 1
        rows = self.open.pop(due.producer_id, [])
        if due.commit:
            self.committed += rows


class SparkTask:
    """One attempt: initialises its id, writes, reports."""

    def __init__(self, history: "History", id_: str, rows: list[int]) -> None:
        self.history, self.id, self.rows = history, id_, rows
        self.identity: Identity | None = None
        self.waits = self.done = self.failed = False

    def step(self) -> None:
        if self.waits or self.done or self.failed:
            return
        self.waits = True
        if self.identity is None:
            self.history.init(self.id, self._initialised)
        else:
            self.history.produce(self.id, self.identity, self.rows, self._written)

    def unanswered(self) -> None:
        """A request or its reply was lost: asked again."""
        if self.waits and not self.done:
            self.waits = False

    def _initialised(self, code: Code, identity: Identity) -> None:
        self.waits = False
        if code is Code.NONE:
            self.identity = identity

    def _written(self, code: Code) -> None:
        if self.done:
            return
        self.waits = False
        self.done = code is Code.NONE
        self.failed = code not in (Code.NONE, Code.CONCURRENT_TRANSACTIONS)


class Driver:
    """Runs batch after batch from a checkpoint."""

    def __init__(self, history: "History") -> None:
        self.history = history
        self.stopped = ""
        self.tasks: dict[int, list[SparkTask]] = {}
        self.number = -1
        self.asked: AskedGroup | None = None
        self.waits = False

    def step(self) -> None:
        history, random = self.history, self.history.random
        if self.stopped or self.waits:
            return
        if self.number < 0:
            self._plan()
        elif self.asked is not None:
            self.waits = True
            history.end_group(self.asked, self._answered)
        elif all(any(task.done for task in tries) for tries in self.tasks.values()):
            self._ask()
        else:
            tries = random.choice(list(self.tasks.values()))
            speculate = len(tries) == 1 and random.random() < 0.1
            if (all(task.failed for task in tries) or speculate) and len(tries) < 4:
                self._launch(tries)
            elif all(task.failed for task in tries):
                self.stopped = "a task failed four times"
            random.choice(tries).step()

    def _plan(self) -> None:
        log = self.history.checkpoint
        number = log.committed + 1
        if number >= BATCHES:
            self.stopped = "all batches are done"
            return
        if number not in log.planned:
            start = log.planned[number - 1][1] if number else 0
            size = BATCH_ROWS + self.history.random.randrange(3)
            log.planned[number] = (start, start + size)
        self.number = number
        start, end = log.planned[number]
        rows: list[list[int]] = [[] for _ in range(TASKS)]
        for row in range(start, end):  # a rerun places rows elsewhere
            self.history.random.choice(rows).append(row)
        self.tasks = {}
        for partition, some in enumerate(rows):
            if some:
                self.tasks[partition] = []
                self._launch(self.tasks[partition], partition, some)

    def _launch(
        self, tries: list[SparkTask], partition: int = -1, rows: list[int] | None = None
    ) -> None:
        if rows is None:
            partition = next(number for number, each in self.tasks.items() if each is tries)
            rows = tries[0].rows
        task = SparkTask(self.history, f"{GROUP}/{partition}/{len(tries)}", rows)
        tries.append(task)
        self.history.tasks.append(task)

    def _ask(self) -> None:
        chosen = [
            self.history.random.choice([task for task in tries if task.done])
            for tries in self.tasks.values()
        ]
        start, end = self.history.checkpoint.planned[self.number]
        named = {task.id: task.identity for task in chosen if task.identity is not None}
        self.asked = AskedGroup(GROUP, True, self.number, f"{start}-{end}", f"{end}", named)

    def _answered(self, response: Any) -> None:
        self.waits = False
        asked, code = self.asked, Code.of(response.error_code)
        if asked is None:
            return
        if code is Code.NONE:
            self.history.check_ended(asked)
            log = self.history.checkpoint
            if self.history.random.random() < 0.15 and not self.history.quiet:
                self.stopped = "killed between the commit and Spark's commit log"
                return
            log.committed = max(log.committed, self.number)
            self.number, self.asked = -1, None
        elif code is Code.INVALID_TXN_STATE:
            self.stopped = "the batch must be run again"
        elif code is Code.OUT_OF_ORDER_SEQUENCE_NUMBER:
            self.stopped = "refused"

    def unanswered(self) -> None:
        self.waits = False


class SparkCheckpoint:
    """Spark's offset log and its commit log."""

    def __init__(self) -> None:
        self.planned: dict[int, tuple[int, int]] = {}
        self.committed = -1

    def copy(self) -> "SparkCheckpoint":
        other = SparkCheckpoint()
        other.planned, other.committed = dict(self.planned), self.committed
        return other


class History:
    """One query and its coordinator, from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        limits = TransactionLimits(
            version=2, timeout_check_ms=1_000, timeout_ms_max=60_000, room=IdRoom()
        )
        self.world = HistoryWorld(limits, OffsetJournal(), Ids())
        self.loss = random.choice((0.0, 0.05, 0.2))
        self.crashes = random.choice((0.0, 0.02, 0.1))
        self.restores = random.random() < 0.3
        self.checkpoint = SparkCheckpoint()
        self.copies: list[SparkCheckpoint] = []
        self.target = TargetPartition()
        self.drivers = [Driver(self)]
        self.tasks: list[SparkTask] = []
        self.quiet = False

    # What is asked

    def _ask(self, verb: Callable[[Any, Caller, Now], Any], told: Callable[[Any], None]) -> None:
        if not self.quiet and self.random.random() < self.loss:
            return
        world = self.world
        lost = not self.quiet and self.random.random() < self.loss
        caller = Caller(Reply((lambda _: None) if lost else told), 5, "c", "/h")
        world.deliver(world.runtime.run(SHARD, lambda s: verb(s, caller, world.now), world.now))

    def init(self, id_: str, told: Callable[[Code, Identity], None]) -> None:
        request = InitProducerIdRequest(
            transactional_id=id_,
            transaction_timeout_ms=TIMEOUT_MS,
            producer_id=-1,
            producer_epoch=-1,
        )
        self._ask(
            lambda shard, caller, now: shard.init_producer_id(request, caller, now),
            lambda said: told(
                Code.of(said.error_code), Identity(said.producer_id, said.producer_epoch)
            ),
        )

    def produce(
        self, id_: str, identity: Identity, rows: list[int], told: Callable[[Code], None]
    ) -> None:
        """The leader adds the partition, then appends. A repeated batch is a duplicate there."""
        seen = self.target.ends.get(identity.producer_id, 0)

        def added(said: Any) -> None:
            (result,) = said.results_by_transaction
            code = Code.of(result.topic_results[0].results_by_partition[0].partition_error_code)
            if code is Code.NONE and rows[0] not in self.target.open.get(identity.producer_id, ()):
                appended = self.target.append(identity.producer_id, seen, rows)
                code = Code.NONE if appended else Code.INVALID_TXN_STATE
            told(code)

        partitions = {TOPIC: frozenset((0,))}
        self._ask(
            lambda shard, caller, now: shard.add_partitions(id_, identity, partitions, caller, now),
            added,
        )

    def end_group(self, asked: AskedGroup, told: Callable[[Any], None]) -> None:
        self._ask(lambda shard, caller, now: shard.end_group(asked, caller, now), told)

    # What happens

    def live(self) -> None:
        for _ in range(STEPS):
            self._event()
            self.check_once()
        self._heal()
        self.check_all()

    def _event(self) -> None:
        random, roll = self.random, self.random.random()
        if roll < self.crashes:
            self._fault()
        elif roll < 0.5:
            random.choice(self.drivers).step()
        elif roll < 0.75 and self.tasks:
            random.choice(self.tasks[-12:]).step()
        elif roll < 0.9:
            self._markers()
        else:
            self._time_out()
            self.world.advance(random.choice((1, 10, 1_000)))

    def _time_out(self) -> None:
        for driver in self.drivers:
            driver.unanswered()
        for task in self.tasks:
            task.unanswered()

    def _fault(self) -> None:
        random = self.random
        if self.world.journal.lagging and random.random() < 0.6:
            self._fail_over()  # before the followers have it
            return
        match random.randrange(6):
            case 0 | 1:  # another driver; the one before is killed, or does not know
                if random.random() < 0.6:
                    self.drivers.clear()
                self.drivers.append(Driver(self))
            case 2:
                self.world.journal.lagging = not self.world.journal.lagging
                if not self.world.journal.lagging:
                    self.world.commit_log()
            case 3:
                self._fail_over()
            case 4:
                self.world.advance(TIMEOUT_MS)
            case _:
                self._restore()

    def _restore(self) -> None:
        self.copies.append(self.checkpoint.copy())
        if self.restores and self.random.random() < 0.5:
            self.drivers = [Driver(self)]
            self.checkpoint = self.random.choice(self.copies).copy()

    def _fail_over(self) -> None:
        journal = self.world.journal
        ends = journal.possible_ends()
        journal.cut(self.random.choice(ends))
        journal.high_watermark = journal.end
        journal.lagging = False
        self.world.start()

    def _markers(self) -> None:
        world = self.world
        while world.markers:
            due = world.markers.pop(0)
            self.target.mark(due)
            if not self.quiet and self.random.random() < 0.1:
                continue  # the answer is lost: another coordinator sends it again
            partitions = [(TOPIC, 0)]
            said = MarkersWritten(
                due.transactional_id, due.producer_id, due.producer_epoch, partitions
            )
            outcome = world.shard.markers_written([said], world.now)
            world.deliver(world.runtime.carry_out(SHARD, outcome, world.now))

    def _heal(self) -> None:
        """No faults any more; a last driver does the rest."""
        self.quiet = True
        self.world.journal.lagging = False
        self.world.commit_log()
        self._fail_over()
        refusals = 0
        for _ in range(QUIET_STEPS_MAX):
            driver = self.drivers[-1]
            if driver.stopped == "all batches are done" or refusals > 3:
                break
            if driver.stopped:
                refusals += driver.stopped == "refused"
                self.drivers = [Driver(self)]
            self._time_out()
            for driver in self.drivers:
                driver.step()
            for task in self.tasks[-12:]:
                task.step()
            self._markers()
            self.world.advance(20)
        else:
            raise Broken("the query does not come to an end")
        self.world.advance(3 * TIMEOUT_MS)
        self._markers()

    # What must hold

    def check_once(self) -> None:
        rows = self.target.committed
        if len(set(rows)) != len(rows):
            raise Broken(f"committed twice: {sorted(rows)}")

    def check_ended(self, asked: AskedGroup) -> None:
        for id_, producer in asked.transactions.items():
            found = self.world.shard.table.transactions.get(id_)
            if (
                found is not None
                and found.state is TransactionState.ONGOING
                and (found.producer_id, found.producer_epoch) == producer
            ):
                raise Broken(f"{id_} is still open after the batch was committed")

    def check_all(self) -> None:
        self.check_once()
        rows = sorted(self.target.committed)
        if rows != list(range(len(rows))):
            raise Broken(f"a gap: {rows}")
        log = self.checkpoint
        refused = self.drivers[-1].stopped != "all batches are done"
        if not refused and len(rows) != log.planned[BATCHES - 1][1]:
            raise Broken(f"{len(rows)} rows of {log.planned[BATCHES - 1][1]}")
        if refused and not self.restores:
            raise Broken("refused although no copy of the checkpoint was restored")
        if self.target.open:
            raise Broken(f"rows of no decided transaction: {self.target.open}")


def live(seed: int) -> None:
    History(seed).live()

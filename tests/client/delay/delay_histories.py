"""Random histories of one holding partition: producers, a delayer that is killed, sick topics.

The holding topic, the ledger and the targets are lists that survive; the schedule does not. Every
transaction is applied as a whole or not at all.
Checked: each record leaves once, none early, none after its cancellation was read, in the order
(due, offset) of what was read, and one sick topic does not hold up the others.
"""

import random
from collections import Counter
from dataclasses import dataclass, field

from barnabas.client.delay.delay_ledger import (
    DelayOutcome,
    LedgerRecord,
    MovedOffsets,
    ledger_record,
    read_ledger_record,
)
from barnabas.client.delay.delayed_record import (
    Cancellation,
    DelayedRecord,
    HoldingEntry,
    UnusableRecord,
)
from barnabas.client.delay.schedule import (
    DelaySchedule,
    DeleteBefore,
    MoveFailure,
    MoveProblem,
    PlannedMove,
    WriteMoves,
)

ID = "b3b9c1d0-0000-4000-8000-000000000000"
LETTERS = "later.dlq"
TARGETS = ("good", "flaky", "forbidden", "small")
ROOM = 100  # of topic small: larger records are refused
STEPS = 250
STEPS_MAX = 2_000


class BrokenPromise(AssertionError):
    """Of the schedule."""


@dataclass
class World:
    """What survives a kill, and what happened."""

    chance: random.Random
    now: int = 1_000_000
    log: list[HoldingEntry] = field(default_factory=list)
    start: int = 0  # of the log: the rest is deleted
    ledger: list[bytes] = field(default_factory=list)
    left: dict[int, DelayOutcome] = field(default_factory=dict)
    sick: set[str] = field(default_factory=set)
    letters_small: bool = False  # the dead-letter topic refuses values that are large
    names_culprits: bool = True  # a refusal says which record of the batch it is about

    def append(self) -> None:
        offset, chance = len(self.log), self.chance
        kind = chance.random()
        if kind < 0.12 and offset:
            self.log.append(Cancellation(offset, chance.randrange(offset + 1)))
        elif kind < 0.17:
            self.log.append(UnusableRecord(offset, "no header", chance.choice((10, 5_000))))
        else:
            due = self.now + chance.choice((-50, 0, 5, 20, 20, 100, 1_000, 5_000))
            target = chance.choice(TARGETS)
            self.log.append(DelayedRecord(due, offset, target, chance.choice((10, 10, 10, 500))))

    def failure(self, move: PlannedMove, beside: int) -> MoveFailure | None:
        """`beside`: other records in the batch."""
        if move.topic in self.sick:
            return MoveFailure(MoveProblem.PASSING, "no leader")
        if move.topic == "forbidden":
            return MoveFailure(MoveProblem.TOPIC, "no rights")
        large = move.size > ROOM and not move.without_value
        if large and (move.topic == "small" or (move.topic == LETTERS and self.letters_small)):
            certain = not beside or self.names_culprits
            return MoveFailure(MoveProblem.RECORD if certain else MoveProblem.BATCH, "too large")
        return None


class Life:
    """Of one delayer, until it is killed."""

    def __init__(self, world: World, kind: type[DelaySchedule], **options: int) -> None:
        self.world = world
        records = [read_ledger_record(each, ID) for each in world.ledger]
        found: list[LedgerRecord] = [each for each in records if each is not None]
        self.schedule = kind(MovedOffsets(found), len(world.log), LETTERS, **options)
        self.position = max(self.schedule.position, world.start)
        self.read: dict[int, DelayedRecord] = {}
        self.cancelled: set[int] = set()
        if options["pending_max"] > len(world.log):  # all of it is read before the first move
            self._note(world.log[world.start :])
        # when the transaction was chosen
        self.known: dict[int, DelayedRecord] = {}
        self.known_cancelled: set[int] = set()
        self.flight: WriteMoves | None = None

    def read_some(self) -> None:
        stop = min(len(self.world.log), self.position + self.world.chance.randrange(1, 9))
        if self.schedule.full:
            return
        entries = self.world.log[self.position : stop]
        self._note(entries)
        self.position = stop
        self.schedule.read(entries, stop)

    def _note(self, entries: list[HoldingEntry]) -> None:
        for entry in entries:
            if isinstance(entry, DelayedRecord):
                self.read[entry.offset] = entry
            elif isinstance(entry, Cancellation):
                self.cancelled.add(entry.cancelled)

    def act(self) -> None:
        for effect in self.schedule.advance(self.world.now):
            if isinstance(effect, DeleteBefore):
                self.world.start = max(self.world.start, effect.offset)
            else:
                self.flight = effect
                self.known, self.known_cancelled = dict(self.read), set(self.cancelled)

    def land(self, *, killed: bool) -> None:
        """The transaction ends; a delayer that is killed does not hear of it."""
        assert self.flight is not None
        flight, self.flight = self.flight, None
        world = self.world
        beside = Counter(move.topic for move in flight.moves)
        failures: dict[int, MoveFailure] = {}
        for move in flight.moves:
            if (failure := world.failure(move, beside[move.topic] - 1)) is not None:
                failures[move.offset] = failure
                if failure.problem is MoveProblem.BATCH:
                    for other in flight.moves:
                        if other.topic == move.topic:
                            failures.setdefault(other.offset, failure)
        lost = world.chance.random() < 0.1
        if not failures and not lost:
            self.apply(flight)
        if killed:
            return
        if failures or lost:
            self.schedule.aborted(flight.number, failures, world.now)
        else:
            self.schedule.committed(flight.number)

    def apply(self, flight: WriteMoves) -> None:
        world = self.world
        for move in flight.moves:
            if move.offset in world.left:
                raise BrokenPromise(f"{move} left before, as {world.left[move.offset].name}")
            if move.outcome is DelayOutcome.DELIVERED:
                self.check_delivery(move)
            self.check_reason(move)
            world.left[move.offset] = move.outcome
        moved = [(move.offset, move.outcome) for move in flight.moves]
        world.ledger.append(ledger_record(ID, flight.low, moved))
        for entry in world.log[: flight.low]:
            if not isinstance(entry, Cancellation) and entry.offset not in world.left:
                raise BrokenPromise(f"low is {flight.low}, and {entry} has not left")

    def check_delivery(self, move: PlannedMove) -> None:
        world = self.world
        record = world.log[move.offset]
        if not isinstance(record, DelayedRecord) or record.target != move.topic:
            raise BrokenPromise(f"{record} was delivered to {move.topic}")
        if record.due > world.now:
            raise BrokenPromise(f"{record} is early at {world.now}")
        if move.offset in self.known_cancelled:
            raise BrokenPromise(f"{record} was cancelled before")
        for other in self.known.values():
            earlier = other.target == record.target and other[:2] < record[:2]
            if (
                earlier
                and other.offset not in world.left
                and other.offset not in self.known_cancelled
            ):
                if other.target == "small" and other.size > ROOM:
                    continue  # a dead letter
                raise BrokenPromise(f"{record} came before {other}")

    def check_reason(self, move: PlannedMove) -> None:
        entry = self.world.log[move.offset]
        if move.outcome is DelayOutcome.DEAD_LETTER and isinstance(entry, DelayedRecord):
            large = entry.target == "small" and entry.size > ROOM
            if not large and entry.target != "forbidden":
                raise BrokenPromise(f"{entry} became a dead letter: {move.cause}")
        if move.outcome is DelayOutcome.CANCELLED and not any(
            isinstance(each, Cancellation) and each.cancelled == move.offset
            for each in self.world.log
        ):
            raise BrokenPromise(f"{entry} was not cancelled by anybody")


def live(seed: int, kind: type[DelaySchedule] = DelaySchedule) -> None:
    """One history."""
    chance = random.Random(seed)
    world = World(chance, letters_small=chance.random() < 0.5, names_culprits=chance.random() < 0.5)
    options = {"moves_max": chance.choice((1, 3, 50)), "pending_max": chance.choice((20, 1_000))}
    life = Life(world, kind, **options)
    for _ in range(STEPS):
        step(world, life)
        if chance.random() < 0.04:
            life = killed(world, life, kind, options)
    world.sick = {"flaky"} if chance.random() < 0.3 else set()
    finish(world, life)


def step(world: World, life: Life) -> None:
    chance = world.chance
    what = chance.random()
    if what < 0.3:
        world.append()
    elif what < 0.5:
        life.read_some()
    elif what < 0.6:
        world.now += chance.choice((1, 5, 20, 100, 700))
    elif what < 0.63:
        world.sick ^= {chance.choice(("flaky", "good", LETTERS))}
    elif life.flight is None:
        life.act()
    else:
        life.land(killed=False)


def killed(world: World, life: Life, kind: type[DelaySchedule], options: dict[str, int]) -> Life:
    """Before its transaction ends, or after that and before it hears of the end."""
    if life.flight is not None and world.chance.random() < 0.6:
        life.land(killed=True)
    return Life(world, kind, **options)


def left_to_be(world: World) -> set[int]:
    return {
        entry.offset
        for entry in world.log
        if not isinstance(entry, Cancellation)
        and entry.offset not in world.left
        and not (isinstance(entry, DelayedRecord) and entry.target in world.sick)
    }


def finish(world: World, life: Life) -> None:
    """Without kills: what can leave does so, at the times that the schedule asks for."""
    for _ in range(STEPS_MAX):
        life.read_some()
        if life.flight is not None:
            life.land(killed=False)
            continue
        life.act()
        if life.flight is None:
            full_of_sick = life.schedule.full and world.sick
            if (life.position == len(world.log) and not left_to_be(world)) or full_of_sick:
                return
            deadline = life.schedule.next_deadline()
            if deadline is None and life.position == len(world.log):
                break
            world.now = max(world.now, deadline or 0)
    raise BrokenPromise(f"never delivered: {sorted(left_to_be(world))}")

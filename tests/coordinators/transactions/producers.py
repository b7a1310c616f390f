"""Transactional producers for histories: what a client of either version does with each answer.

A life is a generator: it yields a request and is sent the answer, None when it gave up waiting.
"""

from collections.abc import Generator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from barnabas.coordinators.transactions.decision import Identity
from barnabas.model.errors import Code

AGAIN = frozenset(
    (
        Code.CONCURRENT_TRANSACTIONS,
        Code.COORDINATOR_LOAD_IN_PROGRESS,
        Code.COORDINATOR_NOT_AVAILABLE,
        Code.NOT_COORDINATOR,
        Code.NOT_ENOUGH_REPLICAS,
        Code.NOT_LEADER_OR_FOLLOWER,
    )
)
GIVE_UP_AFTER = 12
NOBODY = Identity()


class Fatal(Exception):
    """This producer may do nothing more."""


@dataclass
class Attempt:
    """One transaction, and what its producer knows of it."""

    name: str
    acked: list[tuple[int, str]] = field(default_factory=list)  # partition, record
    tried: list[tuple[int, str]] = field(default_factory=list)
    commit_sent: bool = False
    told: str = ""  # "committed" or "aborted"


@dataclass
class Init:
    producer: Identity


@dataclass
class Add:
    producer: Identity
    partition: int


@dataclass
class Produce:
    producer: Identity
    partition: int
    sequence: int
    record: str


@dataclass
class End:
    producer: Identity
    commit: bool


Request = Init | Add | Produce | End
Life = Generator[Request, Any, None]


class TransactionalProducer:
    """One incarnation of a transactional id."""

    def __init__(
        self, name: str, id_: str, random: Random, *, partitions: int, has_version_2: bool
    ) -> None:
        self.name = name
        self.id = id_
        self.has_version_2 = has_version_2
        self.attempts: list[Attempt] = []
        self.identities: list[Identity] = []
        self._random = random
        self._partitions = partitions
        self._sequences: dict[int, int] = {}
        self._identity = NOBODY

    def life(self) -> Life:
        yield from self._initialise(NOBODY)
        while True:
            yield from self._transaction(Attempt(f"{self.name}-{len(self.attempts)}"))

    def _initialise(self, known: Identity) -> Life:
        answer = yield from self._until_answered(Init(known))
        self._take(Identity(answer.producer_id, answer.producer_epoch))

    def _take(self, identity: Identity) -> None:
        self._identity = identity
        self._sequences.clear()
        self.identities.append(identity)

    def _until_answered(self, request: Request) -> Generator[Request, Any, Any]:
        """The same request again until there is an answer that says something."""
        for _ in range(GIVE_UP_AFTER * 10):
            answer = yield request
            if answer is None or answer.code in AGAIN:
                continue
            if answer.code is not Code.NONE:
                raise Fatal(f"{self.name}: {answer.code.name}")
            return answer
        raise Fatal(f"{self.name} lost patience")

    def _transaction(self, attempt: Attempt) -> Life:
        self.attempts.append(attempt)
        chosen = self._random.sample(
            range(self._partitions), self._random.randint(1, self._partitions)
        )
        sound = True
        for partition in chosen:
            if not self.has_version_2:
                yield from self._until_answered(Add(self._identity, partition))
            for _ in range(self._random.randint(1, 2)):
                sound = yield from self._produce(attempt, partition)
                if not sound:
                    break
            if not sound:
                break
        yield from self._end(attempt, commit=sound and self._random.random() < 0.7, sound=sound)

    def _produce(self, attempt: Attempt, partition: int) -> Generator[Request, Any, bool]:
        sequence = self._sequences.get(partition, 0)
        record = f"{attempt.name}/{partition}/{len(attempt.tried)}"
        attempt.tried.append((partition, record))
        request = Produce(self._identity, partition, sequence, record)
        for _ in range(self._random.choice((1, 3, GIVE_UP_AFTER))):
            answer = yield request
            if answer is None or answer.code in AGAIN:
                continue
            if answer.code is Code.NONE:
                self._sequences[partition] = sequence + 1
                attempt.acked.append((partition, record))
                return True
            return False
        return False

    def _end(self, attempt: Attempt, *, commit: bool, sound: bool) -> Life:
        attempt.commit_sent = commit
        asked = 0
        while True:
            answer = yield End(self._identity, commit)
            asked += 1
            if answer is not None and answer.code not in AGAIN:
                break
            if asked > GIVE_UP_AFTER * 10:
                raise Fatal(f"{self.name} lost patience")
        if answer.code is not Code.NONE:
            raise Fatal(f"{self.name}: {answer.code.name}")
        attempt.told = "committed" if commit else "aborted"
        if self.has_version_2:
            self._take(Identity(answer.producer_id, answer.producer_epoch))
        elif not sound or asked > 1:
            # In version 1 a copy of a request may still be on its way: the epoch must move.
            yield from self._initialise(self._identity)

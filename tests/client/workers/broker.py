"""A broker and its group coordinator in a few lines, for histories in virtual time.

As real ones do: a produce is checked against its producer's last five sequence numbers, a commit
against the epoch of its member, a partition is given on when its owner let go of it or is gone.
Nothing is lost when the broker stops for a while.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import NamedTuple

from barnabas.client.workers.window.effects import SendLetter
from barnabas.model.ids import TopicPartition
from barnabas.wire.record_loops import Headers

REMEMBERED = 5
SESSION_MS = 6_000


class Record(NamedTuple):
    """As a consumer gives it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class Answer(Enum):
    """To a commit or a produce."""

    DONE = "done"
    STALE = "the member's epoch is another one now"
    UNKNOWN = "no such member"
    OUT_OF_ORDER = "a sequence number is missing"


class Instruction(NamedTuple):
    """The answer to a heartbeat."""

    epoch: int
    keep: list[TopicPartition]  # what it may own; the rest it must let go of


@dataclass
class Member:
    """As the coordinator knows it."""

    epoch: int
    seen: int
    owned: set[TopicPartition] = field(default_factory=set)
    empty_first: bool = False  # eager: owns nothing before it gets its share


class Broker:
    """Topics, producers, one group."""

    def __init__(self, topics: dict[str, int], read: Iterable[str], random: Random) -> None:
        self.random = random
        self.counts = topics
        self.logs: dict[TopicPartition, list[Record]] = {
            TopicPartition(topic, number): []
            for topic, count in topics.items()
            for number in range(count)
        }
        self.read = [at for at in self.logs if at.topic in set(read)]
        self.up = True
        self.eager = random.random() < 0.4
        self.offsets: dict[TopicPartition, tuple[int, str]] = {}
        self.epoch = 0
        self.members: dict[int, Member] = {}
        self.targets: dict[int, list[TopicPartition]] = {}
        self._producers: dict[tuple[TopicPartition, int], deque[int]] = {}
        self._ids = 0
        self._member_ids = 0

    # Records

    def append(
        self, at: TopicPartition, key: bytes | None, value: bytes | None, now: int, headers: Headers
    ) -> Record:
        log = self.logs[at]
        record = Record(at.topic, at.partition, len(log), now, key, value, headers)
        log.append(record)
        return record

    def producer_id(self) -> int:
        self._ids += 1
        return self._ids

    def produce(self, send: SendLetter, now: int) -> tuple[Answer, Record | None]:
        """The record, if it was appended and no repeat."""
        key = (send.to, send.identity.producer_id)
        known = self._producers.get(key)
        if known is not None:
            if send.sequence in known:
                return Answer.DONE, None
            if send.sequence != known[-1] + 1:
                return Answer.OUT_OF_ORDER, None
        else:
            known = self._producers[key] = deque(maxlen=REMEMBERED)
        known.append(send.sequence)
        return Answer.DONE, self.append(send.to, send.key, send.value, now, send.headers)

    # The group

    def join(self, now: int) -> int:
        self._member_ids += 1
        self.members[self._member_ids] = Member(self.epoch, now)
        self.rebalance()
        return self._member_ids

    def leave(self, member: int) -> None:
        if self.members.pop(member, None) is not None:
            self.rebalance()

    def expire(self, now: int) -> None:
        for member, known in list(self.members.items()):
            if now - known.seen > SESSION_MS:
                self.leave(member)

    def start_again(self, now: int) -> None:
        """After a restart every member has a whole session again."""
        self.up = True
        for known in self.members.values():
            known.seen = now

    def rebalance(self) -> None:
        self.epoch += 1
        self.targets = {member: [] for member in self.members}
        if not self.members:
            return
        shift = self.random.randrange(len(self.members))
        ids = list(self.members)
        for index, at in enumerate(self.read):
            self.targets[ids[(index + shift) % len(ids)]].append(at)
        if self.eager:
            for known in self.members.values():
                known.empty_first = bool(known.owned)

    def heartbeat(self, member: int, owned: set[TopicPartition], now: int) -> Instruction | None:
        known = self.members.get(member)
        if known is None:
            return None
        known.seen = now
        known.owned = set(owned)
        target = [] if known.empty_first else self.targets[member]
        if known.empty_first and not owned:
            known.empty_first = False
        if owned - set(target) or known.empty_first:
            return Instruction(known.epoch, [at for at in target if at in owned])
        known.epoch = self.epoch
        others = {at for other, m in self.members.items() if other != member for at in m.owned}
        free = [at for at in target if at in owned or at not in others]
        if self.eager and any(m.empty_first for m in self.members.values()):
            free = [at for at in target if at in owned]
        known.owned |= set(free)
        return Instruction(known.epoch, free)

    def commit(
        self, member: int, epoch: int, offsets: dict[TopicPartition, tuple[int, str]]
    ) -> Answer:
        """Checks the member and its epoch, not what it owns: no more than real brokers do."""
        known = self.members.get(member)
        if known is None:
            return Answer.UNKNOWN
        if known.epoch != epoch:
            return Answer.STALE
        self.offsets.update(offsets)
        return Answer.DONE

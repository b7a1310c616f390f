"""Which dead letters were redriven, according to the receipts in one topic.

In: receipts in the order of their offsets. Out: the letters that are taken, and the intents that
were begun and not ended.
Always: the first intent that names a letter takes it; a later intent that names the same letter is
void. So of two redrives at the same time only one sends the letter.
Not here: reading and writing them (dead_letters.py).
"""

from collections.abc import Set
from typing import NamedTuple

import msgspec

from barnabas.client.workers.window.outbox import LetterProducer, offsets_of, runs_of
from barnabas.model.ids import TopicPartition

TOPIC = "barnabas.redrives"
LETTERS_MAX = 1_000  # of one receipt
_VERSION = 1


class LetterPartition(NamedTuple):
    """A partition of a dead-letter topic, with the topic id: a topic that was created again has
    other letters.
    """

    topic: str
    topic_id: str
    partition: int


class Receipt(msgspec.Struct, frozen=True, tag_field="kind", tag="intent"):
    """These letters will be sent to these partitions, one after another, numbered from 0 for each
    partition. A process that finds the intent without an end sends them again with the same
    numbers.
    """

    barnabas: int
    token: str
    topic: str
    topic_id: str
    partition: int
    start: int
    runs: list[int]
    producer_id: int
    epoch: int
    places: list[tuple[str, int]]

    @property
    def at(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def source(self) -> LetterPartition:
        return LetterPartition(self.topic, self.topic_id, self.partition)

    @property
    def identity(self) -> LetterProducer:
        return LetterProducer(self.producer_id, self.epoch)

    def offsets(self) -> list[int]:
        return offsets_of(self.runs, self.start)

    def numbered(self) -> dict[int, tuple[TopicPartition, int]]:
        """By offset of the letter: its target partition and its sequence number."""
        counts: dict[TopicPartition, int] = {}
        numbers: dict[int, tuple[TopicPartition, int]] = {}
        for offset, (topic, partition) in zip(self.offsets(), self.places, strict=True):
            place = TopicPartition(topic, partition)
            numbers[offset] = (place, counts.get(place, 0))
            counts[place] = counts.get(place, 0) + 1
        return numbers


class End(msgspec.Struct, frozen=True, tag_field="kind", tag="end"):
    """All letters of the intent are written."""

    barnabas: int
    token: str


def intent(
    token: str, source: LetterPartition, places: dict[int, TopicPartition], identity: LetterProducer
) -> Receipt:
    """`places`: the target partition of the letter at each offset, in the order of offsets."""
    offsets = list(places)
    return Receipt(
        _VERSION,
        token,
        *source,
        offsets[0],
        runs_of(offsets, offsets[0]),
        identity.producer_id,
        identity.epoch,
        [(place.topic, place.partition) for place in places.values()],
    )


def end(token: str) -> End:
    return End(_VERSION, token)


def encoded(receipt: Receipt | End) -> bytes:
    return msgspec.json.encode(receipt)


class RedriveLedger:
    """All receipts so far."""

    def __init__(self) -> None:
        self._taken: dict[LetterPartition, set[int]] = {}
        self._open: dict[str, Receipt] = {}
        self._known: set[str] = set()

    def read(self, value: bytes | None) -> None:
        """Reads the next record of the topic; records that are not receipts are ignored."""
        try:
            receipt = msgspec.json.decode(value or b"", type=Receipt | End)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return
        if receipt.barnabas != _VERSION:
            return
        if isinstance(receipt, End):
            self._open.pop(receipt.token, None)
        elif _plausible(receipt) and receipt.token not in self._known:
            self._known.add(receipt.token)
            offsets = receipt.offsets()
            taken = self._taken.setdefault(receipt.source, set())
            if taken.isdisjoint(offsets):
                taken.update(offsets)
                self._open[receipt.token] = receipt

    def taken(self, source: LetterPartition) -> Set[int]:
        """Offsets of letters that were redriven, or are about to be."""
        return self._taken.get(source, frozenset())

    def open(self, topic: str, topic_id: str) -> list[Receipt]:
        """Intents that were begun and not ended; their process may still be sending."""
        return [
            receipt
            for receipt in self._open.values()
            if (receipt.topic, receipt.topic_id) == (topic, topic_id)
        ]

    def won(self, token: str) -> bool:
        """Whether the intent was the first to name its letters."""
        return token in self._open


def _plausible(receipt: Receipt) -> bool:
    return (
        0 <= receipt.start < 2**62
        and all(0 <= length < 2**62 for length in receipt.runs)
        and 0 < sum(receipt.runs[1::2]) == len(receipt.places) <= LETTERS_MAX
        and 0 <= receipt.producer_id < 2**63
        and 0 <= receipt.epoch < 2**15
        and 0 < len(receipt.topic) <= 249
        and len(receipt.topic_id) <= 36
        and 0 <= receipt.partition < 2**31
    )

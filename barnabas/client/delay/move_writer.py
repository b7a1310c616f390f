"""Writes the moves of one holding partition: records and their ledger record, in one transaction.

Always: the transactional id belongs to the holding partition. `open` fences an earlier delayer of
the partition and waits until its last transaction is complete, so the ledger that is read
afterwards has everything that was ever moved. A commit without a response is repeated until its
result is known.
Not here: what is moved (schedule.py), the payloads (held_payloads.py).
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from time import monotonic

from barnabas.client.aio import open_cluster
from barnabas.client.aio.producer import Producer
from barnabas.client.cluster import ClusterClient
from barnabas.client.delay.delay_ledger import DelayOutcome, ledger_record
from barnabas.client.delay.delayed_record import delivered_headers
from barnabas.client.delay.held_payloads import HeldPayload
from barnabas.client.delay.holding_topics import HoldingTopic
from barnabas.client.delay.schedule import MoveFailure, MoveProblem, PlannedMove, WriteMoves
from barnabas.client.producer.batches import Delivery
from barnabas.client.producer.producing import HURRY_S
from barnabas.client.producer.transaction_errors import ABORT_FIRST
from barnabas.client.workers.dead_letter_headers import (
    CUT,
    NO_RECORD,
    LetterTrail,
    Origin,
    clean_cause,
)
from barnabas.client.workers.window.exactly_once import AbortCause, cause_of_abort
from barnabas.config.client import Settings, Value
from barnabas.model.errors import Abortable, Code, InvalidRequest, KafkaError, Retriable
from barnabas.model.ids import TopicPartition

OPTIONS: dict[str, Value] = {
    "transaction_timeout_ms": 30_000,
    "request_timeout_ms": 8_000,
    "delivery_timeout_ms": 15_000,  # a target without a leader; other targets wait as long
    "linger_ms": 0,
    "max_request_size": 256 * 1024 * 1024,  # the target's limit decides
    "buffer_memory": 512 * 1024 * 1024,  # never used up: a transaction is small
}
_TOPIC_CODES = frozenset(
    {
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.TOPIC_AUTHORIZATION_FAILED,
        Code.INVALID_TOPIC_EXCEPTION,
    }
)
_KNOWN_S = 30.0  # a topic is looked up again after this time
_log = logging.getLogger("barnabas.delay")


class MoveWriter:
    """The transactions of one holding partition."""

    def __init__(
        self, holding: HoldingTopic, partition: int, group: str, settings: Settings
    ) -> None:
        self._holding = holding
        self._partition = partition
        self._group = group
        name = f"{group}-{holding.name}-{partition}"
        self.cluster: ClusterClient = open_cluster(settings, {**OPTIONS, "transactional_id": name})
        self._producer = Producer(cluster=self.cluster)
        self._counts: dict[str, tuple[int, float]] = {}  # of partitions, and until when
        self.ledger_offset = -1  # of the last ledger record

    async def open(self) -> None:
        await _answered(self._producer.init_transactions)

    async def close(self) -> None:
        try:
            await self._producer.close(timeout_s=HURRY_S)
        except KafkaError as problem:
            _log.warning("%s: a transaction is left open: %s", self._at(), problem.detail)
        finally:
            self.cluster.close()

    # --- topics ---

    async def check_topics(self, moves: Sequence[PlannedMove]) -> dict[int, MoveFailure]:
        """Failures of moves whose topic cannot be written. A producer would wait for it, and all
        others with it.
        """
        failed: dict[str, MoveFailure] = {}
        for topic in dict.fromkeys(move.topic for move in moves if move.topic):
            try:
                await self._look_up(topic)
            except KafkaError as problem:
                self._counts.pop(topic, None)
                if problem.code in _TOPIC_CODES:
                    failed[topic] = MoveFailure(MoveProblem.TOPIC, _cause(problem))
                else:
                    failed[topic] = MoveFailure(MoveProblem.PASSING, _cause(problem))
        return {move.offset: failed[move.topic] for move in moves if move.topic in failed}

    async def _look_up(self, topic: str) -> None:
        count, until = self._counts.get(topic, (0, 0.0))
        if count and monotonic() < until:
            return
        # Auto-creation would make topics from mistakes in headers: this request creates none.
        view = await self.cluster.retrying(lambda: self.cluster.view_of([topic]))
        self._counts[topic] = len(view.topic(topic).partitions), monotonic() + _KNOWN_S

    # --- one transaction ---

    async def write(
        self, effect: WriteMoves, payloads: Mapping[int, HeldPayload], now: int
    ) -> dict[int, MoveFailure] | None:
        """None: committed. Otherwise nothing was moved: the failures by offset, if they are those
        of records. Raises if this writer can go on no more.
        """
        sent: dict[int, Delivery] = {}
        await _answered(self._producer.begin_transaction)
        try:
            for move in effect.moves:
                if move.outcome is not DelayOutcome.CANCELLED:
                    try:
                        sent[move.offset] = self._send(move, payloads[move.offset], now)
                    except InvalidRequest as problem:
                        await _answered(self._producer.abort_transaction)
                        return {move.offset: MoveFailure(MoveProblem.RECORD, _cause(problem))}
            ledger = self._record(effect, now)
            await _answered(self._producer.commit_transaction)
        except Abortable as problem:
            failures = self._failures(effect.moves, sent, problem)
            await _answered(self._producer.abort_transaction)
            return failures
        self.ledger_offset = ledger.metadata().offset
        return None

    def _send(self, move: PlannedMove, payload: HeldPayload, now: int) -> Delivery:
        value, key = payload.value, payload.key
        if move.outcome is DelayOutcome.DELIVERED:
            origin = f"{self._holding.name}:{self._partition}:{move.offset}"
            headers = delivered_headers(payload.headers, origin)
        else:
            headers, value, key = self._letter(move, payload, now)
        partition = None
        if key is None:
            partition = self._partition % self._counts[move.topic][0]
        return self._producer.send_nowait(
            move.topic, value, key=key, headers=headers, partition=partition, timestamp=now
        )

    def _letter(
        self, move: PlannedMove, payload: HeldPayload, now: int
    ) -> "tuple[tuple[tuple[str, bytes | None], ...], bytes | None, bytes | None]":
        """Headers, value and key of a dead letter."""
        trail = LetterTrail(
            self._group,
            Origin(self._holding.name, self._partition, move.offset),
            payload.timestamp,
            move.cause,
            attempts=1,
            failed_at=now,
        )
        headers, value, key = payload.headers, payload.value, payload.key
        extra: tuple[tuple[str, bytes | None], ...] = ()
        if payload.gone:
            extra = ((NO_RECORD, b"the record was deleted from the holding topic"),)
        elif move.without_value:
            extra = ((CUT, str(len(value or b"")).encode()), (NO_RECORD, b"too large"))
            headers, value = (), None
            key = None if key is not None and len(key) > _KEY_SIZE_MAX else key
        return (*trail.headers(headers), *extra), value, key

    def _record(self, effect: WriteMoves, now: int) -> Delivery:
        moved = [(move.offset, move.outcome) for move in effect.moves]
        value = ledger_record(self._holding.topic_id, effect.low, moved)
        return self._producer.send_nowait(
            self._holding.ledger, value, partition=self._partition, timestamp=now
        )

    def _failures(
        self, moves: Sequence[PlannedMove], sent: Mapping[int, Delivery], problem: KafkaError
    ) -> dict[int, MoveFailure]:
        found: dict[int, MoveFailure] = {}
        for move in moves:
            why = sent[move.offset].exception() if move.offset in sent else None
            if why is None or why.code is Code.TRANSACTION_ABORTABLE:
                continue
            self._counts.pop(move.topic, None)
            cause = _cause(why)
            if why.code is Code.UNKNOWN_TOPIC_OR_PARTITION:
                found[move.offset] = MoveFailure(MoveProblem.PASSING, cause)  # it is looked up next
            elif why.code in _TOPIC_CODES:
                found[move.offset] = MoveFailure(MoveProblem.TOPIC, cause)
            elif cause_of_abort(why) is AbortCause.REFUSED:
                found[move.offset] = MoveFailure(MoveProblem.BATCH, cause)
            else:
                found[move.offset] = MoveFailure(MoveProblem.PASSING, cause)
        if not found and cause_of_abort(problem) is AbortCause.REFUSED:
            # One of them, or a topic of one of them: each is tried alone.
            found = {
                move.offset: MoveFailure(MoveProblem.BATCH, _cause(problem))
                for move in moves
                if move.topic
            }
        return found

    def _at(self) -> TopicPartition:
        return TopicPartition(self._holding.name, self._partition)


_KEY_SIZE_MAX = 1_000


def _cause(problem: KafkaError) -> str:
    return clean_cause(f"{problem.code.name}: {problem.detail.removesuffix(ABORT_FIRST)}")


async def _answered(call: Callable[[], Awaitable[None]]) -> None:
    """Repeats a call of the producer until the coordinator has answered."""
    while True:
        try:
            return await call()
        except Retriable as problem:
            _log.warning("the coordinator does not answer, retrying: %s", problem.detail)

"""The messages of all partitions that a member of a share group holds: fetched, returned,
acknowledged.

In: messages that were fetched, calls of the user, time. Out: messages, and the result of every
acknowledgement.
Always: a message is returned only while its lock lasts; an acknowledgement of a message that is
held no more is a result with an error, not an exception, unless it was acknowledged before.
Not here: runs of offsets (held_records.py), requests and responses (share_fetching.py).
"""

import logging
from typing import NamedTuple

from barnabas.client.consumer.message import RawMessage
from barnabas.client.share.acknowledge_type import AcknowledgeType
from barnabas.client.share.held_records import GAP, AckRun
from barnabas.client.share.sessions import PartitionHold
from barnabas.model.errors import Code, InvalidRequest, KafkaError
from barnabas.model.ids import TopicPartition

_log = logging.getLogger("barnabas.client")


class AcknowledgeResult(NamedTuple):
    """Of some records of one partition. None: the group will not deliver them again, or (RENEW)
    their lock began again.
    """

    at: TopicPartition
    runs: tuple[AckRun, ...]
    error: KafkaError | None


class HeldMessages:
    """Of one member. `holds`: by the number that is in their messages."""

    def __init__(self) -> None:
        self.holds: dict[int, PartitionHold] = {}
        self._turn = 0
        self._number = 0
        self._results: list[AcknowledgeResult] = []

    def new_hold(self, at: TopicPartition) -> PartitionHold:
        self._number += 1
        hold = self.holds[self._number] = PartitionHold(self._number, at)
        return hold

    def forget(self, hold: PartitionHold) -> None:
        del self.holds[hold.number]

    # --- messages ---

    @property
    def has_messages(self) -> bool:
        return any(hold.ready for hold in self.holds.values())

    def take(self, count_max: int, now: int) -> list[RawMessage]:
        """Up to this many messages, in the order of their offsets within each partition."""
        taken: list[RawMessage] = []
        holds = [hold for hold in self.holds.values() if hold.ready]
        if holds:
            self._turn = (self._turn + 1) % len(holds)
            holds = holds[self._turn :] + holds[: self._turn]
        for hold in holds:
            self._drop_expired(hold, now)
            ready = hold.ready
            count = min(count_max - len(taken), len(ready))
            if count <= 0:
                continue
            some = [ready.popleft() for _ in range(count)]
            hold.records.returned(some[0].offset, some[-1].offset)
            taken += some
        return taken

    def _drop_expired(self, hold: PartitionHold, now: int) -> None:
        """Locks that ended before their messages were returned: other members get them."""
        for first, last in hold.records.drop_expired(now):
            _log.warning(
                "%s: offsets %d to %d were fetched and not returned before their lock ended:"
                " process faster, or set a smaller max.poll.records",
                hold.at,
                first,
                last,
            )
            hold.ready = type(hold.ready)(
                one for one in hold.ready if not first <= one.offset <= last
            )

    def give_back(self, messages: list[RawMessage]) -> None:
        """The last messages were not seen by the user: they are returned next."""
        for message in reversed(messages):
            hold = self._hold_of(message)
            if hold is not None and hold.lost is None:
                hold.records.given_back(message.offset, message.offset)
                hold.ready.appendleft(message)

    # --- acknowledgements of the user ---

    def acknowledge(self, message: RawMessage, type_: AcknowledgeType) -> None:
        acquisition = message.acquisition
        if acquisition is None:
            raise InvalidRequest(
                Code.INVALID_RECORD_STATE,
                f"{_where(message)} was not read by a ShareConsumer: only those messages are"
                " acknowledged",
            )
        hold = self.holds.get(acquisition.hold)
        if hold is not None and hold.records.acknowledge(
            message.offset, acquisition.delivery_count, type_
        ):
            return
        if hold is not None and hold.records.has(message.offset):
            error = _delivered_again(message)
            runs = (AckRun(message.offset, message.offset, type_),)
            self._results.append(AcknowledgeResult(hold.at, runs, error))
            return
        raise InvalidRequest(
            Code.INVALID_RECORD_STATE,
            f"{_where(message)} is not held by this consumer: it was acknowledged before, another"
            " consumer read it, or its lock has ended",
        )

    def accept(self, messages: list[RawMessage]) -> None:
        """Some of the messages that were returned together, in their order."""
        for first, last in _by_hold(messages):
            hold = self._hold_of(first)
            if hold is not None:
                hold.records.accept(first.offset, last.offset)

    def unacknowledged(self, messages: list[RawMessage]) -> RawMessage | None:
        """The first of these that was not acknowledged."""
        for message in messages:
            hold, acquisition = self._hold_of(message), message.acquisition
            if hold is None or acquisition is None:
                continue
            if hold.records.is_returned(message.offset, acquisition.delivery_count):
                return message
        return None

    def lasts_until(self, message: RawMessage) -> int | None:
        """When the lock of a message ends that the user has; None: it is not held."""
        hold = self._hold_of(message)
        if hold is None or hold.lost is not None:
            return None
        for first, last, deadline in hold.records.returned_runs():
            if first <= message.offset <= last:
                return deadline
        return None

    def put_back_results(self, results: list[AcknowledgeResult]) -> None:
        """These were not reported yet."""
        self._results[:0] = results

    def results(self) -> list[AcknowledgeResult]:
        """Those since the last call."""
        for hold in [one for one in self.holds.values() if one.lost is not None]:
            self.report({hold: hold.records.take_all()}, hold.lost)
            hold.records.renewed(None)
            if not hold.records:
                del self.holds[hold.number]
        results, self._results = self._results, []
        return results

    def report(self, acks: dict[PartitionHold, list[AckRun]], error: KafkaError | None) -> None:
        """Gaps are not the user's: they are left out."""
        for hold, runs in acks.items():
            told = tuple(run for run in runs if run.type != GAP)
            if told:
                self._results.append(AcknowledgeResult(hold.at, told, error))

    def _hold_of(self, message: RawMessage) -> PartitionHold | None:
        acquisition = message.acquisition
        return None if acquisition is None else self.holds.get(acquisition.hold)


def _by_hold(messages: list[RawMessage]) -> list[tuple[RawMessage, RawMessage]]:
    """The first and the last message of each run of messages of one partition."""
    bounds: list[tuple[RawMessage, RawMessage]] = []
    for message in messages:
        if bounds and _hold_number(bounds[-1][0]) == _hold_number(message):
            bounds[-1] = (bounds[-1][0], message)
        else:
            bounds.append((message, message))
    return bounds


def _hold_number(message: RawMessage) -> int:
    acquisition = message.acquisition
    return -1 if acquisition is None else acquisition.hold


def _where(message: RawMessage) -> str:
    return f"{message.topic}-{message.partition}, offset {message.offset},"


def _delivered_again(message: RawMessage) -> KafkaError:
    return InvalidRequest(
        Code.INVALID_RECORD_STATE,
        f"{_where(message)} was delivered again, because its lock had ended: acknowledge the new"
        " message",
    )

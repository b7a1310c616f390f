"""Produce requests that wait until their records are committed (Kafka's DelayedProduce).

In: a response whose results are not all final, and a promise for each of the others. Out: its
deferred reply.
Always: the reply leaves when every record is committed or cannot be committed here, or when the
producer's timeout is over; records that are uncommitted then get REQUEST_TIMED_OUT.
Not here: the append (handlers/produce.py), what completes a promise (uncommitted.py).
"""

import asyncio
from typing import NamedTuple

from barnabas.broker.net.deferred_reply import DeferredReply
from barnabas.broker.requests.produce_errors import CurrentLeaders, refusal
from barnabas.broker.uncommitted import Outcome
from barnabas.model.errors import Code, KafkaError
from barnabas.wire.messages.produce import PartitionProduceResponse, ProduceResponse

WAIT_MS_MAX = 600_000  # a longer wait is not needed, and a waiting request holds memory


class UncommittedResult(NamedTuple):
    """The result for a partition whose records are appended and not committed yet."""

    answers: list[PartitionProduceResponse]
    place: int  # the index of the partition's result in `answers`
    committed: DeferredReply[Outcome]


class ProduceWait:
    """A response with records that are not committed yet. It does not hold the request's bytes."""

    __slots__ = ("_leaders", "_left", "_outcomes", "_response", "_timer", "_waits", "deferred")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        response: ProduceResponse,
        waits: list[UncommittedResult],
        timeout_ms: int,
        leaders: CurrentLeaders | None,
    ) -> None:
        self._response = response
        self._waits = waits
        self._leaders = leaders
        self._left = len(waits)
        self._outcomes: dict[int, KafkaError] = {}  # by the index in `waits`
        self.deferred: DeferredReply[ProduceResponse] = DeferredReply()
        self._timer = loop.call_later(timeout_ms / 1000, self._late)
        self.deferred.cancelled = self._timer.cancel
        for number, wait in enumerate(waits):
            wait.committed.then(lambda outcome, number=number: self._completed(number, outcome))  # type: ignore[misc]

    def _completed(self, number: int, outcome: Outcome) -> None:
        if self.deferred.done:
            return
        if outcome is not None:
            self._outcomes[number] = outcome
        self._left -= 1
        if not self._left:
            self._finish()

    def _late(self) -> None:
        late = KafkaError(
            Code.REQUEST_TIMED_OUT,
            "timed out waiting for the in-sync replicas; the records may still be committed",
        )
        for number, wait in enumerate(self._waits):
            if not wait.committed.done:
                self._outcomes[number] = late
        self._finish()

    def _finish(self) -> None:
        self._timer.cancel()
        for number, error in self._outcomes.items():
            answers, place, _ = self._waits[number]
            answers[place] = refusal(answers[place].index, error)
        response = self._response
        if self._outcomes and self._leaders is not None:
            response = self._leaders.named_in(response.responses)
        self.deferred.set(response)

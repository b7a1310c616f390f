"""Appends the batches of a producer with a transactional id (KIP-890).

In: a Produce request with a transactional id. Out: its answer, now or later.
Always: a batch that would open a transaction in its partition is appended only after the
coordinator has confirmed the transaction, with the guard that was there before the question. If
the answer is not known yet, the bytes of the request are copied first: its buffer is used again.
Not here: the append (handlers/produce.py), guards (log/transactions/), the question and what its
answer means to any client (verification.py).
"""

from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.net.dispatch import Call
from barnabas.broker.transactions.verification import Codes, Question, ask, ask_now
from barnabas.coordinators.transactions.decision import Identity
from barnabas.log.transactions.append import require_guard
from barnabas.log.transactions.verification import VerificationGuard
from barnabas.model.errors import Code, InvalidRequest, KafkaError
from barnabas.wire.batch import HEADER, HEADER_SIZE, TRANSACTIONAL
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker
    from barnabas.broker.handlers.produce import Answer, Appended, ProduceInProgress
    from barnabas.broker.topic import Topic

ADDS_SINCE = 12  # the partitions join the transaction with this request
ABORTABLE_SINCE = 11  # before, clients did not know TRANSACTION_ABORTABLE

Place = tuple[int, int]
"""The indexes of topic and partition in the request."""


class Waiting(NamedTuple):
    """A batch that opens its transaction in a partition, if the coordinator agrees."""

    topic: str
    partition: int
    guard: VerificationGuard


def append_verified(
    broker: "Broker",
    request: ProduceRequest,
    call: Call,
    by_id: bool,
    produce: "ProduceInProgress",
) -> "Answer":
    adds = call.version >= ADDS_SINCE
    producers, waiting, refused = _examined(broker, request, by_id, adds)
    produce.refused = refused = {**refused, **produce.refused}
    produce.guards = {place: each.guard for place, each in waiting.items()}
    if len(producers) > 1:
        error = InvalidRequest(
            Code.INVALID_PRODUCER_ID_MAPPING,
            f"the request has batches of {len(producers)} producers; a transaction has one",
        )
        produce.refused = dict.fromkeys(_places(request), error)
        return produce.append()
    if not waiting or not (adds or broker.config.transaction_partition_verification_enable):
        return produce.append()
    partitions: dict[str, frozenset[int]] = {}
    for topic, index, _ in waiting.values():
        partitions[topic] = partitions.get(topic, frozenset()) | {index}
    (producer,) = producers
    question = Question(request.transactional_id or "", producer, partitions, adds)
    codes = ask_now(broker, question)
    if codes is not None:
        produce.refused = refused | _refused(waiting, codes, call.version)
        return produce.append()
    for data in request.topic_data:
        data.partition_data[:] = [
            PartitionProduceData(index=each.index, records=bytearray(each.records or b""))
            for each in data.partition_data
        ]

    async def asked() -> "Appended":
        codes = await ask(broker, question)
        produce.refused = refused | _refused(waiting, codes, call.version)
        return produce.append()

    return asked()


def _places(request: ProduceRequest) -> list[Place]:
    return [
        (number, place)
        for number, data in enumerate(request.topic_data)
        for place in range(len(data.partition_data))
    ]


def _examined(
    broker: "Broker", request: ProduceRequest, by_id: bool, adds: bool
) -> tuple[set[Identity], dict[Place, Waiting], dict[Place, KafkaError]]:
    """The producers of transactional batches; which batches wait for the coordinator; which
    cannot be appended. Batches with another fault are left to the append."""
    topics = broker.topics
    producers: set[Identity] = set()
    waiting: dict[Place, Waiting] = {}
    refused: dict[Place, KafkaError] = {}
    for number, data in enumerate(request.topic_data):
        topic = topics.by_id(data.topic_id) if by_id else topics.get(data.name)
        if topic is None or topic.internal:
            continue
        for place, partition in enumerate(data.partition_data):
            try:
                _examine(topic, partition, adds, (number, place), producers, waiting)
            except KafkaError as error:
                refused[number, place] = error
    return producers, waiting, refused


def _examine(
    topic: "Topic",
    data: PartitionProduceData,
    adds: bool,
    place: Place,
    producers: set[Identity],
    waiting: dict[Place, Waiting],
) -> None:
    records = data.records
    if not records or len(records) < HEADER_SIZE:
        return
    header = HEADER.unpack_from(records)
    attributes, producer_id, epoch, sequence = header[5], header[9], header[10], header[11]
    if not attributes & TRANSACTIONAL or producer_id < 0:
        return
    producers.add(Identity(producer_id, epoch))
    log = topic.partition(data.index).log
    guard = require_guard(log, producer_id, epoch, sequence, has_version_2=adds)
    if guard is not None:
        waiting[place] = Waiting(topic.name, data.index, guard)


def _refused(waiting: dict[Place, Waiting], codes: Codes, version: int) -> dict[Place, KafkaError]:
    refused: dict[Place, KafkaError] = {}
    for place, (topic, index, _) in waiting.items():
        code = codes[topic, index]
        if code is Code.TRANSACTION_ABORTABLE and version < ABORTABLE_SINCE:
            code = Code.INVALID_TXN_STATE
        if code:
            # The code that clients retry after stands for several reasons.
            reason = "try again" if code is Code.NOT_ENOUGH_REPLICAS else code.text
            problem = f"the transaction coordinator does not confirm the transaction: {reason}"
            refused[place] = KafkaError(code, problem)
    return refused

"""Answers the acknowledgements of members, from ShareFetch and ShareAcknowledge.

In: acknowledgements by topic id and partition. Out: a code for each partition, when all are
committed.
Always: the partitions are independent of each other; of one partition all are applied, or none.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from barnabas.broker.net.deferred_reply import DeferredReply
from barnabas.broker.role import Role
from barnabas.broker.share.partitions import LoadedShare
from barnabas.broker.share.service import ShareService
from barnabas.coordinators.share.acknowledge_ranges import AckBatch, ack_ranges
from barnabas.coordinators.share.keys import SharePartitionKey, StateKey
from barnabas.coordinators.share.sessions import SessionKey
from barnabas.model.errors import Code, InvalidRequest, KafkaError, Retriable

Denied = Callable[[UUID], bool]
"""Whether the client may not read the topic."""


class AskedAcks(NamedTuple):
    """The acknowledgements of one partition."""

    key: SharePartitionKey
    batches: Sequence[AckBatch]


Results = dict[SharePartitionKey, Code]


def acknowledge(
    service: ShareService,
    session: SessionKey,
    asked: Iterable[AskedAcks],
    denied: Denied | None,
    *,
    may_renew: bool,
) -> DeferredReply[Results]:
    """The code of each partition, once its changes are committed."""
    deferred: DeferredReply[Results] = DeferredReply()
    results: Results = {}
    waiting: set[SharePartitionKey] = set()
    begun = False

    def finish() -> None:
        if begun and not waiting:
            deferred.set(results)

    def done(key: SharePartitionKey) -> Callable[[Code], None]:
        def finished(code: Code) -> None:
            results[key] = code
            waiting.discard(key)
            finish()

        return finished

    now = service.now()
    for key, batches in dict(asked).items():  # of a partition that is named twice, the last
        results[key] = Code.NONE
        waiting.add(key)
        try:
            ranges = ack_ranges(batches, may_renew=may_renew)
            share = _find(service, session.group, key, denied)
            machine = share.machine
            if machine is None:
                raise Retriable(Code.UNKNOWN_TOPIC_OR_PARTITION, "its state is not loaded yet")
            change = machine.acknowledge(session.member, ranges, now)
            share.carry_out(change, done(key))
            if change is None:
                share.arm()
        except KafkaError as error:
            done(key)(error.code)
    begun = True
    finish()
    return deferred


def _find(
    service: ShareService, group: str, key: SharePartitionKey, denied: Denied | None
) -> LoadedShare:
    topic_id, index = key
    topic = service.broker.topics.by_id(topic_id)
    if topic is None:
        raise Retriable(Code.UNKNOWN_TOPIC_ID)
    if denied is not None and denied(topic_id):
        raise InvalidRequest(Code.TOPIC_AUTHORIZATION_FAILED)
    if not 0 <= index < len(topic.partitions):
        raise Retriable(Code.UNKNOWN_TOPIC_OR_PARTITION)
    if topic.partitions[index].role is not Role.LEADER:
        raise Retriable(Code.NOT_LEADER_OR_FOLLOWER)
    found = service.partitions.get(StateKey(group, topic_id, index))
    if found is None:
        raise Retriable(Code.UNKNOWN_TOPIC_OR_PARTITION, "no member has read the partition here")
    return found

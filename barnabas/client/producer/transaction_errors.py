"""Says what an error code means for a transaction: try again, abort it, or give up.

In: the API that answered, and the code. Out: the meaning, and an exception whose class says the
same to the user: Abortable (abort, then begin again), Fenced (another producer has the id),
InvalidRequest and Failed (change something, then make another producer).
Not here: the states that follow (transactions.py).

| meaning | codes |
|---|---|
| try again | no answer; the coordinator moves or loads; a transaction is still being completed |
| abort | what failed is this transaction's alone: a batch, a topic, a member of a group |
| give up | the producer id, its epoch or its rights are not what the coordinator expects |
"""

from enum import Enum

from barnabas.client.errors import error_of
from barnabas.model.errors import Abortable, Code, Failed, Fenced, InvalidRequest, KafkaError

PRODUCE, INIT_PRODUCER_ID, ADD_PARTITIONS, ADD_OFFSETS, END_TXN, TXN_OFFSET_COMMIT = (
    0,
    22,
    24,
    25,
    26,
    28,
)


class Meaning(Enum):
    """What to do after an answer."""

    DONE = "done"
    RETRY = "retry"
    ABORT = "abort"
    FATAL = "fatal"


MOVED = frozenset({Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR, Code.REQUEST_TIMED_OUT})
"""The coordinator may be another broker by now."""

_RETRY = MOVED | {Code.COORDINATOR_LOAD_IN_PROGRESS, Code.CONCURRENT_TRANSACTIONS}
_RETRY_TOO: dict[int, frozenset[Code]] = {
    # A topic may be so new that the coordinator does not know it.
    ADD_PARTITIONS: frozenset({Code.UNKNOWN_TOPIC_OR_PARTITION}),
    TXN_OFFSET_COMMIT: frozenset({Code.UNKNOWN_TOPIC_OR_PARTITION}),
}
_ABORT: dict[int, frozenset[Code]] = {
    ADD_PARTITIONS: frozenset({Code.TRANSACTION_ABORTABLE, Code.TOPIC_AUTHORIZATION_FAILED}),
    ADD_OFFSETS: frozenset({Code.TRANSACTION_ABORTABLE, Code.GROUP_AUTHORIZATION_FAILED}),
    END_TXN: frozenset({Code.TRANSACTION_ABORTABLE}),
    TXN_OFFSET_COMMIT: frozenset(
        {
            Code.TRANSACTION_ABORTABLE,
            Code.TOPIC_AUTHORIZATION_FAILED,
            Code.GROUP_AUTHORIZATION_FAILED,
            Code.OFFSET_METADATA_TOO_LARGE,
            Code.ILLEGAL_GENERATION,
            Code.UNKNOWN_MEMBER_ID,
            Code.FENCED_INSTANCE_ID,
            Code.FENCED_MEMBER_EPOCH,
            Code.STALE_MEMBER_EPOCH,
            Code.REBALANCE_IN_PROGRESS,
            Code.INVALID_GROUP_ID,
        }
    ),
}
_FATAL_OF_PRODUCE = frozenset(
    {
        Code.PRODUCER_FENCED,
        Code.INVALID_PRODUCER_ID_MAPPING,
        Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        Code.CLUSTER_AUTHORIZATION_FAILED,
        Code.UNSUPPORTED_VERSION,
    }
)
GROUP_MOVED_ON = frozenset(
    {
        Code.ILLEGAL_GENERATION,
        Code.UNKNOWN_MEMBER_ID,
        Code.FENCED_INSTANCE_ID,
        Code.FENCED_MEMBER_EPOCH,
        Code.STALE_MEMBER_EPOCH,
    }
)
"""The group has given partitions of this member to another one."""
ABORT_FIRST = ". Call abort_transaction(), then begin again"


def meaning_of(api_key: int, number: int) -> Meaning:
    """Of a coordinator's answer. Produce: of a batch that was given up, so never RETRY."""
    code = Code.of(number)
    if code is Code.NONE:
        return Meaning.DONE
    if api_key == PRODUCE:
        return Meaning.FATAL if code in _FATAL_OF_PRODUCE else Meaning.ABORT
    if code in _RETRY or code in _RETRY_TOO.get(api_key, ()):
        return Meaning.RETRY
    if code in _ABORT.get(api_key, ()):
        return Meaning.ABORT
    return Meaning.FATAL


def abortable(cause: KafkaError) -> Abortable:
    """The same cause, in the class that says: abort."""
    if isinstance(cause, Abortable):
        return cause
    detail = cause.detail
    if cause.code is Code.INVALID_PRODUCER_EPOCH:
        detail = timed_out().detail
    if cause.code in GROUP_MOVED_ON:
        detail += "; the group has given the partitions to another member, which reads them again"
    return Abortable(cause.code, f"{detail}{ABORT_FIRST}")


def timed_out() -> KafkaError:
    """The coordinator has ended a transaction that the producer had open."""
    return Failed(
        Code.INVALID_TXN_STATE,
        "the coordinator has ended the transaction: it was open for longer than"
        " transaction.timeout.ms, or another producer has started with this transactional.id",
    )


def fatal(transactional_id: str, number: int, detail: str | None = None) -> KafkaError:
    """Nothing more can be done with this producer."""
    about = f"transactional.id {transactional_id!r}"
    code = Code.of(number)
    if code in (Code.PRODUCER_FENCED, Code.INVALID_PRODUCER_EPOCH):
        return Fenced(
            code,
            f"{about}: another producer has started with this id, or the coordinator has aborted"
            " the transaction after transaction.timeout.ms. Close this producer; if no other one"
            " runs, make a new one",
        )
    if code is Code.INVALID_PRODUCER_ID_MAPPING:
        return Fenced(
            code,
            f"{about}: the coordinator does not know this producer (any more): the id was not used"
            " for transactional.id.expiration.ms. Close this producer, and make a new one",
        )
    if code is Code.INVALID_TXN_STATE:
        return Failed(
            code,
            f"{about}: the coordinator and this producer disagree about the transaction's state."
            " Close this producer, and make a new one: it aborts what is open",
        )
    if code is Code.INVALID_TRANSACTION_TIMEOUT:
        return InvalidRequest(
            code,
            f"{about}: transaction.timeout.ms is above the broker's transaction.max.timeout.ms:"
            " lower it",
        )
    if code is Code.TRANSACTION_ABORTABLE:
        return Failed(code, f"{about}: the coordinator does not abort the transaction")
    problem = error_of(number, detail, about=about)
    if isinstance(problem, Abortable):
        return Failed(problem.code, problem.detail)
    return problem

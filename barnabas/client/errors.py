"""Turns an error code of an answer into the exception whose class says what to do."""

from barnabas.model.errors import (
    Abortable,
    Code,
    Failed,
    Fenced,
    InvalidRequest,
    KafkaError,
    Retriable,
)

_RETRIABLE = frozenset(
    {
        Code.CORRUPT_MESSAGE,
        Code.LEADER_NOT_AVAILABLE,
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.REQUEST_TIMED_OUT,
        Code.BROKER_NOT_AVAILABLE,
        Code.REPLICA_NOT_AVAILABLE,
        Code.NETWORK_EXCEPTION,
        Code.COORDINATOR_LOAD_IN_PROGRESS,
        Code.COORDINATOR_NOT_AVAILABLE,
        Code.NOT_COORDINATOR,
        Code.NOT_ENOUGH_REPLICAS,
        Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Code.NOT_CONTROLLER,
        Code.CONCURRENT_TRANSACTIONS,
        Code.KAFKA_STORAGE_ERROR,
        Code.FETCH_SESSION_ID_NOT_FOUND,
        Code.INVALID_FETCH_SESSION_EPOCH,
        Code.LISTENER_NOT_FOUND,
        Code.FENCED_LEADER_EPOCH,
        Code.UNKNOWN_LEADER_EPOCH,
        Code.OFFSET_NOT_AVAILABLE,
        Code.UNSTABLE_OFFSET_COMMIT,
        Code.THROTTLING_QUOTA_EXCEEDED,
        Code.UNKNOWN_TOPIC_ID,
        Code.FETCH_SESSION_TOPIC_ID_ERROR,
        Code.INCONSISTENT_TOPIC_ID,
    }
)
_FENCED = frozenset(
    {
        Code.INVALID_PRODUCER_EPOCH,
        Code.PRODUCER_FENCED,
        Code.TRANSACTION_COORDINATOR_FENCED,
        Code.FENCED_INSTANCE_ID,
        Code.FENCED_MEMBER_EPOCH,
    }
)
_FAILED = frozenset({Code.UNKNOWN_SERVER_ERROR})
_ABORTABLE = frozenset({Code.TRANSACTION_ABORTABLE})


def error_of(number: int, detail: str | None = None, *, about: str = "") -> KafkaError:
    """`about` names the thing; `detail` is what the broker said."""
    code = Code.of(number)
    if code != number:
        return Failed(
            Code.UNKNOWN_SERVER_ERROR,
            f"{about}: unknown error code {number}: the broker may be newer than this client",
        )
    kind: type[KafkaError] = InvalidRequest
    if code in _RETRIABLE:
        kind = Retriable
    elif code in _FENCED:
        kind = Fenced
    elif code in _FAILED:
        kind = Failed
    elif code in _ABORTABLE:
        kind = Abortable
    said = detail or code.text
    return kind(code, f"{about}: {said}" if about else said)


def check(number: int, detail: str | None = None, *, about: str = "") -> None:
    if number:
        raise error_of(number, detail, about=about)


def partition_error(number: int, detail: str | None = None, *, about: str) -> KafkaError:
    """Of a leader's answer: that it does not know the partition may only be old metadata."""
    if number == Code.UNKNOWN_TOPIC_OR_PARTITION:
        return Retriable(
            Code.UNKNOWN_TOPIC_OR_PARTITION,
            f"{about}: the leader does not know this partition; the metadata may be outdated",
        )
    return error_of(number, detail, about=about)


def check_partition(number: int, detail: str | None = None, *, about: str) -> None:
    if number:
        raise partition_error(number, detail, about=about)

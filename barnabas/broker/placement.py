"""Decides whether partitions and replicas may be placed as asked: on a single broker, only here.

In: counts and assignments from requests. Out: nothing, or the error for the client.
Not here: the partitions themselves (catalog.py).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.model.errors import Code, InvalidRequest

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

PARTITIONS_MAX = 10_000  # of one topic, and made by one request: Kafka's own bound on the latter
BROKERS = 1


def check_replication_factor(factor: int) -> None:
    if factor < 1:
        raise InvalidRequest(
            Code.INVALID_REPLICATION_FACTOR,
            f"replication factor {factor}: it must be above 0, or -1 for the default",
        )
    if factor > BROKERS:
        raise InvalidRequest(
            Code.INVALID_REPLICATION_FACTOR,
            f"replication factor {factor}: there is {BROKERS} broker, ask for 1 replica",
        )


def check_replicas(broker: "Broker", partition: int, replicas: Sequence[int]) -> None:
    """An explicit assignment of one partition."""
    problem = ""
    if not replicas:
        problem = "no replica is given"
    elif unknown := [id_ for id_ in replicas if id_ != broker.id]:
        problem = f"there is no broker {unknown[0]}"
    elif len(replicas) > 1:
        problem = f"broker {broker.id} is there more than once"
    if problem:
        raise InvalidRequest(
            Code.INVALID_REPLICA_ASSIGNMENT,
            f"assignment of partition {partition}: {problem}; expected [{broker.id}]",
        )

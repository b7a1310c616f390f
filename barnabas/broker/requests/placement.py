"""Checks whether partitions and replicas can be placed as requested, on the existing brokers.

In: counts and assignments from requests. Out: nothing, or the error for the client.
Not here: the partitions themselves (broker/catalog.py), choosing brokers (controller/placement.py).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.model.errors import Code, InvalidRequest

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

PARTITIONS_MAX = 10_000  # of one topic, and per request: the latter is Kafka's limit too


def registered_brokers(broker: "Broker") -> list[int] | None:
    """Brokers that can have replicas, also while they are down.

    None: only the controller knows, or it was elected a moment ago and has not read them yet.
    """
    if broker.cluster is None:
        return [each.id for each in broker.nodes("")]
    if not broker.cluster.controlling.active:
        return None
    cluster = broker.cluster.controlling.machine.cluster
    return sorted({*cluster.brokers, *cluster.known_brokers}) or None


def check_replication_factor(broker: "Broker", factor: int) -> None:
    if factor < 1:
        raise InvalidRequest(
            Code.INVALID_REPLICATION_FACTOR,
            f"replication factor {factor}: must be above 0, or -1 for the default",
        )
    known = registered_brokers(broker)
    if known is not None and factor > len(known):
        there = "there is 1 broker; request 1 replica"
        if len(known) != 1:
            there = f"there are {len(known)} brokers; request at most {len(known)} replicas"
        raise InvalidRequest(
            Code.INVALID_REPLICATION_FACTOR, f"replication factor {factor}: {there}"
        )


def check_replicas(broker: "Broker", partition: int, replicas: Sequence[int]) -> None:
    """An explicit assignment of one partition."""
    known = registered_brokers(broker) or list(replicas)
    problem = ""
    if not replicas:
        problem = "there is no replica"
    elif unknown := [id_ for id_ in replicas if id_ not in known]:
        problem = f"there is no broker {unknown[0]}"
    elif twice := [id_ for id_ in replicas if replicas.count(id_) > 1]:
        problem = f"broker {twice[0]} is listed twice"
    if problem:
        of = f"[{known[0]}]" if len(known) == 1 else f"some of {known}"
        raise InvalidRequest(
            Code.INVALID_REPLICA_ASSIGNMENT,
            f"assignment of partition {partition}: {problem}; expected {of}",
        )

"""Decides whether partitions and replicas may be placed as asked, on the brokers there are.

In: counts and assignments from requests. Out: nothing, or the error for the client.
Not here: the partitions themselves (catalog.py), choosing brokers (controller/placement.py).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.model.errors import Code, InvalidRequest

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

PARTITIONS_MAX = 10_000  # of one topic, and made by one request: Kafka's own bound on the latter


def live_brokers(broker: "Broker") -> list[int] | None:
    """As far as this broker knows; the controller, which decides, knows best.

    None: it was elected a moment ago, and has not looked yet.
    """
    if broker.cluster is not None and broker.cluster.controlling.active:
        return list(broker.cluster.controlling.machine.cluster.brokers) or None
    return [each.id for each in broker.nodes()]


def check_replication_factor(broker: "Broker", factor: int) -> None:
    if factor < 1:
        raise InvalidRequest(
            Code.INVALID_REPLICATION_FACTOR,
            f"replication factor {factor}: it must be above 0, or -1 for the default",
        )
    live = live_brokers(broker)
    if live is not None and factor > len(live):
        there = "there is 1 broker, ask for 1 replica"
        if len(live) != 1:
            there = f"there are {len(live)} brokers, ask for at most {len(live)} replicas"
        raise InvalidRequest(
            Code.INVALID_REPLICATION_FACTOR, f"replication factor {factor}: {there}"
        )


def check_replicas(broker: "Broker", partition: int, replicas: Sequence[int]) -> None:
    """An explicit assignment of one partition."""
    live = live_brokers(broker) or list(replicas)
    problem = ""
    if not replicas:
        problem = "no replica is given"
    elif unknown := [id_ for id_ in replicas if id_ not in live]:
        problem = f"there is no broker {unknown[0]}"
    elif twice := [id_ for id_ in replicas if replicas.count(id_) > 1]:
        problem = f"broker {twice[0]} is there more than once"
    if problem:
        of = f"[{live[0]}]" if len(live) == 1 else f"some of {live}"
        raise InvalidRequest(
            Code.INVALID_REPLICA_ASSIGNMENT,
            f"assignment of partition {partition}: {problem}; expected {of}",
        )

"""Nodes that only the controller writes, at the paths and in the format of ZooKeeper-era Kafka.

In and out: plain values and the JSON bytes of a node.
Always: nodes that Kafka 2.8 to 3.9 wrote can be read. A state has two fields that Kafka does not
have, `isr_epochs` and `elr`; a deletion mark has `partitions` and `brokers`. Kafka ignores them.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from barnabas.keeper.paths import (
    KNOWN_BROKERS,
    TOPICS,
    corrupt,
    read_json,
    uuid_from,
    uuid_text,
    write_json,
)

CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"

Ids = Sequence[int]


class StateNode(NamedTuple):
    """`isr_epochs`: the epochs of the brokers in `isr`, in the same order; empty if Kafka wrote
    it."""

    leader: int
    leader_epoch: int
    isr: Ids
    controller_epoch: int
    recovering: bool
    isr_epochs: Ids
    elr: Ids = ()


class TopicNode(NamedTuple):
    id: UUID
    replicas: Mapping[int, Ids]
    adding: Mapping[int, Ids]
    removing: Mapping[int, Ids]


class DeletionNode(NamedTuple):
    """`brokers` may still have logs; None: a broker that ran alone wrote the mark."""

    id: UUID
    partitions: int
    brokers: Ids | None


class KnownBrokerNode(NamedTuple):
    """A broker that has registered before; Kafka has no such node."""

    rack: str | None
    directories: Sequence[str]
    lost_epoch: int


def known_broker(id_: int) -> str:
    return f"{KNOWN_BROKERS}/{id_}"


def known_broker_data(node: KnownBrokerNode) -> bytes:
    return write_json(
        {
            "version": 1,
            "rack": node.rack,
            "directories": list(node.directories),
            "lost_epoch": node.lost_epoch,
        }
    )


def read_known_broker(path: str, data: bytes) -> KnownBrokerNode:
    fields = read_json(path, data)
    try:
        rack = fields.get("rack")
        if not isinstance(rack, str | None):
            raise ValueError(f"rack {rack!r}")
        directories = [str(each) for each in fields.get("directories", ())]
        return KnownBrokerNode(rack, directories, int(fields.get("lost_epoch", -1)))
    except (KeyError, ValueError, TypeError, AttributeError) as problem:
        raise corrupt(path, problem) from None


def partitions(topic: str) -> str:
    return f"{TOPICS}/{topic}/partitions"


def partition(topic: str, index: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{index}"


def state(topic: str, index: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{index}/state"


def controller_data(broker: int, wall_ms: int) -> bytes:
    return write_json({"version": 1, "brokerid": broker, "timestamp": str(wall_ms)})


def read_controller(path: str, data: bytes) -> int:
    try:
        return int(read_json(path, data)["brokerid"])
    except (KeyError, ValueError, TypeError) as problem:
        raise corrupt(path, problem) from None


def read_epoch(path: str, data: bytes) -> int:
    """The controller epoch: a number; an empty node has not been written yet."""
    try:
        return int(data or 0)
    except ValueError as problem:
        raise corrupt(path, problem) from None


def state_data(node: StateNode) -> bytes:
    return write_json(
        {
            "version": 2,
            "leader": node.leader,
            "leader_epoch": node.leader_epoch,
            "isr": list(node.isr),
            "controller_epoch": node.controller_epoch,
            "leader_recovery_state": int(node.recovering),
            "isr_epochs": list(node.isr_epochs),
            **({"elr": list(node.elr)} if node.elr else {}),
        }
    )


def read_state(path: str, data: bytes) -> StateNode:
    fields = read_json(path, data)
    try:
        return StateNode(
            int(fields["leader"]),
            int(fields["leader_epoch"]),
            [int(each) for each in fields["isr"]],
            int(fields["controller_epoch"]),
            bool(fields.get("leader_recovery_state", 0)),
            [int(each) for each in fields.get("isr_epochs", ())],
            [int(each) for each in fields.get("elr", ())],
        )
    except (KeyError, ValueError, TypeError, AttributeError) as problem:
        raise corrupt(path, problem) from None


def topic_data(node: TopicNode) -> bytes:
    return write_json(
        {
            "version": 3,
            "topic_id": uuid_text(node.id),
            "partitions": _by_partition(node.replicas),
            "adding_replicas": _by_partition(node.adding),
            "removing_replicas": _by_partition(node.removing),
        }
    )


def read_topic(path: str, data: bytes) -> TopicNode:
    fields = read_json(path, data)
    try:
        found = [
            {int(p): [int(b) for b in brokers] for p, brokers in fields.get(name, {}).items()}
            for name in ("partitions", "adding_replicas", "removing_replicas")
        ]
        replicas, adding, removing = found
        if sorted(replicas) != list(range(len(replicas))) or not all(replicas.values()):
            raise ValueError("partitions are missing, or have no replicas")
        return TopicNode(uuid_from(fields["topic_id"]), replicas, adding, removing)
    except (KeyError, ValueError, TypeError, AttributeError) as problem:
        raise corrupt(path, problem) from None


def deletion_data(node: DeletionNode) -> bytes:
    return write_json(
        {
            "version": 1,
            "topic_id": uuid_text(node.id),
            "partitions": node.partitions,
            "brokers": list(node.brokers or ()),
        }
    )


def read_deletion(path: str, data: bytes) -> DeletionNode:
    fields = read_json(path, data)
    try:
        brokers = fields.get("brokers")
        return DeletionNode(
            uuid_from(fields["topic_id"]),
            int(fields.get("partitions", 0)),
            None if brokers is None else [int(each) for each in brokers],
        )
    except (KeyError, ValueError, TypeError, AttributeError) as problem:
        raise corrupt(path, problem) from None


def _by_partition(brokers: Mapping[int, Ids]) -> dict[str, list[int]]:
    return {str(index): list(ids) for index, ids in sorted(brokers.items())}

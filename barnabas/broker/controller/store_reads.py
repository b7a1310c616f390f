"""Reads the nodes that the controller needs from the keeper, as values of controller/.

In: a keeper. Out: registered brokers, settings, or everything for a controller that starts.
Its calls block: they run in the keeper's thread.
Not here: the writes (store.py).
"""

from collections.abc import Mapping, Sequence

from barnabas.controller.state import (
    Assignment,
    BrokerEndpoint,
    BrokerInfo,
    KnownBroker,
    PartitionLeadership,
)
from barnabas.controller.steps import DeletionMark, KeeperSnapshot, TopicFound
from barnabas.keeper import controller_paths as nodes
from barnabas.keeper import paths
from barnabas.keeper.keeper import Keeper, NoNode
from barnabas.model.errors import Corrupt
from barnabas.model.ids import BrokerId


def read_brokers(keeper: Keeper) -> list[BrokerInfo]:
    """An unreadable registration is ignored: it must not stop all other brokers."""
    found = []
    for name in keeper.children(paths.BROKERS, watch=True):
        if not name.isdecimal():
            continue
        path = paths.broker(int(name))
        try:
            node = keeper.get(path)
            endpoints, rack, directories, least = paths.read_broker(path, node.data)
        except (NoNode, Corrupt):  # its deletion is reported
            continue
        broker = BrokerId(int(name))
        listeners = tuple(BrokerEndpoint(*each) for each in endpoints)
        info = BrokerInfo(broker, node.created, listeners, rack, directories, least)
        found.append(info)
    return sorted(found, key=lambda broker: broker.id)


def read_config(keeper: Keeper, kind: str, name: str) -> dict[str, str]:
    path = config_path(kind, name)
    try:
        return paths.read_config(path, keeper.get(path).data)
    except NoNode:
        return {}


def read_all(keeper: Keeper) -> KeeperSnapshot:
    names = keeper.children(paths.TOPICS)
    found = keeper.get_many([paths.topic_config(name) for name in names])
    topics = [
        _read_topic(keeper, name, {} if each is None else paths.read_config(name, each.data))
        for name, each in zip(names, found, strict=True)
    ]
    deletions = []
    for name in keeper.children(paths.DELETED_TOPICS):
        path = paths.deleted_topic(name)
        mark = nodes.read_deletion(path, keeper.get(path).data)
        if mark.brokers is not None:
            brokers = [BrokerId(each) for each in mark.brokers]
            deletions.append(DeletionMark(name, mark.id, mark.partitions, brokers))
    known = read_known_brokers(keeper)
    settings = [read_config(keeper, "brokers", ""), *_read_broker_settings(keeper, known)]
    return KeeperSnapshot(read_brokers(keeper), topics, deletions, known, settings)


def _read_broker_settings(keeper: Keeper, known: Sequence[KnownBroker]) -> list[dict[str, str]]:
    asked = [paths.broker_config(each.id) for each in known]
    found = zip(asked, keeper.get_many(asked), strict=True)
    return [paths.read_config(path, node.data) for path, node in found if node is not None]


def read_known_brokers(keeper: Keeper) -> list[KnownBroker]:
    names = [each for each in keeper.children(paths.KNOWN_BROKERS) if each.isdecimal()]
    asked = [nodes.known_broker(int(name)) for name in names]
    found = []
    for name, path, node in zip(names, asked, keeper.get_many(asked), strict=True):
        if node is not None:
            rack, directories, lost_epoch = nodes.read_known_broker(path, node.data)
            known = KnownBroker(BrokerId(int(name)), rack, tuple(directories), lost_epoch)
            found.append(known)
    return sorted(found)


def _read_topic(keeper: Keeper, name: str, settings: Mapping[str, str]) -> TopicFound:
    path = paths.topic(name)
    node = nodes.read_topic(path, keeper.get(path).data)
    assignments = {
        index: Assignment(
            _ids(replicas), _ids(node.adding.get(index, ())), _ids(node.removing.get(index, ()))
        )
        for index, replicas in node.replicas.items()
    }
    adopted = not keeper.exists(nodes.partitions(name))
    states = {}
    asked = [] if adopted else [nodes.state(name, index) for index in node.replicas]
    for index, path, found in zip(node.replicas, asked, keeper.get_many(asked), strict=False):
        if found is None:
            continue
        state = nodes.read_state(path, found.data)
        states[index] = PartitionLeadership(
            BrokerId(state.leader),
            state.leader_epoch,
            _ids(state.isr),
            state.controller_epoch,
            found.version,
            state.recovering,
            tuple(state.isr_epochs),
            _ids(state.elr),
        )
    return TopicFound(name, node.id, assignments, states, adopted, settings)


def config_path(kind: str, name: str) -> str:
    if kind == "topics":
        return paths.topic_config(name)
    if kind == "brokers":
        return paths.broker_config(int(name) if name else None)
    return paths.entity_config(kind, name)


def _ids(numbers: Sequence[int]) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, numbers))

"""How a broker gets its id, and how it makes sure that no other broker has it.

In: the configuration, the log directories, the keeper. Out: an id, a registration.
Always: an id that a live broker has is refused, after a wait for the session of a dead one to end.
Not here: what the broker does afterwards (membership.py).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Protocol, TypeVar

from barnabas.keeper import paths
from barnabas.keeper.keeper import (
    Create,
    Disconnected,
    Keeper,
    NodeExists,
    NoNode,
    Operation,
    OutcomeUnknown,
    ensure,
    parent,
    with_parents,
)
from barnabas.log.directory.claim import read_meta
from barnabas.model.errors import Code, Failed
from barnabas.model.ports import Disk
from barnabas.system.logs import Logger

GENERATED_ABOVE = 1_000  # smaller ids are for configuration
LOOK_MS = 100
CONTROLLER_EPOCH = "/controller_epoch"
_PARENTS = (
    parent(paths.CLUSTER_ID),
    paths.BROKERS,
    paths.KNOWN_BROKERS,
    paths.TOPICS,
    paths.TOPIC_CONFIGS,
    paths.BROKER_CONFIGS,
    paths.GROUP_CONFIGS,
    paths.CLIENT_METRICS_CONFIGS,
    paths.USER_CONFIGS,
    paths.TOKEN_CONFIGS,
    paths.CLIENT_CONFIGS,
    paths.IP_CONFIGS,
    paths.CONFIG_CHANGES,
    paths.DELETED_TOPICS,
    CONTROLLER_EPOCH,
)

T = TypeVar("T")


class KeeperCall(Protocol):
    """Runs a call on the keeper of the session, in its thread."""

    def __call__(self, call: Callable[[Keeper], T]) -> Awaitable[T]: ...


def first_id(settings: Mapping[str, str], disk: Disk, directories: Iterable[str]) -> int | None:
    """The configured id, or that of the log directories; None: there is none yet."""
    for name in ("node.id", "broker.id"):
        text = settings.get(name, "")
        if text and int(text) >= 0:
            return int(text)
    for path in directories:
        try:
            found = read_meta(disk, path)
        except OSError:  # it does not exist yet, or is unreachable: opening it reports that
            continue
        if found is not None:
            return found.node_id
    return None


def check_remembered(keeper: Keeper, disk: Disk, directories: Iterable[str]) -> None:
    """An empty keeper does not belong to a broker that was in a cluster: the broker would create
    another cluster, without the topics that are in its log directories."""
    for path in directories:
        try:
            found = read_meta(disk, path)
        except OSError:  # opening it reports that
            continue
        if found is not None and not keeper.exists(paths.CLUSTER_ID):
            raise Failed(
                Code.INCONSISTENT_CLUSTER_ID,
                f"{path} belongs to cluster {found.cluster_id!r}, but the keeper is empty: check"
                " that keeper.file or zookeeper.connect is the one it used before, or restore that;"
                " to start a new cluster, use another directory",
            )


def prepare(keeper: Keeper, wanted: int | None, new_cluster_id: str) -> tuple[str, int, int]:
    """The cluster's id, this broker's id, and the epoch of the latest controller."""
    while missing := _missing(keeper, new_cluster_id):
        try:
            keeper.multi(missing)  # at once: brokers that start together wait for each other
        except NodeExists:
            continue
    cluster_id = paths.read_cluster_id(paths.CLUSTER_ID, keeper.get(paths.CLUSTER_ID).data)
    try:
        controller_epoch = int(keeper.get(CONTROLLER_EPOCH).data or 0)
    except (NoNode, ValueError):
        controller_epoch = 0
    return cluster_id, _new_id(keeper) if wanted is None else wanted, controller_epoch


def _missing(keeper: Keeper, new_cluster_id: str) -> list[Operation]:
    """The nodes that a new keeper needs, parents first."""
    wanted = {each: b"" for path in _PARENTS for each in with_parents(path)}
    wanted[paths.CLUSTER_ID] = paths.cluster_id_data(new_cluster_id)
    found = keeper.get_many(list(wanted))
    return [Create(*each) for each, node in zip(wanted.items(), found, strict=True) if node is None]


def _new_id(keeper: Keeper) -> int:
    """Every write to the node increases its version, which gives each broker another id."""
    ensure(keeper, paths.BROKER_SEQUENCE)
    return GENERATED_ABOVE + keeper.set(paths.BROKER_SEQUENCE, b"")


async def claim(
    id_: int, data: bytes, session: int, run: KeeperCall, wait_ms: int, log: Logger
) -> int:
    """Register; returns the broker epoch. Waits so long for the session of a dead broker to end.

    DUPLICATE_BROKER_REGISTRATION if another live broker has the id.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait_ms / 1000
    logged = False
    while True:
        holder = None
        try:
            epoch, holder = await run(lambda keeper: _try(keeper, id_, data, session))
            if epoch is not None:
                return epoch
        except (OutcomeUnknown, Disconnected):  # if it was done, the node is found to be ours
            deadline = loop.time() + wait_ms / 1000  # no session ends without the keeper
        if holder is not None and loop.time() >= deadline:
            where = f"{holder.host}:{holder.port}"
            raise Failed(
                Code.DUPLICATE_BROKER_REGISTRATION,
                f"broker id {id_} is taken by a live broker at {where}: stop it, or set another"
                " node.id",
            )
        if holder is not None and not logged:
            logged = True
            at = f"{holder.host}:{holder.port}"
            log.info("waiting for the session of a broker with this id to end", broker=id_, at=at)
        await asyncio.sleep(LOOK_MS / 1000)


def _try(
    keeper: Keeper, id_: int, data: bytes, session: int
) -> tuple[int | None, paths.Endpoint | None]:
    """The epoch, or the broker that has the id."""
    path = paths.broker(id_)
    try:
        keeper.create(path, data, ephemeral=True)
    except NodeExists:
        pass
    try:
        node = keeper.get(path)
    except NoNode:
        return None, None
    if node.owner == session:
        return node.created, None
    return None, paths.read_broker(path, node.data).endpoints[0]

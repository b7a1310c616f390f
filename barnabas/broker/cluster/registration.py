"""How a broker comes to its id, and to being the only one that has it.

In: what is configured, what the log directories say, the keeper. Out: an id, a registration.
Always: an id that a live broker has is refused, after a wait for a dead one's session to end.
Not here: what the broker does with its place (membership.py).
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
from barnabas.log.claim import read_meta
from barnabas.model.errors import Code, Failed
from barnabas.model.ports import Disk
from barnabas.system.logs import Logger

GENERATED_ABOVE = 1_000  # smaller ids are for people to give
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
    paths.CONFIG_CHANGES,
    paths.DELETED_TOPICS,
    CONTROLLER_EPOCH,
)

T = TypeVar("T")


class KeeperCall(Protocol):
    """Runs a call on the keeper of the session, in its thread."""

    def __call__(self, call: Callable[[Keeper], T]) -> Awaitable[T]: ...


def first_id(settings: Mapping[str, str], disk: Disk, directories: Iterable[str]) -> int | None:
    """The id that is configured, or else the one that the log directories are of; or none yet."""
    for name in ("node.id", "broker.id"):
        text = settings.get(name, "")
        if text and int(text) >= 0:
            return int(text)
    for path in directories:
        try:
            found = read_meta(disk, path)
        except OSError:  # not there yet, or out of reach: opening it says so
            continue
        if found is not None:
            return found.node_id
    return None


def check_remembered(keeper: Keeper, disk: Disk, directories: Iterable[str]) -> None:
    """A keeper without a cluster is not that of a broker which was in one: it would make another,
    without the topics that are in the log directories."""
    for path in directories:
        try:
            found = read_meta(disk, path)
        except OSError:  # opening it says so
            continue
        if found is not None and not keeper.exists(paths.CLUSTER_ID):
            raise Failed(
                Code.INCONSISTENT_CLUSTER_ID,
                f"{path} belongs to cluster {found.cluster_id!r}, and the keeper is empty: see that"
                " keeper.file or zookeeper.connect is the one it had, or bring that back; another"
                " directory begins anew",
            )


def prepare(keeper: Keeper, wanted: int | None, new_cluster_id: str) -> tuple[str, int, int]:
    """The cluster's id, this broker's, and the epoch of the last controller."""
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
    """What a keeper that no broker has used before has not got, parents first."""
    wanted = {each: b"" for path in _PARENTS for each in with_parents(path)}
    wanted[paths.CLUSTER_ID] = paths.cluster_id_data(new_cluster_id)
    found = keeper.get_many(list(wanted))
    return [Create(*each) for each, node in zip(wanted.items(), found, strict=True) if node is None]


def _new_id(keeper: Keeper) -> int:
    """Every write to the node makes another version of it: another id for each who asks."""
    ensure(keeper, paths.BROKER_SEQUENCE)
    return GENERATED_ABOVE + keeper.set(paths.BROKER_SEQUENCE, b"")


async def patiently(run: KeeperCall, call: Callable[[Keeper], T], wait_ms: int) -> T:
    """What it gives, though the keeper be out of reach for a moment: `call` may run twice."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait_ms / 1000
    while True:
        try:
            return await run(call)
        except (OutcomeUnknown, Disconnected):
            if loop.time() >= deadline:
                raise
        await asyncio.sleep(LOOK_MS / 1000)


async def claim(
    id_: int, data: bytes, session: int, run: KeeperCall, wait_ms: int, log: Logger
) -> int:
    """Register; the epoch of this registration. Waits that long for a session of a dead broker.

    DUPLICATE_BROKER_REGISTRATION if another one lives.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait_ms / 1000
    told = False
    while True:
        holder = None
        try:
            epoch, holder = await run(lambda keeper: _try(keeper, id_, data, session))
            if epoch is not None:
                return epoch
        except (OutcomeUnknown, Disconnected):  # if it was done, it is found to be ours
            if loop.time() >= deadline:
                raise
        if holder is not None and loop.time() >= deadline:
            where = f"{holder.host}:{holder.port}"
            raise Failed(
                Code.DUPLICATE_BROKER_REGISTRATION,
                f"broker id {id_} is taken by a live broker at {where}: stop it, or set another"
                " node.id",
            )
        if holder is not None and not told:
            told = True
            at = f"{holder.host}:{holder.port}"
            log.info("waiting for a broker of this id to be gone", broker=id_, at=at)
        await asyncio.sleep(LOOK_MS / 1000)


def _try(
    keeper: Keeper, id_: int, data: bytes, session: int
) -> tuple[int | None, paths.Endpoint | None]:
    """The epoch, or whoever has the id."""
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

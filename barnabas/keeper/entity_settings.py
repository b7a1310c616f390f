"""Settings of users, clients, addresses, groups and others, as they are in the keeper.

In: a keeper. Out: the settings of every entity, by kind and name. Every call may block.
Not here: the format of a node (paths.py).
"""

from barnabas.keeper import paths
from barnabas.keeper.keeper import Keeper, NoNode

ENTITY_KINDS = (
    paths.GROUPS, paths.CLIENT_METRICS, paths.USERS, paths.TOKENS, paths.CLIENTS, paths.IPS,
)  # fmt: skip


def read_entities(keeper: Keeper) -> dict[tuple[str, str], dict[str, str]]:
    found = [
        f"{kind}/{node}" for kind in ENTITY_KINDS for node in keeper.children(f"/config/{kind}")
    ]
    users = [path for path in found if path.startswith(f"{paths.USERS}/")]
    folders = [f"/config/{user}/{paths.CLIENTS}" for user in users]
    for folder, node in zip(folders, keeper.get_many(folders), strict=True):
        if node is not None:
            inner = folder.removeprefix("/config/")
            found += [f"{inner}/{client}" for client in keeper.children(folder)]
    return {paths.entity_at(path): read_config(keeper, f"/config/{path}") for path in found}


def read_config(keeper: Keeper, path: str) -> dict[str, str]:
    try:
        return paths.read_config(path, keeper.get(path).data)
    except NoNode:
        return {}

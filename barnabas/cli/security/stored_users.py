"""Users of SCRAM in the keeper, changed without a broker: the first administrator needs a user
before any broker lets anyone in.

Always: a change of a cluster's keeper reaches its brokers; the keeper of a lone broker is changed
only while the broker does not run.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from secrets import token_bytes

from barnabas.broker.keepers import open_own, open_zookeeper
from barnabas.keeper.keeper import Create, Keeper, NoNode, Operation, Set, ensure
from barnabas.keeper.paths import (
    CONFIG_CHANGE,
    CONFIG_CHANGES,
    USER_CONFIGS,
    USERS,
    config_change_data,
    config_data,
    entity_config,
    entity_name,
    read_config,
)
from barnabas.model.errors import Code, InvalidRequest
from barnabas.security.sasl.credentials import (
    HASHES,
    SALT_LENGTH,
    credential,
    credential_text,
    read_credential,
)
from barnabas.system.disk import DirectoryLock


@contextmanager
def opened(
    data: str | None, zookeeper: str | None, digest_file: str | None = None
) -> Iterator[Keeper]:
    """The keeper of a data directory that no broker uses, or a ZooKeeper."""
    if zookeeper is not None:
        keeper = open_zookeeper(zookeeper, digest_file)
        try:
            yield keeper
        finally:
            keeper.close()
        return
    assert data is not None
    os.makedirs(data, exist_ok=True)
    lock = DirectoryLock(os.path.abspath(data))
    try:
        keeper = open_own(os.path.abspath(data))
        try:
            yield keeper
        finally:
            keeper.close()
    finally:
        lock.release()


def users(keeper: Keeper) -> dict[str, dict[str, int]]:
    """Iterations by mechanism, of each user with credentials."""
    try:
        nodes = keeper.children(USER_CONFIGS)
    except NoNode:
        return {}
    found = {}
    for node in nodes:
        path = f"{USER_CONFIGS}/{node}"
        settings = read_config(path, keeper.get(path).data)
        mechanisms = {
            name: read_credential(hash_, settings[name]).iterations
            for name, hash_ in HASHES.items()
            if name in settings
        }
        if mechanisms:
            found[entity_name(node)] = mechanisms
    return found


def set_password(
    keeper: Keeper, user: str, password: str, mechanisms: Iterable[str], iterations: int
) -> None:
    _change(
        keeper,
        user,
        {
            name: credential_text(
                credential(HASHES[name], password, token_bytes(SALT_LENGTH), iterations)
            )
            for name in mechanisms
        },
    )


def delete(keeper: Keeper, user: str, mechanisms: Iterable[str]) -> None:
    if user not in users(keeper):
        raise InvalidRequest(Code.RESOURCE_NOT_FOUND, f"there is no user {user!r}")
    _change(keeper, user, dict.fromkeys(mechanisms))


def _change(keeper: Keeper, user: str, changes: Mapping[str, str | None]) -> None:
    """None deletes. Other settings of the user, such as quotas, stay."""
    ensure(keeper, USER_CONFIGS)
    ensure(keeper, CONFIG_CHANGES)
    path = entity_config(USERS, user)
    try:
        node = keeper.get(path)
    except NoNode:
        settings = {name: value for name, value in changes.items() if value is not None}
        operation: Operation = Create(path, config_data(settings))
    else:
        merged = {**read_config(path, node.data), **changes}
        settings = {name: value for name, value in merged.items() if value is not None}
        operation = Set(path, config_data(settings), node.version)
    note = config_change_data(path.removeprefix("/config/"))
    keeper.multi([operation, Create(CONFIG_CHANGE, note, sequential=True)])

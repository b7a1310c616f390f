"""Opens the keeper that a broker's options name: a file of its own, a shared one, or ZooKeeper.

In: options. Out: a keeper; for a broker in a cluster, a new session each time.
"""

import os

from barnabas.config.broker import BrokerConfig
from barnabas.keeper.keeper import Keeper, Listener
from barnabas.keeper.sqlite import SqliteKeeper
from barnabas.model.errors import Code, Failed

KEEPER_FILE = "keeper.db"
TOOL_TIMEOUT_MS = 18_000


def open_own(directory: str) -> Keeper:
    """For a lone broker: no other process uses it, so it needs no session."""
    return SqliteKeeper(os.path.join(directory, KEEPER_FILE))


def open_session(config: BrokerConfig, listener: Listener) -> Keeper:
    """A session of the cluster this broker belongs to. Blocks until it is connected."""
    timeout_ms = config.zookeeper_session_timeout_ms
    if config.zookeeper_connect:
        return _zookeeper(config.zookeeper_connect, timeout_ms, listener)
    assert config.keeper_file, "this broker runs alone"
    return SqliteKeeper(config.keeper_file, timeout_ms, listener)


def open_zookeeper(addresses: str) -> Keeper:
    """For a tool, which has no ephemeral nodes and hears of no event."""
    return _zookeeper(addresses, TOOL_TIMEOUT_MS, lambda news: None)


def _zookeeper(addresses: str, timeout_ms: int, listener: Listener) -> Keeper:
    try:
        from barnabas.keeper.zookeeper import ZookeeperKeeper
    except ModuleNotFoundError as missing:
        if missing.name != "kazoo":
            raise
        raise Failed(
            Code.INVALID_CONFIG,
            f"zookeeper.connect={addresses} requires kazoo: pip install 'barnabas[zookeeper]'",
        ) from None
    return ZookeeperKeeper(addresses, timeout_ms, listener)

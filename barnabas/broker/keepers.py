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
DIGEST_LENGTH_MAX = 1_024


def open_own(directory: str) -> Keeper:
    """For a lone broker: no other process uses it, so it needs no session."""
    return SqliteKeeper(os.path.join(directory, KEEPER_FILE))


def open_session(config: BrokerConfig, listener: Listener) -> Keeper:
    """A session of the cluster this broker belongs to. Blocks until it is connected."""
    timeout_ms = config.zookeeper_session_timeout_ms
    if config.zookeeper_connect:
        digest = read_digest(config.zookeeper_digest_file)
        if config.zookeeper_set_acl and not digest:
            raise Failed(Code.INVALID_CONFIG, "zookeeper.set.acl requires zookeeper.digest.file")
        return _zookeeper(
            config.zookeeper_connect, timeout_ms, listener, digest, config.zookeeper_set_acl
        )
    assert config.keeper_file, "this broker runs alone"
    return SqliteKeeper(config.keeper_file, timeout_ms, listener)


def open_zookeeper(addresses: str, digest_file: str | None = None) -> Keeper:
    """For a tool, which has no ephemeral nodes and receives no events."""
    digest = read_digest(digest_file)
    return _zookeeper(addresses, TOOL_TIMEOUT_MS, lambda news: None, digest, bool(digest))


def read_digest(path: str | None) -> str:
    """USER:PASSWORD from a file; empty without one."""
    if path is None:
        return ""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(DIGEST_LENGTH_MAX + 1).strip("\r\n")
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it is not UTF-8"
        raise Failed(
            Code.INVALID_CONFIG, f"zookeeper.digest.file={path}: it cannot be read: {reason}"
        ) from None
    user, colon, password = text.partition(":")
    if not user or not colon or not password or len(text) > DIGEST_LENGTH_MAX:
        raise Failed(Code.INVALID_CONFIG, f"zookeeper.digest.file={path}: expected USER:PASSWORD")
    return text


def _zookeeper(
    addresses: str, timeout_ms: int, listener: Listener, digest: str, own_nodes: bool
) -> Keeper:
    try:
        from barnabas.keeper.zookeeper import ZookeeperKeeper
    except ModuleNotFoundError as missing:
        if missing.name != "kazoo":
            raise
        raise Failed(
            Code.INVALID_CONFIG,
            f"zookeeper.connect={addresses} requires kazoo: pip install 'barnabas[zookeeper]'",
        ) from None
    return ZookeeperKeeper(addresses, timeout_ms, listener, digest=digest, own_nodes=own_nodes)

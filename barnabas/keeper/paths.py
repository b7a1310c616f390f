"""The paths of nodes in the keeper, and their contents: those of ZooKeeper-era Kafka.

In and out: plain values and the JSON bytes of a node.
Always: nodes that Kafka 2.8 to 3.9 wrote to ZooKeeper can be read; unknown fields are ignored.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from barnabas.model.errors import Code, Corrupt

CLUSTER_ID = "/cluster/id"
BROKERS = "/brokers/ids"
KNOWN_BROKERS = "/brokers/registered"
BROKER_SEQUENCE = "/brokers/seqid"
TOPICS = "/brokers/topics"
TOPIC_CONFIGS = "/config/topics"
BROKER_CONFIGS = "/config/brokers"
GROUPS, CLIENT_METRICS, USERS = "groups", "client-metrics", "users"
TOKENS = "delegation-tokens"
CLIENTS, IPS = "clients", "ips"
USER_CLIENTS = "users/clients"
"""Settings of a user's client: /config/users/USER/clients/CLIENT; NUL is between the two names."""
QUOTA_KINDS = (USERS, CLIENTS, IPS, USER_CLIENTS)
QUOTAS = frozenset(
    (
        "producer_byte_rate", "consumer_byte_rate", "request_percentage",
        "controller_mutation_rate", "connection_creation_rate",
    )
)  # fmt: skip
"""Settings of these kinds that are quotas."""
GROUP_CONFIGS = f"/config/{GROUPS}"
CLIENT_METRICS_CONFIGS = f"/config/{CLIENT_METRICS}"
USER_CONFIGS = f"/config/{USERS}"
TOKEN_CONFIGS = f"/config/{TOKENS}"
CLIENT_CONFIGS = f"/config/{CLIENTS}"
IP_CONFIGS = f"/config/{IPS}"
LOGIN_SECRET = "/security/login_secret"  # noqa: S105 - the path of a node
CONFIG_CHANGES = "/config/changes"
CONFIG_CHANGE = CONFIG_CHANGES + "/config_change_"
DELETED_TOPICS = "/admin/delete_topics"
DEFAULT_BROKER = DEFAULT_NODE = "<default>"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"


class Endpoint(NamedTuple):
    """An address that a broker advertises."""

    listener: str
    host: str
    port: int
    protocol: str = "PLAINTEXT"


class Registration(NamedTuple):
    """What a live broker registers."""

    endpoints: tuple[Endpoint, ...]
    rack: str | None
    directories: tuple[str, ...] = ()
    """The ids of its log directories."""
    min_insync: int = 1
    """Its min.insync.replicas, for topics that have none."""


def broker(id_: int) -> str:
    """Exists as long as the broker's session. Its `created` is the broker's epoch."""
    return f"{BROKERS}/{id_}"


def broker_data(registration: Registration, wall_ms: int) -> bytes:
    plain = [each for each in registration.endpoints if each.protocol == "PLAINTEXT"]
    return write_json(
        {
            "version": 5,
            "host": plain[0].host if plain else None,  # for the oldest clients
            "port": plain[0].port if plain else -1,
            "jmx_port": -1,
            "timestamp": str(wall_ms),
            "endpoints": [
                f"{listener}://{f'[{host}]' if ':' in host else host}:{port}"
                for listener, host, port, _ in registration.endpoints
            ],
            "listener_security_protocol_map": {
                each.listener: each.protocol for each in registration.endpoints
            },
            "rack": registration.rack,
            "features": {},
            "directories": list(registration.directories),
            "min_insync_replicas": registration.min_insync,
        }
    )


def read_broker(path: str, data: bytes) -> Registration:
    fields = read_json(path, data)
    try:
        endpoints = []
        protocols = fields.get("listener_security_protocol_map") or {}
        for text in fields["endpoints"]:
            listener, _, address = text.partition("://")
            host, _, port = address.rpartition(":")
            protocol = str(protocols.get(listener, listener))
            endpoints.append(Endpoint(listener, host.strip("[]"), int(port), protocol))
        rack = fields.get("rack")
        if not endpoints or not isinstance(rack, str | None):
            raise ValueError(f"endpoints {endpoints}, rack {rack!r}")
        directories = tuple(str(each) for each in fields.get("directories", ()))
        min_insync = int(fields.get("min_insync_replicas", 1))
        return Registration(tuple(endpoints), rack, directories, min_insync)
    except (KeyError, ValueError, TypeError, AttributeError) as problem:
        raise corrupt(path, problem) from None


def topic(name: str) -> str:
    return f"{TOPICS}/{name}"


def deleted_topic(name: str) -> str:
    """Exists while logs of a deleted topic, or committed offsets in it, may still exist."""
    return f"{DELETED_TOPICS}/{name}"


def topic_config(name: str) -> str:
    return f"{TOPIC_CONFIGS}/{name}"


def broker_config(broker: int | None) -> str:
    """Of one broker; None: of all."""
    return f"{BROKER_CONFIGS}/{DEFAULT_BROKER if broker is None else broker}"


def entity_config(kind: str, name: str) -> str:
    """Of a group, a user, or a subscription to client metrics: their names may be any text. Without
    a name: what holds for all that have no settings of their own."""
    if kind == USER_CLIENTS:
        user, _, client = name.partition("\0")
        return f"{entity_config(USERS, user)}/{CLIENTS}/{_node(client)}"
    return f"/config/{kind}/{_node(name)}"


def _node(name: str) -> str:
    if not name:
        return DEFAULT_NODE
    safe = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else _percent(c) for c in name)
    return safe.replace(".", "%2E") if not safe.strip(".") else safe


def entity_name(node: str) -> str:
    """The name from that of its node; a node that this code did not write is taken literally."""
    if node == DEFAULT_NODE:
        return ""
    first, *rest = node.split("%")
    try:
        data = first.encode() + b"".join(bytes((int(p[:2], 16),)) + p[2:].encode() for p in rest)
        return data.decode()
    except ValueError:
        return node


def entity_at(path: str) -> tuple[str, str]:
    """The kind and the name from the path below /config."""
    kind, _, node = path.partition("/")
    user, inner, client = node.partition(f"/{CLIENTS}/")
    if kind == USERS and inner:
        return USER_CLIENTS, f"{entity_name(user)}\0{entity_name(client)}"
    return kind, entity_name(node)


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8"))


def topic_data(topic_id: UUID, replicas: Mapping[int, Sequence[int]]) -> bytes:
    """A topic: its id, and the brokers of each partition, the preferred leader first."""
    return write_json(
        {
            "version": 3,
            "topic_id": uuid_text(topic_id),
            "partitions": {str(p): list(brokers) for p, brokers in sorted(replicas.items())},
            "adding_replicas": {},
            "removing_replicas": {},
        }
    )


def read_topic(path: str, data: bytes) -> tuple[UUID, dict[int, list[int]]]:
    fields = read_json(path, data)
    try:
        replicas = {
            int(p): [int(b) for b in brokers] for p, brokers in fields["partitions"].items()
        }
        return uuid_from(fields["topic_id"]), dict(sorted(replicas.items()))
    except (KeyError, ValueError, TypeError, AttributeError) as problem:
        raise corrupt(path, problem) from None


def deleted_topic_data(topic_id: UUID, offsets: Mapping[int, int] | None = None) -> bytes:
    """`offsets`: the logs are deleted; group logs may have offsets of the topic below these
    ends."""
    fields: dict[str, Any] = {"version": 1, "topic_id": uuid_text(topic_id)}
    if offsets is not None:
        fields["offsets"] = {str(shard): end for shard, end in sorted(offsets.items())}
    return write_json(fields)


def read_deleted_topic(path: str, data: bytes) -> tuple[UUID, dict[int, int] | None]:
    fields = read_json(path, data)
    try:
        offsets = fields.get("offsets")
        if offsets is not None:
            offsets = {int(shard): int(end) for shard, end in offsets.items()}
        return uuid_from(fields["topic_id"]), offsets
    except (KeyError, ValueError, TypeError, AttributeError) as problem:
        raise corrupt(path, problem) from None


def config_data(settings: Mapping[str, str]) -> bytes:
    return write_json({"version": 1, "config": dict(settings)})


def read_config(path: str, data: bytes) -> dict[str, str]:
    if not data and path.startswith(f"{USER_CONFIGS}/"):  # created for the nodes below it
        return {}
    settings = read_json(path, data).get("config")
    if not isinstance(settings, dict) or not all(isinstance(v, str) for v in settings.values()):
        raise corrupt(path, ValueError("config is not a map of text"))
    return settings


def config_change_data(entity: str) -> bytes:
    """`entity`: a path below /config whose settings have changed."""
    return write_json({"version": 2, "entity_path": entity})


def read_config_change(path: str, data: bytes) -> str:
    entity = read_json(path, data).get("entity_path")
    if not isinstance(entity, str):
        raise corrupt(path, ValueError("entity_path is missing"))
    return entity


def cluster_id_data(cluster_id: str) -> bytes:
    return write_json({"version": "1", "id": cluster_id})


def read_cluster_id(path: str, data: bytes) -> str:
    cluster_id = read_json(path, data).get("id")
    if not isinstance(cluster_id, str) or not cluster_id:
        raise corrupt(path, ValueError("id is missing"))
    return cluster_id


def producer_id_block_data(broker: int, first: int, last: int) -> bytes:
    """The last block of producer ids that was handed out, first and last included."""
    return write_json(
        {"version": 1, "broker": broker, "block_start": str(first), "block_end": str(last)}
    )


def read_producer_id_block(path: str, data: bytes) -> tuple[int, int]:
    fields = read_json(path, data)
    try:
        return int(fields["block_start"]), int(fields["block_end"])
    except (KeyError, ValueError, TypeError) as problem:
        raise corrupt(path, problem) from None


def uuid_text(value: UUID) -> str:
    """Kafka's way to write a UUID: URL-safe base64 without padding."""
    from base64 import urlsafe_b64encode

    return urlsafe_b64encode(value.bytes).decode().rstrip("=")


def uuid_from(text: str) -> UUID:
    from base64 import urlsafe_b64decode

    return UUID(bytes=urlsafe_b64decode(text + "=="))


def write_json(fields: Mapping[str, object]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


def read_json(path: str, data: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(data)
    except ValueError as problem:
        raise corrupt(path, problem) from None
    if not isinstance(fields, dict):
        raise corrupt(path, ValueError("not an object"))
    return fields


def corrupt(path: str, problem: Exception) -> Corrupt:
    return Corrupt(f"keeper node {path} cannot be read: {problem!r}", Code.UNKNOWN_SERVER_ERROR)

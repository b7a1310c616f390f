"""Makes requests: well formed from the message definitions, with values that mean something.

In: a source of chance, and what the broker has (topics, their ids). Out: request frames
without their size.
Always: the same seed makes the same requests; none asks for more than a few partitions that
would be granted, or changes a setting that would lock everybody out.
Not here: damage (mutate.py).
"""

from functools import cache
from random import Random
from typing import Any
from uuid import UUID

from barnabas.model.errors import KafkaError
from barnabas.wire.apis import APIS
from barnabas.wire.codec import Struct
from barnabas.wire.frames import SIZE_SIZE, read_request_header, request_frame
from barnabas.wire.plan import FieldKind, PlannedField, plan_of
from tests.fuzz import batches

TOPICS = [f"fuzz-{number}" for number in range(4)]
NAMES = [
    *TOPICS,
    *TOPICS,
    *TOPICS,
    "fuzz-new",
    "fuzz.new",
    "../x",
    "..",
    "",
    "a" * 250,
    "a\0b",
    "é",
]
GROUPS = ["fuzz-group", "fuzz-group", "fuzz-other", "", "a" * 300, "é"]
MEMBERS = ["", "", "fuzz-member", "fuzz-member", "a" * 300]
PROTOCOLS = ["range", "range", "roundrobin", "uniform", ""]
PATTERNS = ["fuzz.*", "(a+)+$", "[", "", "(?i)F.*", "\\p{L}+", "a{1000}{1000}"]
OPTIONS = ["retention.ms", "segment.bytes", "cleanup.policy", "max.message.bytes", "no.such", ""]
VALUES = ["1", "1000000", "-1", "delete", "compact", "", None, "9" * 30, "\0"]
PARTITIONS_MAX = 8  # granted to one fuzzed topic
PARTITIONS_REFUSED = 10_001  # and this many are refused

_INTEGERS: dict[str, tuple[int, ...]] = {
    format_: (0, 1, -1, 2, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    for format_, bits in (("b", 8), ("h", 16), ("i", 32), ("q", 64))
} | {"H": (0, 1, 2, 2**16 - 1)}
_NUMBERS: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(
        ("partition", "index", "partition_index", "partitions", "partition_indexes"),
        (0, 0, 0, 0, 1, 2, -1, 2**31 - 1),
    ),
    **dict.fromkeys(
        ("num_partitions", "count"), (1, 2, 3, -1, 0, -2, PARTITIONS_REFUSED, 2**31 - 1)
    ),
    "replication_factor": (1, 1, 1, -1, 0, 2, 32767),
    "broker_ids": (1, 1, 1, 2, -1),
    "acks": (-1, -1, 1, 1, 0, 2, -32768),
    "max_wait_ms": (0, 0, 0, 1, 3, -1),
    "min_bytes": (0, 1, 1, 2**31 - 1, -1),
    "max_bytes": (1 << 20, 1 << 20, 0, 1, -1, 2**31 - 1),
    "partition_max_bytes": (1 << 16, 1 << 16, 0, 1, -1, 2**31 - 1),
    "fetch_offset": (0, 0, 0, 1, 2, 100, -1, 2**63 - 1, -(2**63)),
    "offset": (0, 1, 2, -1, -2, 2**63 - 1),
    "timestamp": (-1, -2, -3, -4, -5, -6, 0, 1_650_000_000_000, 2**63 - 1, -(2**63)),
    "session_id": (0, 0, 0, 1, -1),
    "session_epoch": (-1, -1, 0, 1, 2**31 - 1),
    "current_leader_epoch": (-1, -1, 0, 1, 2**31 - 1),
    "leader_epoch": (0, 0, 1, -1, 2**31 - 1),
    "resource_type": (2, 2, 2, 4, 8, 16, 32, 0, -1),
    "config_operation": (0, 0, 1, 2, 3, 9, -1),
    "replica_id": (-1, -1, -1, -2, 0, 1),
    "isolation_level": (0, 0, 1, 2, -1),
    "response_partition_limit": (2000, 1, 0, -1),
    # A member may wait for as long as it says: only briefly here, or for far too long.
    "session_timeout_ms": (6_000, 6_000, 6_000, 0, -1, 2**31 - 1),
    "rebalance_timeout_ms": (50, 50, 50, 0, -1, -(2**31)),
    "generation_id": (1, 1, 2, 0, -1, 2**31 - 1, -(2**31)),
    "generation_id_or_member_epoch": (-1, -1, 1, 2, 0, 2**31 - 1, -(2**31)),
    "member_epoch": (0, 0, 0, 1, 2, -1, -2, -3, 2**31 - 1),
}
_TEXTS = {
    **dict.fromkeys(("group_id", "group", "groups", "coordinator_keys", "key"), GROUPS),
    **dict.fromkeys(("member_id", "group_instance_id", "instance_id"), MEMBERS),
    "protocol_type": ["consumer", "consumer", "connect", ""],
    **dict.fromkeys(("protocol_name", "server_assignor"), PROTOCOLS),
    "subscribed_topic_regex": PATTERNS,
    "subscribed_topic_names": NAMES,
    "reason": ["", "x" * 1000],
}
_STRUCTS_NAMING_OPTIONS = ("CreatableTopicConfig", "AlterableConfig")

_plan = cache(plan_of)


class Generator:
    """One stream of requests."""

    def __init__(
        self, random: Random, versions: dict[int, tuple[int, int]], ids: list[UUID]
    ) -> None:
        self._random = random
        self._versions = versions
        self._keys = list(versions)
        self._ids = [*ids, *ids, UUID(int=0), UUID(int=1), UUID(int=2**128 - 1)]
        self._good = GOOD
        self._correlation = 0

    def request(self) -> bytes:
        """Of any API and version that the broker offers."""
        random = self._random
        key = 0 if random.random() < 0.15 else random.choice(self._keys)
        api = APIS[key]
        least, most = self._versions[key]
        version = random.randint(max(least, api.min_version), most)
        flexible = version >= api.request.flexible_from
        self._correlation += 1
        client = random.choice(("fuzz", None, "", "x" * 200))
        message: Any = self._struct(api.request, version, flexible, 0)
        return request_frame(key, version, self._correlation, client, message)[SIZE_SIZE:]

    def _struct(self, cls: type[Struct], version: int, flexible: bool, depth: int) -> Struct:
        values = {}
        for field in _plan(cls, version, flexible):
            if not field.present or (field.tag is not None and self._random.random() < 0.7):
                continue
            values[field.name] = self._value(cls, field, field.kind, version, flexible, depth)
        return cls(**values)

    def _value(
        self,
        cls: type[Struct],
        field: PlannedField,
        kind: FieldKind,
        version: int,
        flexible: bool,
        depth: int,
    ) -> Any:
        random = self._random
        if kind.nullable and random.random() < 0.1:
            return None
        if kind.shape == "fixed":
            return self._fixed(field.name, kind.format)
        if kind.shape == "str":
            return self._text(cls, field.name, kind.nullable)
        if kind.shape == "records":
            return random.choice(self._good if random.random() < 0.6 else WRONG)
        if kind.shape == "bytes":
            return random.randbytes(random.randrange(20))
        if kind.shape == "struct":
            assert kind.struct is not None
            return self._struct(kind.struct, version, flexible, depth + 1)
        assert kind.element is not None
        count = random.choice((1, 1, 1, 0, 2, 3))
        return [
            self._value(cls, field, kind.element, version, flexible, depth + 1)
            for _ in range(count)
        ]

    def _fixed(self, name: str, format_: str) -> Any:
        random = self._random
        if format_ == "?":
            return random.random() < 0.5
        if format_ == "d":
            return random.choice((0.0, 1.5, -1.0, 1e308))
        if format_ == "16s":
            return random.choice(self._ids)
        return random.choice(_NUMBERS.get(name) or _INTEGERS[format_])

    def _text(self, cls: type[Struct], name: str, nullable: bool) -> str | None:
        random = self._random
        if name == "configuration_keys" or (
            name == "name" and cls.__name__ in _STRUCTS_NAMING_OPTIONS
        ):
            return random.choice(OPTIONS)
        if name == "value":
            value = random.choice(VALUES)
            return value if value is not None or nullable else ""
        if name == "resource_name":
            return random.choice([*NAMES, "1", "1", "2"])
        if (choices := _TEXTS.get(name)) is not None and random.random() < 0.9:
            return random.choice(choices)
        if name == "transactional_id" and nullable and random.random() < 0.8:
            return None
        return random.choice(NAMES)


def too_generous(body: bytes) -> bool:
    """Would a broker rightly spend long on this? A request for thousands of partitions is one."""
    try:
        header = read_request_header(body)
        if header.api_key not in (19, 37):
            return False
        request: Any = APIS[header.api_key].request.decode(
            body, header.api_version, header.body_position
        )
    except KafkaError:
        return False
    counts = [
        max(len(t.assignments or ()), t.num_partitions if header.api_key == 19 else t.count)
        for t in request.topics
    ]
    return any(PARTITIONS_MAX < count < PARTITIONS_REFUSED for count in counts)


GOOD = batches.good(Random("good"))
WRONG = batches.wrong()

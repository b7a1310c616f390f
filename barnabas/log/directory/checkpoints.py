"""Kafka's small text files: offset checkpoints, leader epochs, topic id, meta.properties.

In: bytes. Out: values, or CorruptCheckpoint with the reason; and back.
Not here: when they are written (directory.py), where a log's own go (log/log.py).
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from barnabas.model.ids import TopicPartition

RECOVERY_POINT = "recovery-point-offset-checkpoint"
LOG_START = "log-start-offset-checkpoint"
HIGH_WATERMARK = "replication-offset-checkpoint"
CLEANER = "cleaner-offset-checkpoint"
INCOMPLETE = "incomplete-replicas-checkpoint"
META_PROPERTIES = "meta.properties"
PARTITION_METADATA = "partition.metadata"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
UNKNOWN = -1  # no file names the log
_VERSION = "0"


class CorruptCheckpoint(Exception):
    """The file is not what Kafka or Barnabas would have written."""


class MetaProperties(NamedTuple):
    """The owner of a log directory."""

    cluster_id: str
    node_id: int
    directory_id: str


class CheckpointedOffsets(NamedTuple):
    """The offsets of one log in the directory's checkpoint files; 0 where it is not in a file.

    If the recovery point is UNKNOWN, the whole log is checked, and missing offsets are taken for
    the work of compaction; between two files only if the log is not `new`: a new log has never been
    compacted.
    """

    recovery_point: int = 0
    start_offset: int = 0
    high_watermark: int = 0
    cleaned_to: int = 0
    new: bool = False


def encode_offsets(offsets: Iterable[tuple[TopicPartition, int]]) -> bytes:
    return _encode(f"{tp.topic} {tp.partition} {offset}" for tp, offset in offsets)


def decode_offsets(data: bytes) -> dict[TopicPartition, int]:
    result = {}
    for topic, partition, offset in _decode(data, 3):
        result[TopicPartition(topic, _number(partition))] = _number(offset)
    return result


def encode_epochs(entries: Iterable[tuple[int, int]]) -> bytes:
    return _encode(f"{epoch} {start}" for epoch, start in entries)


def decode_epochs(data: bytes) -> list[tuple[int, int]]:
    return [(_number(epoch), _number(start)) for epoch, start in _decode(data, 2)]


def encode_uuid(uuid: UUID) -> str:
    """As Kafka prints ids: 22 characters of URL-safe base64."""
    return urlsafe_b64encode(uuid.bytes).decode().rstrip("=")


def decode_uuid(text: str) -> UUID:
    try:
        return UUID(bytes=urlsafe_b64decode(text + "=="))
    except ValueError:
        raise CorruptCheckpoint(f"{text[:60]!r} is not an id") from None


def encode_topic_id(topic_id: UUID) -> bytes:
    return f"version: 0\ntopic_id: {encode_uuid(topic_id)}".encode()


def decode_topic_id(data: bytes) -> UUID:
    fields = dict(line.split(": ", 1) for line in _text(data).splitlines() if ": " in line)
    if fields.get("version") != _VERSION or "topic_id" not in fields:
        raise CorruptCheckpoint(f"no topic id of version {_VERSION} in {data[:80]!r}")
    return decode_uuid(fields["topic_id"].strip())


def encode_meta(meta: MetaProperties) -> bytes:
    return (
        f"#\ncluster.id={meta.cluster_id}\ndirectory.id={meta.directory_id}\n"
        f"node.id={meta.node_id}\nversion=1\n"
    ).encode()


def decode_meta(data: bytes) -> MetaProperties:
    lines = (line.strip() for line in _text(data).splitlines())
    fields = dict(line.split("=", 1) for line in lines if "=" in line and line[0] not in "#!")
    node_id = fields.get("node.id", fields.get("broker.id"))
    if "cluster.id" not in fields or node_id is None:
        raise CorruptCheckpoint("cluster.id or node.id is missing")
    # Kafka's own writer escapes these two in values.
    cluster_id = fields["cluster.id"].replace("\\=", "=").replace("\\:", ":")
    return MetaProperties(cluster_id, _number(node_id), fields.get("directory.id", ""))


def _encode(lines: Iterable[str]) -> bytes:
    entries = list(lines)
    return "\n".join([_VERSION, str(len(entries)), *entries, ""]).encode()


def _decode(data: bytes, width: int) -> list[list[str]]:
    lines = _text(data).splitlines()
    if len(lines) < 2 or lines[0].strip() != _VERSION:
        raise CorruptCheckpoint(f"it does not begin with version {_VERSION} and a count")
    entries = [line.split() for line in lines[2:] if line.strip()]
    if len(entries) != _number(lines[1]):
        raise CorruptCheckpoint(f"it announces {lines[1].strip()} entries and has {len(entries)}")
    for entry in entries:
        if len(entry) != width:
            raise CorruptCheckpoint(f"an entry has {len(entry)} fields, {width} expected")
    return entries


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise CorruptCheckpoint(f"{text[:60]!r} is not a number") from None


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise CorruptCheckpoint("it is not text") from None

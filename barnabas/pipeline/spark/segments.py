"""Reads the batches of a range from the segment files of a broker on this machine, without a
socket.

In: a range that ends at or below the high watermark. Out: its batches, complete and still
compressed.
Always: files are only read, and only if the broker lets this user read the topic; bytes below the
high watermark are never written again. This is only faster: if a file is missing or damaged, the
batches are fetched from the leader. The layout is Kafka's, so files of Apache Kafka are read too.
Figures: docs/adr/0027.
"""

import os
import struct
from base64 import urlsafe_b64encode
from bisect import bisect_left, bisect_right
from uuid import UUID

from barnabas.client.admin.admin import EARLIEST
from barnabas.client.admin.security import OPERATIONS
from barnabas.client.blocking.admin import Admin
from barnabas.client.blocking.net import run
from barnabas.client.cluster import ClusterClient
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.wire.batch import BatchHeader
from barnabas.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from barnabas.wire.records import iter_batches

_CHUNK = 1024 * 1024  # small enough for the CPU caches
_CHUNK_MAX = 64 * 1024 * 1024
_INDEX_SIZE_MAX = 64 * 1024 * 1024
_READ = 1 << OPERATIONS.index("read")
_ENTRY = struct.Struct(">II")
_LENGTH = struct.Struct(">qi")  # base offset and length

# The directories of brokers that are on this machine, by cluster and broker.
_directories: dict[tuple[str, int], list[str]] = {}


def local_files(
    cluster: ClusterClient, at: TopicPartition, position: int, topic_id: UUID | None = None
) -> "SegmentFiles | None":
    """The files of a partition from an offset on; None if they are not on this machine, are of
    another topic with this name, or if this user may not read the topic.
    """
    try:
        if not _may_read(cluster, at.topic):
            return None
        view = run(cluster.view([at.topic]))
        directories = _directories_of(cluster, view.cluster_id or "", view.leader(at))
        paths = [os.path.join(each, f"{at.topic}-{at.partition}") for each in directories]
        path = next((each for each in paths if os.path.isdir(each)), None)
        # Deleted records may still be in a file: they must not be read.
        if path is None or Admin(cluster=cluster).offsets({at: EARLIEST})[at].offset > position:
            return None
        return SegmentFiles(path, position, topic_id)
    except (KafkaError, OSError):
        return None


def _may_read(cluster: ClusterClient, topic: str) -> bool:
    """What the access rules of the broker say, which files do not have."""
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=topic)],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    connection = run(cluster.anyone())
    asked = connection.call(request, MetadataResponse, timeout_ms=cluster.timeout_ms)
    return all(each.topic_authorized_operations & _READ for each in run(asked).topics)


def _directories_of(cluster: ClusterClient, cluster_id: str, broker: int) -> list[str]:
    key = (cluster_id, broker)
    if key not in _directories:
        known = [each.path for each in Admin(cluster=cluster).log_dirs([broker])]
        _directories[key] = [path for path in known if _belongs(path, cluster_id, broker)]
    return _directories[key]


def _is_of(path: str, topic_id: UUID) -> bool:
    """Kafka writes the id as base64, without padding, into a small file of the partition."""
    with open(os.path.join(path, "partition.metadata")) as file:
        text = file.read(10_000)
    return urlsafe_b64encode(topic_id.bytes).decode().rstrip("=") in text


def _belongs(path: str, cluster_id: str, broker: int) -> bool:
    """Cluster ids are random: a local directory with this cluster id belongs to this broker."""
    try:
        with open(os.path.join(path, "meta.properties")) as file:
            text = file.read(10_000)
    except (OSError, UnicodeDecodeError):
        return False
    lines = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    number = lines.get("node.id", lines.get("broker.id", ""))
    return bool(cluster_id) and lines.get("cluster.id") == cluster_id and number == str(broker)


class SegmentFiles:
    """The files of one partition. On OSError or Corrupt, fetch from the leader, at the same
    position.
    """

    def __init__(self, path: str, position: int, topic_id: UUID | None = None) -> None:
        self._path = path
        self._topic_id = topic_id
        self._buffer = bytearray(_CHUNK)
        self._file = -1
        self._at = 0
        self._open(position)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _open(self, position: int) -> None:
        """Moves to the batch that has this offset, or a little before it."""
        names = sorted(name for name in os.listdir(self._path) if name.endswith(".log"))
        bases = [int(name[:-4]) for name in names if name[:-4].isdecimal()]
        number = bisect_right(bases, position) - 1
        if number < 0:
            raise FileNotFoundError(f"{self._path} has nothing at offset {position}")
        self.close()
        self._base = bases[number]
        name = os.path.join(self._path, f"{self._base:020d}")
        self._at = _indexed(f"{name}.index", position - self._base) if position > self._base else 0
        self._file = os.open(f"{name}.log", os.O_RDONLY | os.O_CLOEXEC)
        # Asked once the file is open: what is created under this name later is not read.
        if self._topic_id is not None and not _is_of(self._path, self._topic_id):
            self.close()
            raise FileNotFoundError(f"{self._path} is of another topic")

    def chunk(self, position: int) -> list[tuple[BatchHeader, memoryview]]:
        """Some complete batches from an offset on; the next call overwrites them."""
        found = self._read()
        while found and found[-1][0].last_offset < position:
            found = self._read()
        if not found:
            self._open(position)  # the next segment
            found = self._read()
        if not found or not found[0][0].base_offset <= position <= found[-1][0].last_offset:
            raise FileNotFoundError(f"{self._path} has no batch with offset {position}")
        return found

    def _read(self) -> list[tuple[BatchHeader, memoryview]]:
        while True:
            with memoryview(self._buffer) as view:
                size = os.preadv(self._file, [view], self._at)
            found = list(iter_batches(memoryview(self._buffer)[:size]))
            if found:
                self._at += sum(len(batch) for _, batch in found)
                return found
            if size < _LENGTH.size:
                return []
            wanted = _LENGTH.unpack_from(self._buffer)[1] + _LENGTH.size
            if not len(self._buffer) < wanted <= _CHUNK_MAX:
                return []
            self._buffer = bytearray(wanted)


def _indexed(path: str, relative: int) -> int:
    """The file position at which to begin the search for an offset."""
    with open(path, "rb") as file:
        data = file.read(_INDEX_SIZE_MAX)
    entries = range(len(data) // _ENTRY.size)
    # Kafka preallocates room for later entries, filled with zeros.
    used = bisect_left(entries, True, key=lambda n: n > 0 and _entry(data, n)[0] == 0)
    number = bisect_right(entries, relative, hi=used, key=lambda n: _entry(data, n)[0]) - 1
    return _entry(data, number)[1] if number >= 0 else 0


def _entry(data: bytes, number: int) -> tuple[int, int]:
    offset, position = _ENTRY.unpack_from(data, number * _ENTRY.size)
    return offset, position

"""Batches of a range from the segment files of a broker on this very machine, without a socket.

In: a range that ends at or below the high watermark. Out: its batches, whole and still packed.
Always: files are only read; what lies below the high watermark is never written to again. Nothing
here is needed: where a file is not found, or is not as it should be, the leader is asked instead.
Kafka's layout, so that files of Apache Kafka are read too. Figures: docs/adr/0027.
"""

import os
import struct
from bisect import bisect_left, bisect_right

from barnabas.client.admin.admin import EARLIEST
from barnabas.client.blocking.admin import Admin
from barnabas.client.blocking.net import run
from barnabas.client.cluster import ClusterClient
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.wire.batch import BatchHeader
from barnabas.wire.records import iter_batches

_CHUNK = 1024 * 1024  # small enough to stay in a processor's caches
_CHUNK_MAX = 64 * 1024 * 1024
_INDEX_SIZE_MAX = 64 * 1024 * 1024
_ENTRY = struct.Struct(">II")
_LENGTH = struct.Struct(">qi")  # base offset, and the length of what follows

# The directories of brokers that are on this machine, by cluster and broker.
_directories: dict[tuple[str, int], list[str]] = {}


def local_files(cluster: ClusterClient, at: TopicPartition, position: int) -> "SegmentFiles | None":
    """The files of a partition from an offset on; None if they are not here."""
    try:
        view = run(cluster.view([at.topic]))
        directories = _directories_of(cluster, view.cluster_id or "", view.leader(at))
        paths = [os.path.join(each, f"{at.topic}-{at.partition}") for each in directories]
        path = next((each for each in paths if os.path.isdir(each)), None)
        # Records that were deleted may still be in a file: they are not to be read.
        if path is None or Admin(cluster=cluster).offsets({at: EARLIEST})[at].offset > position:
            return None
        return SegmentFiles(path, position)
    except (KafkaError, OSError):
        return None


def _directories_of(cluster: ClusterClient, cluster_id: str, broker: int) -> list[str]:
    key = (cluster_id, broker)
    if key not in _directories:
        known = [each.path for each in Admin(cluster=cluster).log_dirs([broker])]
        _directories[key] = [path for path in known if _belongs(path, cluster_id, broker)]
    return _directories[key]


def _belongs(path: str, cluster_id: str, broker: int) -> bool:
    """Cluster ids are random: a directory that has this one is this broker's, seen from here."""
    try:
        with open(os.path.join(path, "meta.properties")) as file:
            text = file.read(10_000)
    except (OSError, UnicodeDecodeError):
        return False
    lines = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    number = lines.get("node.id", lines.get("broker.id", ""))
    return bool(cluster_id) and lines.get("cluster.id") == cluster_id and number == str(broker)


class SegmentFiles:
    """Of one partition. OSError or Corrupt: go on some other way, from the same position."""

    def __init__(self, path: str, position: int) -> None:
        self._path = path
        self._buffer = bytearray(_CHUNK)
        self._file = -1
        self._at = 0
        self._open(position)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _open(self, position: int) -> None:
        """At, or a little before, the batch that has this offset."""
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

    def chunk(self, position: int) -> list[tuple[BatchHeader, memoryview]]:
        """Some whole batches from an offset on; the next call writes over them."""
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
    """Where in the segment to begin to look for an offset."""
    with open(path, "rb") as file:
        data = file.read(_INDEX_SIZE_MAX)
    entries = range(len(data) // _ENTRY.size)
    # Kafka makes room for entries to come: zeros.
    used = bisect_left(entries, True, key=lambda n: n > 0 and _entry(data, n)[0] == 0)
    number = bisect_right(entries, relative, hi=used, key=lambda n: _entry(data, n)[0]) - 1
    return _entry(data, number)[1] if number >= 0 else 0


def _entry(data: bytes, number: int) -> tuple[int, int]:
    offset, position = _ENTRY.unpack_from(data, number * _ENTRY.size)
    return offset, position

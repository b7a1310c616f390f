"""Markers: the control batches that end a transaction in a partition.

In: a marker to write, or a control batch that was read. Out: 78 bytes, or the marker.
Always: a control batch that is no marker of a known kind is None, no error: Kafka has others.
Not here: whether a partition accepts a marker (log/), when one is sent (coordinators/transactions).
"""

from functools import lru_cache
from struct import Struct
from typing import NamedTuple

from barnabas.model.errors import Corrupt
from barnabas.model.ports import Buffer
from barnabas.wire.batch import CONTROL, HEADER_SIZE, NO_SEQUENCE, TRANSACTIONAL, BatchHeader, seal
from barnabas.wire.record_writer import RecordWriter
from barnabas.wire.records import decode_batch

_KEY = Struct(">hh")  # version, kind
_VALUE = Struct(">hi")  # version, coordinator epoch
_VERSION = 0
ABORT = 0
COMMIT = 1
MARKER_SIZE = 78


class EndMarker(NamedTuple):
    """How a transaction ended, and the epoch of the coordinator that decided it."""

    commit: bool
    coordinator_epoch: int


def marker_batch(
    producer_id: int, producer_epoch: int, marker: EndMarker, timestamp: int
) -> bytearray:
    """A batch with nothing but the marker."""
    batch = bytearray(_unsealed(marker.commit, marker.coordinator_epoch))
    attributes = TRANSACTIONAL | CONTROL
    seal(
        batch,
        (attributes, 0, timestamp, timestamp, producer_id, producer_epoch, NO_SEQUENCE, 1),
    )
    return batch


@lru_cache(maxsize=128)
def _unsealed(commit: bool, coordinator_epoch: int) -> bytes:
    """The batch without its header. Its record has the time of the header, so it is always the
    same."""
    writer = RecordWriter(HEADER_SIZE, MARKER_SIZE)
    key = _KEY.pack(_VERSION, COMMIT if commit else ABORT)
    writer.append(key, _VALUE.pack(_VERSION, coordinator_epoch), (), 0)
    return bytes(writer.close())


def read_marker(batch: Buffer, header: BatchHeader) -> EndMarker | None:
    """The marker in a control batch; None if it is another kind, or has been compacted away."""
    if not header.record_count:
        return None
    record = decode_batch(batch, header=header, crc=False)[0]
    if record.key is None or len(record.key) < _KEY.size:
        raise Corrupt(f"control record {record.offset} has no key of 4 bytes")
    version, kind = _KEY.unpack_from(record.key)
    if version < _VERSION:
        raise Corrupt(f"control record {record.offset} has version {version}")
    if kind not in (ABORT, COMMIT):
        return None
    if record.value is None or len(record.value) < _VALUE.size:
        raise Corrupt(f"marker {record.offset} has no value of 6 bytes")
    version, coordinator_epoch = _VALUE.unpack_from(record.value)
    if version < _VERSION:
        raise Corrupt(f"marker {record.offset} has version {version}")
    return EndMarker(kind == COMMIT, coordinator_epoch)

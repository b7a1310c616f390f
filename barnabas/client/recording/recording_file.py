"""The format of a recording: a header, then record batches as the broker stores them.

    BREC1\n
    a line of JSON: topic, partitions, options of the topic, when it was recorded, by which version
    for each batch: partition (4 bytes), size (4 bytes), the batch (docs/adr/0003)

Always: a file that is cut off or damaged raises Corrupt with the position.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from struct import Struct
from typing import BinaryIO

from barnabas.model.errors import Code, Corrupt, InvalidRequest
from barnabas.wire.batch import BatchHeader, check_crc, read_header

MAGIC = b"BREC1\n"
HEADER_SIZE_MAX = 1 << 20
BATCH_SIZE_MAX = 1 << 30
_ENTRY = Struct(">iI")


@dataclass(frozen=True, slots=True)
class RecordingHeader:
    """What the batches belong to."""

    topic: str
    partitions: int
    recorded_ms: int
    version: str
    configs: dict[str, str] = field(default_factory=dict)


def write_start(out: BinaryIO, header: RecordingHeader) -> None:
    out.write(MAGIC + json.dumps(asdict(header)).encode() + b"\n")


def write_batch(out: BinaryIO, partition: int, batch: bytes | memoryview) -> None:
    out.write(_ENTRY.pack(partition, len(batch)))
    out.write(batch)


def read_start(file: BinaryIO) -> RecordingHeader:
    if file.read(len(MAGIC)) != MAGIC:
        raise InvalidRequest(
            Code.INVALID_REQUEST, "this is not a recording: `barnabas record TOPIC FILE` makes one"
        )
    line = file.readline(HEADER_SIZE_MAX)
    try:
        fields = json.loads(line)
        return RecordingHeader(
            str(fields["topic"]),
            int(fields["partitions"]),
            int(fields["recorded_ms"]),
            str(fields["version"]),
            {str(name): str(value) for name, value in dict(fields["configs"]).items()},
        )
    except (ValueError, KeyError, TypeError) as problem:
        raise Corrupt(f"the header of the recording cannot be read: {problem!r}") from None


def batches(file: BinaryIO, partitions: int) -> Iterator[tuple[int, BatchHeader, bytes]]:
    """Partition, header and bytes of each batch, checked."""
    while entry := file.read(_ENTRY.size):
        position = file.tell()
        if len(entry) < _ENTRY.size:
            raise Corrupt(f"the recording is cut off at byte {position}")
        partition, size = _ENTRY.unpack(entry)
        if not 0 <= partition < partitions or size > BATCH_SIZE_MAX:
            raise Corrupt(f"byte {position}: partition {partition}, {size} bytes: not a batch")
        batch = file.read(size)
        if len(batch) < size:
            raise Corrupt(f"the recording is cut off at byte {position + len(batch)}")
        header = read_header(batch)
        check_crc(batch, header)
        yield partition, header, batch

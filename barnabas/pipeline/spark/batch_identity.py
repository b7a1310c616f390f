"""Which records a batch stands for, and which of them a table or a topic already has.

In: the offsets between which Spark planned a batch; the offsets up to which a sink has rows. Out:
the offsets from which the rows of the batch are still to be written.
Always: a number alone does not identify a batch. If an old copy of a checkpoint is restored, or
another driver planned the same number, the same number stands for other records. So a sink keeps
the end offsets of what it has, of partitions without rows too, by the ids of the topics. A row
below such an offset is in the sink, and is never written again; a row above it is not there yet.
Pure: checkpoint.py reads the offsets, the sinks store them.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from barnabas.model.ids import NO_TOPIC_ID, TopicPartition
from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.spark.offsets import Offsets, from_json, to_json

_DIGEST_BITS = 63  # fits a signed number of 64 bits


class SinkBehind(PipelineError):
    """Rows between the end of the sink and the start of the batch are in neither."""


@dataclass(frozen=True)
class BatchIdentity:
    """One batch of one query. `topic_ids` has no topics of brokers that give topics no ids."""

    query: str
    number: int
    start: Offsets
    end: Offsets
    topic_ids: Mapping[str, str]

    @property
    def name(self) -> str:
        """For people: it does not say which records these are."""
        return f"{self.query}-{self.number}"

    def keys(self) -> dict[TopicPartition, str]:
        """A name of each partition that another topic with the same name does not have."""
        return {at: partition_key(at, self.topic_ids) for at in self.end}

    def remaining(self, done: Mapping[str, int]) -> Offsets:
        """The partitions with rows to write, and the first offset of these. `done`: up to where the
        sink has rows, by `partition_key`; empty for a sink that has none of this query.
        """
        found = {}
        for at, key in self.keys().items():
            start = self.start.get(at, 0)
            have = done.get(key)
            if have is not None and have < start:
                raise SinkBehind(
                    f"{at}: the sink has rows up to offset {have}, and batch {self.number} begins"
                    f" at {start}: rows were taken out of it. Restore them, or use another"
                    " run.checkpoint and another sink to read everything again"
                )
            begin = start if have is None else max(start, have)
            if begin < self.end[at]:
                found[at] = begin
        return found

    def done_after(self, done: Mapping[str, int]) -> dict[str, int]:
        """Up to where the sink has rows once this batch is in it."""
        after = dict(done)
        for at, key in self.keys().items():
            end, have = self.end[at], after.get(key, 0)
            # With failOnDataLoss=false a partition may begin again at a lower offset.
            after[key] = end if end < self.start.get(at, 0) else max(end, have)
        return after

    def document(self) -> dict[str, Any]:
        """As JSON, for the sinks."""
        return {
            "query": self.query,
            "batch": self.number,
            "start": to_json(self.start),
            "end": to_json(self.end),
            "topic_ids": dict(sorted(self.topic_ids.items())),
        }


def partition_key(at: TopicPartition, topic_ids: Mapping[str, str]) -> str:
    return f"{topic_ids.get(at.topic, at.topic)}/{at.partition}"


def digest(offsets: Offsets, topic_ids: Mapping[str, str]) -> int:
    """A number for a set of offsets: sinks that store only numbers compare it at a glance."""
    keyed = sorted((partition_key(at, topic_ids), offset) for at, offset in offsets.items())
    hashed = hashlib.sha256(json.dumps(keyed).encode()).digest()
    return int.from_bytes(hashed[:8], "big") >> (64 - _DIGEST_BITS)


def known_ids(topics: Mapping[str, UUID]) -> dict[str, str]:
    return {name: str(id_) for name, id_ in topics.items() if id_ != NO_TOPIC_ID}


# --- Spark's offset log ---


def planned_offsets(text: str, name: str) -> Offsets:
    """The offsets in a file of Spark's offset log, of a query with one source. `name` is for the
    error.
    """
    lines = text.splitlines()
    if len(lines) == 3 and lines[0] == "v1":
        try:
            return from_json(json.loads(lines[2]), name)
        except ValueError:
            pass
    raise PipelineError(
        f"{name} is not an offset log of one source: {' '.join(lines)[:200]!r}. Restore the"
        " checkpoint, or use another run.checkpoint"
    )


def done_of(document: object) -> dict[str, int]:
    """The offsets that a sink stored, checked: any program may have written there."""
    if not isinstance(document, dict):
        return {}
    return {
        str(key): offset
        for key, offset in document.items()
        if isinstance(offset, int) and not isinstance(offset, bool) and offset >= 0
    }


def overlaps(identity: BatchIdentity, done: Mapping[str, int]) -> bool:
    """Whether the sink has, or may have, some rows of the batch."""
    return any(
        done.get(key, -1) > identity.start.get(at, 0) < identity.end[at]
        for at, key in identity.keys().items()
    )

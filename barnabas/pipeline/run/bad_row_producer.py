"""Writes bad rows to the retry topic and the dead-letter topic: one transaction per batch.

In: the bad rows of a batch, and its identity. Out: records in the two topics.
Always: the transaction also commits the batch's end offsets to the group GROUP.letters, with the
query and the topic's id as metadata; so the rows of a batch are written together with the note
that they are. The transactional id is the pipeline's: a driver that starts fences an older one,
whose next batch is refused, before it can write anything; also if the older one had another
checkpoint, whose open transaction would hold back the group's offsets until it times out. Readers
must read committed records.
A row that is larger than its topic allows is cut, and a header says so: it must not stop the
pipeline.
Not here: which rows are bad (rows.py), which of them are in the topics already (dead_letters.py).
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from barnabas.client.blocking.net import run
from barnabas.client.blocking.producer import Producer
from barnabas.client.group_metadata import GroupMetadata
from barnabas.client.producer.accumulator import BufferFull
from barnabas.client.workers import dead_letter_headers as header_names
from barnabas.model.errors import Code, Fenced, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.spark.batch_identity import BatchIdentity
from barnabas.pipeline.spark.brokers import committed_offsets, opened

_TIMEOUT_MS = 300_000  # how long a killed driver can hold back readers, unless it starts again
_BATCH_OVERHEAD = 61 + 30  # bytes of a batch and of a record
_HEADER_OVERHEAD = 10
_MEMORY_MIN = 32 * 1024 * 1024

Headers = tuple[tuple[str, bytes | None], ...]


class BadRow(NamedTuple):
    """A record for one of the two topics."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers

    @property
    def size(self) -> int:
        """About the size of a batch with only this record, rather too large."""
        size = _BATCH_OVERHEAD + len(self.key or b"") + len(self.value or b"")
        return size + sum(
            len(name.encode()) + len(value or b"") + _HEADER_OVERHEAD
            for name, value in self.headers
        )


def fitted(row: BadRow, limits: Mapping[str, int], dlq: str) -> BadRow:
    """The row, or what fits of it. Another attempt at half a value is pointless: such a row goes to
    the dead-letter topic.
    """
    if row.size <= limits[row.topic]:
        return row
    cut = (header_names.CUT, str(len(row.value or b"")).encode())
    row = row._replace(topic=dlq, headers=(*row.headers, cut))
    over = row.size - limits[dlq]
    if over > len(row.value or b""):
        # Its key or its own headers are that large: only what says where it came from stays.
        ours = tuple(each for each in row.headers if each[0].startswith(header_names.PREFIX))
        row = row._replace(key=None, headers=ours)
        over = row.size - limits[dlq]
    if over > 0 and row.value is not None:
        row = row._replace(value=row.value[: max(len(row.value) - over, 0)])
    return row


class BadRowProducer:
    """The producer of one query. `limits`: the largest record of each of the two topics."""

    def __init__(
        self,
        client: Mapping[str, str],
        query: str,
        group: str,
        dlq: str,
        limits: Mapping[str, int],
    ) -> None:
        self._client = dict(client)
        self._query = query
        self._group = f"{group}.letters"
        self._dlq = dlq
        self._limits = limits
        size = max(limits.values())
        self._producer = Producer(
            {
                **client,
                "transactional.id": self._group,
                "transaction.timeout.ms": _TIMEOUT_MS,
                "max.request.size": size,
                "buffer.memory": max(4 * size, _MEMORY_MIN),
            }
        )
        self._closed = False
        try:
            self._producer.init_transactions()
        except BaseException:
            self.close()
            raise

    def done(self, identity: BatchIdentity) -> dict[str, int]:
        """Up to where the bad rows of this query are written."""
        found = run(committed_offsets(opened(self._client), self._group, list(identity.end)))
        return {
            key: found[at][0]
            for at, key in identity.keys().items()
            if at in found and found[at][1] == self._note(identity, at)
        }

    def write(self, identity: BatchIdentity, rows: Iterable[BadRow]) -> None:
        """PipelineError if another driver has begun to write for this query."""
        try:
            with self._producer.transaction():
                for row in rows:
                    self._send(fitted(row, self._limits, self._dlq))
                offsets = {
                    at: (offset, -1, self._note(identity, at))
                    for at, offset in identity.end.items()
                }
                self._producer.send_offsets_to_transaction(offsets, GroupMetadata(self._group))
        except KafkaError as problem:
            if isinstance(problem, Fenced) or problem.code is Code.PRODUCER_FENCED:
                raise PipelineError(
                    f"another driver has taken over query {self._query}: this one stops at batch"
                    f" {identity.number}, and nothing is written twice. Run each pipeline once",
                    problem.code,
                ) from None
            raise

    def _note(self, identity: BatchIdentity, at: TopicPartition) -> str:
        return f"{self._query} {identity.topic_ids.get(at.topic, '')}"

    def _send(self, row: BadRow) -> None:
        while True:
            try:
                self._producer.send_nowait(row.topic, row.value, key=row.key, headers=row.headers)
                return
            except BufferFull:
                self._producer.drain()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            try:
                self._producer.close(timeout_s=1)
            except KafkaError:
                pass  # its transaction is aborted by the next driver, or by its timeout

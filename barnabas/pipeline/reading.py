"""Reads a range of offsets of one partition, as Arrow batches.

In: a range. Out: its rows, in order. Runs in Spark's tasks, blocking.
Always: every record of the range that is there is given once; the next fetch is on its way while
one is decoded; what is gone is an error, or is left out if the user said so.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from barnabas.client.arrow import ArrowRows
from barnabas.client.blocking.net import run
from barnabas.client.cluster import Cluster
from barnabas.client.decoding import Aborted
from barnabas.client.errors import partition_error
from barnabas.model.errors import Code, Corrupt, InvalidRequest, KafkaError, Retriable
from barnabas.model.ids import NO_TOPIC_ID, TopicPartition
from barnabas.model.ports import FileSlice
from barnabas.pipeline.cluster import look_again, look_for, opened
from barnabas.pipeline.errors import DataLoss, PipelineError
from barnabas.pipeline.offsets import OffsetRange
from barnabas.wire.batch import CONTROL, BatchHeader
from barnabas.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from barnabas.wire.records import iter_batches

if TYPE_CHECKING:
    import pyarrow

ROWS_MAX = 16 * 1024  # of one Arrow batch, which is then read while it is still in the caches
BYTES_MAX = 4 * 1024 * 1024
_FETCH_BYTES = 4 * 1024 * 1024
_BY_NAME_MAX = 12  # the last version of Fetch that names topics
_WAIT_MS = 500


@dataclass(frozen=True)
class Task:
    """What one task of Spark reads, and how."""

    range: OffsetRange
    client: tuple[tuple[str, str], ...]
    headers: bool
    fail_on_data_loss: bool
    poll_timeout_ms: int
    time_min: int | None = None  # older batches need not be unpacked


def read_task(task: Task) -> Iterator["pyarrow.RecordBatch"]:
    cluster = opened(dict(task.client))
    look_for(cluster, [task.range.at])
    yield from _Reading(task, cluster).batches()


class _Reading:
    def __init__(self, task: Task, cluster: Cluster) -> None:
        self._task = task
        self._cluster = cluster
        self._at: TopicPartition = task.range.at
        self._position = task.range.start
        self._stop = task.range.stop
        self._rows = ArrowRows(headers=task.headers)
        self._committed_only = cluster.config.isolation_level == "read_committed"
        self._crc = cluster.config.check_crcs
        asked = "max.partition.fetch.bytes" in dict(task.client)
        self._fetch_bytes = cluster.config.max_partition_fetch_bytes if asked else _FETCH_BYTES

    def batches(self) -> Iterator["pyarrow.RecordBatch"]:
        """Each is the caller's: what it looks at is not written to again."""
        rows = self._rows
        ahead: Any = None
        while self._position < self._stop:
            answer = self._answer(ahead)
            ahead = None
            if answer is None:
                break
            found, after = self._whole_batches(answer)
            if after < self._stop:
                ahead = self._ask(after)
            aborted = Aborted(answer) if self._committed_only else None
            for header, batch in found:
                if header.last_offset < self._position or not self._wanted(header, batch, aborted):
                    continue
                rows.add(
                    self._at.topic,
                    self._at.partition,
                    header,
                    batch,
                    self._position,
                    self._stop,
                    crc=self._crc,
                )
                if rows.rows >= ROWS_MAX or rows.size >= BYTES_MAX:
                    yield rows.take()
            self._position = after
        if rows.rows:
            yield rows.take()

    def _wanted(self, header: BatchHeader, batch: memoryview, aborted: Aborted | None) -> bool:
        if aborted is not None and aborted.covers(header, batch):
            return False
        if header.attributes & CONTROL or header.base_offset >= self._stop:
            return False
        return self._task.time_min is None or header.max_timestamp >= self._task.time_min

    def _whole_batches(
        self, answer: PartitionData
    ) -> tuple[list[tuple[BatchHeader, memoryview]], int]:
        records = answer.records or b""
        assert not isinstance(records, FileSlice)  # those are only ever sent
        found = list(iter_batches(records))
        if not found:
            raise Corrupt(
                f"{self._at}, offset {self._position}: {len(records)} bytes and no whole batch"
            )
        return found, max(found[-1][0].last_offset + 1, self._position)

    # --- fetching ---

    def _ask(self, position: int) -> Any:
        """A request on its way; None if it could not be sent, which the next wait finds out."""
        try:
            return run(self._send(position))
        except Retriable:
            return None

    async def _send(self, position: int) -> Any:
        view = await self._cluster.view([self._at.topic])
        topic_id = view.topic(self._at.topic).id
        partition = view.partition(self._at)
        connection = await self._cluster.broker(view.leader(self._at))
        return connection.send(
            FetchRequest(
                max_wait_ms=_WAIT_MS,
                min_bytes=1,
                max_bytes=max(self._fetch_bytes, 1),
                isolation_level=1 if self._committed_only else 0,
                topics=[
                    FetchTopic(
                        topic=self._at.topic,
                        topic_id=topic_id,
                        partitions=[
                            FetchPartition(
                                partition=self._at.partition,
                                current_leader_epoch=partition.leader_epoch,
                                fetch_offset=position,
                                partition_max_bytes=self._fetch_bytes,
                            )
                        ],
                    )
                ],
            ),
            FetchResponse,
            timeout_ms=self._cluster.timeout_ms + _WAIT_MS,
            version_max=_BY_NAME_MAX if topic_id == NO_TOPIC_ID else None,
        )

    def _answer(self, ahead: Any) -> PartitionData | None:
        """Records from the position on; None if there is nothing left that could be read."""
        deadline = time.monotonic() + self._task.poll_timeout_ms / 1000
        waits = iter(self._cluster.waits_ms())
        while True:
            try:
                answer = run(self._received(ahead if ahead is not None else None))
                if answer.records:
                    return answer
                problem: KafkaError = Retriable(
                    Code.REQUEST_TIMED_OUT,
                    f"{self._at}: no record came from offset {self._position} on, though"
                    f" {self._stop - self._position} should be there",
                )
                wait_ms = 0
            except Retriable as why:
                problem = why
                wait_ms = next(waits)
            except InvalidRequest as why:
                if not self._skips_what_is_gone(why):
                    return None
                problem, wait_ms = why, 0
            ahead = None
            if time.monotonic() + wait_ms / 1000 > deadline:
                if not self._task.fail_on_data_loss:
                    return None
                raise PipelineError(f"{problem} (waited {self._task.poll_timeout_ms} ms)")
            if wait_ms:
                time.sleep(wait_ms / 1000)
                look_again(self._cluster)

    async def _received(self, ahead: Any) -> PartitionData:
        response: FetchResponse = await (ahead or await self._send(self._position))
        if response.error_code:
            raise partition_error(response.error_code, about=str(self._at))
        for topic in response.responses:
            for answer in topic.partitions:
                if answer.error_code:
                    about = f"{self._at}, offset {self._position}"
                    raise partition_error(answer.error_code, about=about)
                return answer
        raise Retriable(Code.UNKNOWN_SERVER_ERROR, f"{self._at} is missing in the answer")

    def _skips_what_is_gone(self, problem: InvalidRequest) -> bool:
        """Go on where there is something; False if there is nothing. Or say that data is lost."""
        if problem.code is Code.UNKNOWN_TOPIC_OR_PARTITION:
            start, reason = self._stop, f"{self._at} does not exist any more"
        elif problem.code is Code.OFFSET_OUT_OF_RANGE:
            from barnabas.client.admin import EARLIEST
            from barnabas.client.blocking.admin import Admin

            first = Admin(cluster=self._cluster).offsets({self._at: EARLIEST})[self._at].offset
            if first > self._position:
                start = min(first, self._stop)
                reason = f"{self._at} begins at offset {first}, and {self._position} was wanted"
            else:
                start = self._stop
                reason = f"{self._at} ends before offset {self._position}"
        else:
            raise problem
        if self._task.fail_on_data_loss:
            raise lost(reason)
        self._position = start
        return start < self._stop


def lost(reason: str) -> DataLoss:
    return DataLoss(
        f"{reason}: records may have been lost. Set failOnDataLoss to false to go on without them"
    )

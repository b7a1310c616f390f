"""Fetches the record batches of a range from the partition's leader, complete and still compressed.

In: a range. Out: its batches, response by response, in order. Blocking.
Always: the next fetch is sent before a response is processed; records that are deleted are an
error, or are skipped if the user chose that (failOnDataLoss).
Not here: decoding or copying the batches (reading.py, pipeline/mirror/copying.py).
"""

import time
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from barnabas.client.blocking.net import run
from barnabas.client.cluster import ClusterClient
from barnabas.client.consumer.decoding import Aborted
from barnabas.client.errors import partition_error
from barnabas.model.errors import Code, Corrupt, InvalidRequest, KafkaError, Retriable
from barnabas.model.ids import NO_TOPIC_ID, TopicPartition
from barnabas.model.ports import FileSlice
from barnabas.pipeline.errors import DataLoss, PipelineError
from barnabas.pipeline.spark.brokers import look_again
from barnabas.pipeline.spark.offsets import OffsetRange
from barnabas.pipeline.spark.segments import local_files
from barnabas.wire.batch import CONTROL, TRANSACTIONAL, BatchHeader
from barnabas.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from barnabas.wire.records import iter_batches

FETCH_BYTES = 4 * 1024 * 1024
_BY_NAME_MAX = 12  # the last version of Fetch that names topics
_WAIT_MS = 500
_FROM_FILES_MIN = 10_000  # offsets: for a smaller range, files are not looked for


class RangeFetcher:
    """The batches of one range. `position` is the first offset that has not been returned yet."""

    def __init__(
        self,
        cluster: ClusterClient,
        range_: OffsetRange,
        *,
        committed_only: bool,
        fetch_bytes: int = FETCH_BYTES,
        fail_on_data_loss: bool = True,
        poll_timeout_ms: int = 120_000,
        topic_id: UUID | None = None,
    ) -> None:
        self._cluster = cluster
        self._topic_id = None if topic_id == NO_TOPIC_ID else topic_id
        self._at: TopicPartition = range_.at
        self.position = range_.start
        self._stop = range_.stop
        self._committed_only = committed_only
        self._fetch_bytes = fetch_bytes
        self._fail_on_data_loss = fail_on_data_loss
        self._poll_timeout_ms = poll_timeout_ms

    def batches(self) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Data batches of the range, without control batches and batches of aborted transactions.

        A batch is valid until the next one is requested.
        """
        if self._stop - self.position >= _FROM_FILES_MIN:
            yield from self._from_files()
        ahead: Any = None
        while self.position < self._stop:
            answer = self._answer(ahead)
            ahead = None
            if answer is None:
                break
            found, after = self._within(self._whole_batches(answer))
            if after < self._stop:
                ahead = self._ask(after)
            aborted = Aborted(answer) if self._committed_only else None
            for header, batch in found:
                if header.last_offset >= self.position and self._wanted(header, batch, aborted):
                    yield header, batch
            self.position = after

    def _wanted(self, header: BatchHeader, batch: memoryview, aborted: Aborted | None) -> bool:
        if aborted is not None and aborted.covers(header, batch):
            return False
        return not header.attributes & CONTROL

    def _from_files(self) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Reads from the segment files of this machine as far as possible; not with read_committed,
        if there are transactions.
        """
        files = local_files(self._cluster, self._at, self.position, self._topic_id)
        if files is None:
            return
        try:
            while self.position < self._stop:
                found, after = self._within(files.chunk(self.position))
                for header, batch in found:
                    if self._committed_only and header.attributes & (CONTROL | TRANSACTIONAL):
                        self.position = max(header.base_offset, self.position)
                        return
                    if header.last_offset >= self.position and not header.attributes & CONTROL:
                        yield header, batch
                self.position = after
        except (OSError, Corrupt):
            return
        finally:
            files.close()

    def _whole_batches(self, answer: PartitionData) -> list[tuple[BatchHeader, memoryview]]:
        records = answer.records or b""
        assert not isinstance(records, FileSlice)  # file slices are only sent, never received
        whole = list(iter_batches(records))
        if not whole:
            raise Corrupt(
                f"{self._at}, offset {self.position}: {len(records)} bytes and no whole batch"
            )
        return whole

    def _within(
        self, whole: list[tuple[BatchHeader, memoryview]]
    ) -> tuple[list[tuple[BatchHeader, memoryview]], int]:
        """The batches of the range, and the offset after them. Batches after the range
        are ignored.
        """
        found = [each for each in whole if each[0].base_offset < self._stop]
        after = found[-1][0].last_offset + 1 if found else self._stop
        return found, max(after, self.position)

    def _ask(self, position: int) -> Any:
        """Sends a request; None if it could not be sent, which the next wait reports."""
        try:
            return run(self._send(position))
        except Retriable:
            return None

    async def _send(self, position: int) -> Any:
        view = await self._cluster.view([self._at.topic])
        topic_id = view.topic(self._at.topic).id
        if self._topic_id is not None and topic_id not in (self._topic_id, NO_TOPIC_ID):
            # Its offsets stand for other records, however many it has.
            raise lost(f"topic {self._at.topic!r} was deleted and created again")
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
        """Records from the position on; None if there are no more records to read."""
        deadline = time.monotonic() + self._poll_timeout_ms / 1000
        waits = iter(self._cluster.waits_ms())
        while True:
            try:
                answer = run(self._received(ahead if ahead is not None else None))
                if answer.records:
                    return answer
                problem: KafkaError = Retriable(
                    Code.REQUEST_TIMED_OUT,
                    f"{self._at}: no record was returned from offset {self.position} on, but"
                    f" {self._stop - self.position} are expected",
                )
                wait_ms = 0
                nobody_answers = False
            except Retriable as why:
                problem = why
                wait_ms = next(waits)
                nobody_answers = True
            except InvalidRequest as why:
                if not self._skips_what_is_gone(why):
                    return None
                problem, wait_ms, nobody_answers = why, 0, False
            ahead = None
            if time.monotonic() + wait_ms / 1000 > deadline:
                if not self._fail_on_data_loss and not nobody_answers:
                    return None
                raise PipelineError(f"{problem} (waited {self._poll_timeout_ms} ms)")
            if wait_ms:
                time.sleep(wait_ms / 1000)
                look_again(self._cluster)

    async def _received(self, ahead: Any) -> PartitionData:
        response: FetchResponse = await (ahead or await self._send(self.position))
        if response.error_code:
            raise partition_error(response.error_code, about=str(self._at))
        for topic in response.responses:
            for answer in topic.partitions:
                if answer.error_code:
                    about = f"{self._at}, offset {self.position}"
                    raise partition_error(answer.error_code, about=about)
                return answer
        raise Retriable(Code.UNKNOWN_SERVER_ERROR, f"{self._at} is missing in the response")

    def _skips_what_is_gone(self, problem: InvalidRequest) -> bool:
        """Continue at the next offset that exists; False if there is none. DataLoss unless the user
        allows it.
        """
        if problem.code is Code.UNKNOWN_TOPIC_OR_PARTITION:
            start, reason = self._stop, f"{self._at} no longer exists"
        elif problem.code is Code.OFFSET_OUT_OF_RANGE:
            from barnabas.client.admin.admin import EARLIEST
            from barnabas.client.blocking.admin import Admin

            first = Admin(cluster=self._cluster).offsets({self._at: EARLIEST})[self._at].offset
            if first > self.position:
                start = min(first, self._stop)
                reason = f"{self._at} begins at offset {first}, but {self.position} was requested"
            else:
                start = self._stop
                reason = f"{self._at} ends before offset {self.position}"
        else:
            raise problem
        if self._fail_on_data_loss:
            raise lost(reason)
        self.position = start
        return start < self._stop


def lost(reason: str) -> DataLoss:
    return DataLoss(
        f"{reason}: records may have been lost. Set failOnDataLoss to false to continue without"
        " them"
    )

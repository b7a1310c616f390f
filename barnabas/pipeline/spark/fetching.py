"""Asks a partition's leader for the record batches of a range, whole and still packed.

In: a range. Out: its batches, answer by answer, in order. Blocking.
Always: the next fetch is on its way while an answer is looked at; what is gone is an error, or is
left out if the user said so.
Not here: what becomes of the batches (reading.py, pipeline/mirror/copying.py).
"""

import time
from collections.abc import Iterator
from typing import Any

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
_FROM_FILES_MIN = 10_000  # offsets: for fewer it is not worth looking for files


class RangeFetcher:
    """Of one range. `position` is the first offset that has not been given yet."""

    def __init__(
        self,
        cluster: ClusterClient,
        range_: OffsetRange,
        *,
        committed_only: bool,
        fetch_bytes: int = FETCH_BYTES,
        fail_on_data_loss: bool = True,
        poll_timeout_ms: int = 120_000,
    ) -> None:
        self._cluster = cluster
        self._at: TopicPartition = range_.at
        self.position = range_.start
        self._stop = range_.stop
        self._committed_only = committed_only
        self._fetch_bytes = fetch_bytes
        self._fail_on_data_loss = fail_on_data_loss
        self._poll_timeout_ms = poll_timeout_ms

    def batches(self) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Batches of records: none of control, of an aborted transaction or outside the range.

        A batch may be looked at until the next one is asked for.
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
        """As far as files of this machine have it, without transactions if those count."""
        files = local_files(self._cluster, self._at, self.position)
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
        assert not isinstance(records, FileSlice)  # those are only ever sent
        whole = list(iter_batches(records))
        if not whole:
            raise Corrupt(
                f"{self._at}, offset {self.position}: {len(records)} bytes and no whole batch"
            )
        return whole

    def _within(
        self, whole: list[tuple[BatchHeader, memoryview]]
    ) -> tuple[list[tuple[BatchHeader, memoryview]], int]:
        """Those of the range, and the offset behind them. What lies behind it does not count."""
        found = [each for each in whole if each[0].base_offset < self._stop]
        after = found[-1][0].last_offset + 1 if found else self._stop
        return found, max(after, self.position)

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
        deadline = time.monotonic() + self._poll_timeout_ms / 1000
        waits = iter(self._cluster.waits_ms())
        while True:
            try:
                answer = run(self._received(ahead if ahead is not None else None))
                if answer.records:
                    return answer
                problem: KafkaError = Retriable(
                    Code.REQUEST_TIMED_OUT,
                    f"{self._at}: no record came from offset {self.position} on, though"
                    f" {self._stop - self.position} should be there",
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
        raise Retriable(Code.UNKNOWN_SERVER_ERROR, f"{self._at} is missing in the answer")

    def _skips_what_is_gone(self, problem: InvalidRequest) -> bool:
        """Go on where there is something; False if there is nothing. Or say that data is lost."""
        if problem.code is Code.UNKNOWN_TOPIC_OR_PARTITION:
            start, reason = self._stop, f"{self._at} does not exist any more"
        elif problem.code is Code.OFFSET_OUT_OF_RANGE:
            from barnabas.client.admin.admin import EARLIEST
            from barnabas.client.blocking.admin import Admin

            first = Admin(cluster=self._cluster).offsets({self._at: EARLIEST})[self._at].offset
            if first > self.position:
                start = min(first, self._stop)
                reason = f"{self._at} begins at offset {first}, and {self.position} was wanted"
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
        f"{reason}: records may have been lost. Set failOnDataLoss to false to go on without them"
    )

"""Identical offsets: record n of the source is record n of the target.

In: the first and last offsets of the source's partitions. Out: the offset where each copy starts.
Always: one producer writes a partition; its id is recorded in the target before its first record,
and the sequence number of a record is its offset. So the target's broker refuses a record that it
already has, or that comes too early, from any sender. A mirror that was killed continues at the end
of the target, and no record is written twice, even if tasks of the killed mirror still write.
Offsets that are deleted at the start of the source are filled with empty records, which are deleted
before a consumer can read them. Gaps between records cannot be filled: copying.py refuses them.
"""

import time
from collections.abc import Callable, Sequence

from barnabas.client.admin.admin import EARLIEST, LATEST
from barnabas.client.blocking.admin import Admin
from barnabas.client.cluster import ClusterClient
from barnabas.model.ids import TopicPartition
from barnabas.pipeline.errors import PipelineError
from barnabas.pipeline.mirror.copying import CopyTask
from barnabas.pipeline.mirror.translation import IdenticalProducer, Translation
from barnabas.pipeline.spark.offsets import Offsets
from barnabas.pipeline.spark.sending import BatchSender
from barnabas.wire.compression import Codec
from barnabas.wire.records import Record, encode_batch

PADDING_MAX = 100_000_000  # offsets to fill in one partition
_PADDING_RECORDS = 50_000  # records of one batch, which is a few hundred bytes

Note = Callable[[Sequence[Record]], None]


class Identical:
    """Identical offsets of one mirror. `note` writes records to the translation topic."""

    def __init__(
        self, target: ClusterClient, admin: Admin, translation: Translation, note: Note
    ) -> None:
        self._target = target
        self._admin = admin
        self._translation = translation
        self._note = note
        translation.identical = True

    def check_topic(self, topic: str, options: dict[str, str]) -> None:
        if "compact" in options.get("cleanup.policy", ""):
            raise PipelineError(
                f"topic {topic!r} is compacted: offsets that are missing between its records cannot"
                " be kept; mirror it with sink.offsets: translated"
            )

    def starts(self, firsts: Offsets, lasts: Offsets) -> Offsets:
        """Prepares each partition of the target, and returns its end offset."""
        partitions = list(firsts)
        ends = self._ends(partitions)
        begins = self._asked(partitions, EARLIEST)
        self._claim([at for at in partitions if at not in self._translation.soles], firsts, ends)
        for at in partitions:
            sole = self._translation.soles[at]
            if ends[at] > max(lasts[at], sole.first):
                raise PipelineError(
                    f"{at} ends at offset {lasts[at]} in the source and at {ends[at]} in the"
                    " target: was the topic recreated, or written to? Delete it in the target"
                )
            if ends[at] < sole.first:
                self._pad(at, ends[at], sole)
                ends[at] = sole.first
            if begins[at] < sole.first:
                self._admin.delete_records({at: sole.first})
        return ends

    def reached(self, partitions: Sequence[TopicPartition], tasks: Sequence[CopyTask]) -> None:
        """The progress is the end of the target, which any task may have written."""
        ends = self._ends(partitions)
        for each in (task.range for task in tasks):
            if ends[each.at] <= each.start:
                raise PipelineError(
                    f"{each.at} accepts no record at offset {each.start} in the target: another"
                    " program"
                    " may have written to it. If so, delete the topic there; if not, run this again"
                )
        self._translation.progress.update(ends)

    def _ends(self, partitions: Sequence[TopicPartition]) -> Offsets:
        return self._asked(partitions, LATEST)

    def _asked(self, partitions: Sequence[TopicPartition], time_: int) -> Offsets:
        found = self._admin.offsets(dict.fromkeys(partitions, time_))
        return {at: answer.offset for at, answer in found.items()}

    def _claim(self, new: list[TopicPartition], firsts: Offsets, ends: Offsets) -> None:
        if not new:
            return
        for at in new:
            if at in self._translation.progress:
                raise PipelineError(
                    f"{at} was mirrored with translated offsets: continue with those, or delete the"
                    " topic in the target and mirror it under another name"
                )
            if ends[at]:
                raise PipelineError(
                    f"{at} is not empty in the target: identical offsets need an empty topic"
                )
            if firsts[at] > PADDING_MAX:
                raise PipelineError(
                    f"{at} begins at offset {firsts[at]}: at most {PADDING_MAX} offsets can be"
                    " filled; mirror it with sink.offsets: translated"
                )
        producer = BatchSender(self._target)
        producer.identify()
        now_ms = int(time.time() * 1000)
        soles = {
            at: IdenticalProducer(producer.producer_id, producer.epoch, firsts[at]) for at in new
        }
        self._note([self._translation.claim(at, sole, now_ms) for at, sole in soles.items()])

    def _pad(self, at: TopicPartition, start: int, sole: IdenticalProducer) -> None:
        sender = BatchSender(self._target)
        sender.go_on_as(sole.producer_id, sole.epoch, {at: start})
        whole = _empty(_PADDING_RECORDS)
        while start < sole.first:
            count = min(sole.first - start, _PADDING_RECORDS)
            batch = bytearray(whole) if count == _PADDING_RECORDS else _empty(count)
            sender.send([sender.adopt(at, batch, start, count)])
            start += count
        sender.flush()


def _empty(count: int) -> bytearray:
    return encode_batch((Record(n, 0, None, None) for n in range(count)), codec=Codec.ZSTD)

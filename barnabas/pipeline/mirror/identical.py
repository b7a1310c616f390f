"""Identical offsets: record n of the source is record n of the target.

In: where the partitions of a source begin and end. Out: from where on each is copied.
Always: one producer, noted in the target before its first record, writes a partition, and the
sequence of a record is its offset: the target's broker refuses a record that is there already or
comes too early, whoever sends it. So a mirror that was killed goes on at the end of the target,
and nothing is there twice, though tasks of the one before are still writing.
What a source no longer has at its beginning is filled with empty records, which are deleted before
anyone can read them. Gaps between records cannot be filled so: copying.py refuses them.
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

PADDING_MAX = 100_000_000  # offsets of one partition
_PADDING_RECORDS = 50_000  # of one batch, which is a few hundred bytes

Note = Callable[[Sequence[Record]], None]


class Identical:
    """Of one mirror. `note` writes records to the topic of translations."""

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
                f"topic {topic!r} is compacted: offsets that are gone between its records cannot"
                " be kept; mirror it with sink.offsets: translated"
            )

    def starts(self, firsts: Offsets, lasts: Offsets) -> Offsets:
        """Where the target ends, of every partition, which is made ready for it."""
        partitions = list(firsts)
        ends = self._ends(partitions)
        begins = self._asked(partitions, EARLIEST)
        self._claim([at for at in partitions if at not in self._translation.soles], firsts, ends)
        for at in partitions:
            sole = self._translation.soles[at]
            if ends[at] > max(lasts[at], sole.first):
                raise PipelineError(
                    f"{at} ends at offset {lasts[at]} in the source and at {ends[at]} in the"
                    " target: was one made anew, or written to? Delete it in the target"
                )
            if ends[at] < sole.first:
                self._pad(at, ends[at], sole)
                ends[at] = sole.first
            if begins[at] < sole.first:
                self._admin.delete_records({at: sole.first})
        return ends

    def reached(self, partitions: Sequence[TopicPartition], tasks: Sequence[CopyTask]) -> None:
        """The end of the target is the progress, whichever task wrote it."""
        ends = self._ends(partitions)
        for each in (task.range for task in tasks):
            if ends[each.at] <= each.start:
                raise PipelineError(
                    f"{each.at} takes no record at offset {each.start} in the target: someone else"
                    " has written to it. Delete the topic there; if nobody has, run this again"
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
                    f"{at} was mirrored with translated offsets: go on with those, or delete the"
                    " topic in the target and mirror it under another name"
                )
            if ends[at]:
                raise PipelineError(
                    f"{at} is not empty in the target: identical offsets need a topic of their own"
                )
            if firsts[at] > PADDING_MAX:
                raise PipelineError(
                    f"{at} begins at offset {firsts[at]}: no more than {PADDING_MAX} offsets are"
                    " filled up; mirror it with sink.offsets: translated"
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

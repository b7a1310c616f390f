"""Opens one log: trusts a clean stop, and after a crash keeps whole batches only.

In: a partition's directory, whether the last stop was clean, and the checkpoints.
Out: a Log; every decision is a RecoveryFinding on it.
Always: the records kept are a prefix of the records written, without a gap or a torn batch.
After a crash the segment that holds the recovery point and all segments after it are read and
checked; everything before the recovery point was synced, indexes included.
If the last process did not complete a sync, everything that is not durable is written again.
Not here: one segment (segment_recovery.py), producers (log/producers/replay.py), interrupted swaps
of compacted segments (swap_recovery.py).
"""

from barnabas.log import sync_mark
from barnabas.log.compaction.job import CLEANED_SUFFIX, DELETED_SUFFIX, SWAP_SUFFIX
from barnabas.log.config import INT64_MAX, LogConfig
from barnabas.log.directory.checkpoints import (
    PARTITION_METADATA,
    UNKNOWN,
    CheckpointedOffsets,
    CorruptCheckpoint,
    decode_epochs,
    decode_topic_id,
)
from barnabas.log.epochs import FILE_NAME as EPOCHS_FILE
from barnabas.log.epochs import LeaderEpochs
from barnabas.log.log import Log, LogParts
from barnabas.log.names import MOVED_AWAY, PartitionFiles, sort_names
from barnabas.log.producers import replay
from barnabas.log.producers.snapshots import ProducerSnapshots
from barnabas.log.producers.state import ProducerStates
from barnabas.log.recovery.findings import RecoveryFinding
from barnabas.log.recovery.segment_recovery import check_segment
from barnabas.log.recovery.swap_recovery import finish_swaps
from barnabas.log.segments.open_segments import OpenSegments
from barnabas.log.segments.scan import headers
from barnabas.log.segments.segment import (
    ABORTED_INDEX_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    Segment,
)
from barnabas.model.errors import Corrupt
from barnabas.model.ids import NO_TOPIC_ID, TopicPartition
from barnabas.model.ports import Disk

_LEFTOVERS = (DELETED_SUFFIX, CLEANED_SUFFIX, ".tmp")


def open_log(
    disk: Disk,
    path: str,
    partition: TopicPartition,
    config: LogConfig,
    open_segments: OpenSegments,
    *,
    clean: bool,
    checkpoints: CheckpointedOffsets,
) -> Log:
    """The log in `path` as the last process left it."""
    opening = _Opening(disk, path, config, open_segments, clean, checkpoints)
    parts = opening.run()
    log = Log(disk, path, partition, opening.topic_id, config, open_segments, parts)
    log.moved_away = opening.moved_away
    if opening.is_marked:
        if not clean:
            log.write_again()
        opening.mark.remove()
    return log


class _Opening:
    """One pass over a partition's directory."""

    def __init__(
        self,
        disk: Disk,
        path: str,
        config: LogConfig,
        open_segments: OpenSegments,
        clean: bool,
        checkpoints: CheckpointedOffsets,
    ) -> None:
        self._disk = disk
        self._path = path
        self._config = config
        self._open = open_segments
        self._clean = clean
        self._checkpoints = checkpoints
        self._findings: list[RecoveryFinding] = []
        self._segments: list[Segment] = []
        self._directory_changed = False
        self._found_aborted = False
        # Only what lies below a recovery point that is on disk is ever compacted: up to there,
        # offsets may be missing between batches, and beyond it that is damage.
        self._holes_to = max(checkpoints.recovery_point, checkpoints.cleaned_to)
        self._compacted_to = checkpoints.cleaned_to
        if checkpoints.recovery_point == UNKNOWN:
            self._holes_to = INT64_MAX if config.compacted else checkpoints.cleaned_to
            self._compacted_to = self._holes_to
            self._checkpoints = checkpoints._replace(recovery_point=0)
        # A new segment starts where the one before ends, also in a copy: a power loss that took
        # the end of a file and left the next one shows there.
        self._gaps_to = checkpoints.cleaned_to if checkpoints.new else self._holes_to
        if config.copied:  # its holes came with the records, wherever the leader had some
            self._holes_to = INT64_MAX
        self.mark = sync_mark.SyncMark(disk, path)
        self.is_marked = self.moved_away = False
        self.topic_id = NO_TOPIC_ID

    def run(self) -> LogParts:
        names = sort_names(self._disk.list(self._path))
        if any(name.endswith(SWAP_SUFFIX) for name in names.others):
            finish_swaps(self._disk, self._path, names.logs, names.others, self._findings)
            names = sort_names(self._disk.list(self._path))
        self._remove_leftovers(names)
        self.is_marked = sync_mark.FILE_NAME in names.others and self.mark.is_set()
        self.moved_away = MOVED_AWAY in names.others
        epochs = self._read_epochs(names)
        newest_epoch = epochs.latest
        self._read_topic_id(names)
        snapshots = ProducerSnapshots(self._disk, self._path, names.snapshots)
        self._open_segments(names)
        self._drop_below_start()
        if not self._segments:
            self._start_empty(self._checkpoints.start_offset)
        producers = None
        if not self._clean:
            producers = self._recover(snapshots, epochs)
        elif not self._drop_empty_end() or not self._read_end(self._segments[-1]):
            # The marker says clean, the tail says otherwise: look at all of the last segment.
            self._checkpoints = self._checkpoints._replace(
                recovery_point=self._segments[-1].base_offset
            )
            producers = self._recover(snapshots, epochs)
        for segment, following in zip(self._segments, self._segments[1:], strict=False):
            segment.next_offset = following.base_offset
        end = self._segments[-1].next_offset
        start = max(self._checkpoints.start_offset, self._segments[0].base_offset)
        if start > end:
            self._remove_all(start, end)
            epochs.clear()
            producers, end = ProducerStates(), start
        stale = snapshots.remove_above(end)
        if producers is None:
            producers = replay.load_producers(
                snapshots, self._segments, end, self._findings, self._compacted_to
            )
        replay.remove_stray(snapshots, self._segments)
        cleaned_to = self._checkpoints.cleaned_to
        if not start <= cleaned_to <= end:
            cleaned_to = 0 if cleaned_to > end else start  # as Kafka does
        epochs.truncate_end(end + 1)  # an epoch may have begun without a record so far
        epochs.truncate_start(start)
        if epochs.latest < newest_epoch:
            # Its records are lost, but a consumer may have read them: it must not be used again.
            epochs.begin(newest_epoch, end)
        if self._segments[-1].base_offset < cleaned_to and self._segments[-1].size:
            # What was compacted is not appended to: its producers are known from here on only.
            self._roll(end)
            snapshots.write(producers, end)
        if stale or self._directory_changed:
            self._disk.sync_directory(self._path)
        recovery_point = end if self._clean else min(self._checkpoints.recovery_point, end)
        self._mark_durable(snapshots, recovery_point)
        return LogParts(
            segments=self._segments,
            start_offset=start,
            high_watermark=min(max(self._checkpoints.high_watermark, start), end),
            recovery_point=recovery_point,
            epochs=epochs,
            producers=producers,
            snapshots=snapshots,
            findings=self._findings,
            # A process that died may have synced nothing, not even the directory's name; a clean
            # stop leaves a log without records as it is.
            new=not self._clean or not end,
            cleaned_to=cleaned_to if cleaned_to > start else 0,
            has_aborted=bool(names.aborted_indexes) or self._found_aborted,
        )

    # --- reading the directory -----------------------------------------------------------------

    def _find(self, path: str, what: str, action: str) -> None:
        self._findings.append(RecoveryFinding(path, what, action))

    def _remove_leftovers(self, names: PartitionFiles) -> None:
        for name in names.others:
            if name.endswith(_LEFTOVERS):
                self._disk.remove(f"{self._path}/{name}")
        logs = set(names.logs)
        for suffix, offsets in (
            (INDEX_SUFFIX, names.offset_indexes),
            (TIME_INDEX_SUFFIX, names.time_indexes),
            (ABORTED_INDEX_SUFFIX, names.aborted_indexes),
        ):
            for offset in offsets:
                if offset not in logs:
                    path = f"{self._path}/{offset:020d}{suffix}"
                    self._disk.remove(path)
                    self._find(path, "an index without its log file", "removed")

    def _read_epochs(self, names: PartitionFiles) -> LeaderEpochs:
        if EPOCHS_FILE not in names.others:
            return LeaderEpochs([])
        path = f"{self._path}/{EPOCHS_FILE}"
        try:
            return LeaderEpochs(decode_epochs(self._disk.read_file(path)))
        except CorruptCheckpoint as error:
            self._find(path, str(error), "ignored, epochs come from the batches checked")
            return LeaderEpochs([])

    def _read_topic_id(self, names: PartitionFiles) -> None:
        if PARTITION_METADATA not in names.others:
            return
        path = f"{self._path}/{PARTITION_METADATA}"
        try:
            self.topic_id = decode_topic_id(self._disk.read_file(path))
        except CorruptCheckpoint as error:
            self._find(path, str(error), "ignored, the topic id is unknown here")

    def _open_segments(self, names: PartitionFiles) -> None:
        disk, path = self._disk, self._path
        last = len(names.logs) - 1
        for number, base in enumerate(names.logs):
            size = disk.size(f"{path}/{base:020d}{LOG_SUFFIX}")
            if not size and number < last and names.logs[number + 1] > self._gaps_to:
                # Rolled and then cut by a crash, or never written: it holds nothing.
                self._find(f"{path}/{base:020d}{LOG_SUFFIX}", "an empty segment", "removed")
                self._segment(base, 0).remove_files()
                self._directory_changed = True
                continue
            self._segments.append(self._segment(base, size))

    def _segment(self, base: int, size: int) -> Segment:
        interval = self._config.index_interval_bytes
        return Segment(self._disk, self._path, base, size, self._open, self._findings, interval)

    def _drop_below_start(self) -> None:
        """Segments that the start offset has left behind, and a log that lost its beginning."""
        start, segments = self._checkpoints.start_offset, self._segments
        dead = start if self._clean else min(start, self._checkpoints.recovery_point)
        while len(segments) > 1 and segments[1].base_offset <= dead:
            segments.pop(0).remove_files()
            self._directory_changed = True
        if self._clean or not segments or segments[0].base_offset <= start:
            return
        first = segments[0].base_offset
        if self._checkpoints.recovery_point > start:
            what = f"the log should start at {start}, but its first segment starts at {first}"
            self._find(self._path, what, "kept as it is; records before it are lost")
            return
        # Nothing here was synced yet, and a power loss took the first files only.
        for segment in segments:
            what = f"the log should start at {start}, but the records before this segment are lost"
            self._find(segment.path, what, "segment removed")
            segment.remove_files()
        segments.clear()
        self._directory_changed = True

    def _start_empty(self, base: int) -> None:
        interval = self._config.index_interval_bytes
        segment = Segment.create(self._disk, self._path, base, self._open, self._findings, interval)
        self._segments[:] = [segment]
        self._directory_changed = True

    def _remove_all(self, start: int, end: int) -> None:
        self._find(
            self._path,
            f"the log starts at {start} by its checkpoint but ends at {end}",
            f"all segments removed, an empty one starts at {start}",
        )
        for segment in self._segments:
            segment.remove_files()
        self._start_empty(start)

    def _mark_durable(self, snapshots: ProducerSnapshots, recovery_point: int) -> None:
        """What is synced for certain.

        A segment may have been sealed, and its snapshot written, after a flush that ended just
        there: at the recovery point itself nothing is sure.
        """
        for segment in self._segments[:-1]:
            segment.durable = self._clean or segment.next_offset < recovery_point
        if not self._clean:
            unsure = (each for each in snapshots.offsets if each >= recovery_point)
            snapshots.unsynced = sorted({*snapshots.unsynced, *unsure})

    def _roll(self, base: int) -> None:
        segment = self._segment(base, 0)
        segment.create_files()
        self._segments.append(segment)
        self._directory_changed = True

    def _drop_empty_end(self) -> bool:
        """An empty last segment is the end of the log only if the one before goes no further.

        False if the tail of the one before is not sound.
        """
        if len(self._segments) < 2 or self._segments[-1].size:
            return True
        before, last = self._segments[-2:]
        sound = self._read_end(before)
        if not sound or before.next_offset > last.base_offset:
            what = f"an empty segment, but the one before ends at {before.next_offset}"
            if not sound:
                what = "an empty segment, and the end of the one before is damaged"
            self._find(last.path, what, "removed")
            last.remove_files()
            self._segments.pop()
            self._directory_changed = True
        return sound

    def _read_end(self, segment: Segment) -> bool:
        """The end of the log from the last index entry on; False if the tail is not sound."""
        if not segment.size:
            return True
        try:
            start = segment.floor_position(segment.size)
            for _, header in headers(segment.file(), start, segment.size):
                segment.next_offset = header.last_offset + 1
        except Corrupt as error:
            self._find(segment.path, f"after a clean stop: {error.detail}", "segment checked")
            return False
        finally:
            segment.close()
        return True

    # --- after a crash -------------------------------------------------------------------------

    def _recover(self, snapshots: ProducerSnapshots, epochs: LeaderEpochs) -> ProducerStates:
        """Check every segment from the recovery point on; cut at the first bad batch."""
        point = self._checkpoints.recovery_point
        first = 0
        for number, segment in enumerate(self._segments):
            if segment.base_offset <= point:
                first = number
        unsure = self._segments[first:]
        base = unsure[0].base_offset
        states, offset = snapshots.load_newest(base, self._findings)
        replay.replay(states, offset, base, self._segments[:first], self._findings)
        # Later ones may be torn, or contain lost records; they are written again below.
        self._directory_changed |= snapshots.remove_above(max(base, point))
        expected = base
        for number, segment in enumerate(unsure):
            problem = ""
            if segment.base_offset < expected or (
                segment.base_offset > max(expected, self._gaps_to) and number
            ):
                problem = f"it should start at {expected}"
            else:
                expected = segment.base_offset
                if number and expected <= point:
                    states = replay.load_exactly(snapshots, expected, self._findings) or states
                if (number or first) and expected not in snapshots.offsets:
                    snapshots.write(states, expected)
                sound = self._check_segment(segment, states, epochs)
                expected = segment.next_offset
                if sound:
                    continue
                number += 1
            for lost in unsure[number:]:
                self._find(
                    lost.path, problem or f"it follows a cut at {expected}", "segment removed"
                )
                lost.remove_files()
                self._segments.remove(lost)
                self._directory_changed = True
            break
        if expected <= point:
            states = replay.load_exactly(snapshots, expected, self._findings) or states
        if expected < point:
            self._find(
                self._path,
                f"the log ends at {expected} although it was synced to {point}",
                "records are lost: the disk did not keep what it had reported as synced",
            )
        replay.drop_compacted(states, self._segments, self._compacted_to)
        return states

    def _check_segment(
        self, segment: Segment, states: ProducerStates, epochs: LeaderEpochs
    ) -> bool:
        """Walk one segment; True if all of it was sound."""
        interval = self._config.index_interval_bytes
        point = self._checkpoints.recovery_point
        cut = check_segment(segment, point, self._holes_to, interval, states, epochs, self.mark)
        self._found_aborted = self._found_aborted or segment.has_aborted()
        if cut is not None:
            self._findings.append(cut)
        return cut is None

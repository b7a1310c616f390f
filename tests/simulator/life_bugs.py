"""Bugs of transactional logs, most of which other brokers had; lives must find each of them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from barnabas.log.compaction import cleanable
from barnabas.log.compaction.compaction import Compaction
from barnabas.log.compaction.segment_swap import SegmentSwap
from barnabas.log.compaction.transaction_scan import TransactionScan
from barnabas.log.log import Log
from barnabas.log.producers.replay import replay_stored
from barnabas.log.recovery import segment_recovery
from barnabas.log.segments.segment import Segment
from barnabas.log.transactions import append
from barnabas.log.transactions.aborted_index import AbortedIndex, AbortedTransaction
from barnabas.log.transactions.open_transactions import OpenTransactions
from barnabas.wire.batch import CONTROL, TRANSACTIONAL, BatchHeader

Bug = Callable[[], Any]
BUGS: dict[str, Bug] = {}


def bug(plant: Callable[[], Any]) -> Callable[[], Any]:
    BUGS[plant.__name__] = plant
    return plant


@bug
def markers_are_compacted_by_their_key() -> Any:
    """KAFKA-14055: a record with the key of a marker takes the marker's place."""
    real = Compaction._keep

    def keep(self: Compaction, writer: Any, header: BatchHeader, *rest: Any) -> list[int]:
        if header.attributes & CONTROL and header.base_offset < self.end_offset:
            header = header._replace(attributes=header.attributes & ~(CONTROL | TRANSACTIONAL))
        return real(self, writer, header, *rest)

    return patch.object(Compaction, "_keep", keep)


@bug
def transactions_are_forgotten_between_groups_of_segments() -> Any:
    """KAFKA-8351: a marker in a later group goes before the records of its transaction."""
    real = Compaction.clean

    def clean(self: Compaction, group: Any) -> Any:
        self._transactions = None
        return real(self, group)

    return patch.object(Compaction, "clean", clean)


@bug
def what_a_pass_did_not_reach_is_not_in_the_index() -> Any:
    """KAFKA-13727."""
    real = Compaction._keep_marker

    def keep(self: Compaction, writer: Any, header: BatchHeader, *rest: Any) -> list[int]:
        aborted = list(writer.aborted)
        counts = real(self, writer, header, *rest)
        if header.base_offset >= self.end_offset:
            writer.aborted[:] = aborted
        return counts

    return patch.object(Compaction, "_keep_marker", keep)


@bug
def aborted_records_replace_committed_ones() -> Any:
    real = Compaction._map

    def map_(self: Compaction, header: BatchHeader, *rest: Any) -> bool:
        if not header.attributes & CONTROL:
            header = header._replace(attributes=header.attributes & ~TRANSACTIONAL)
        return real(self, header, *rest)

    return patch.object(Compaction, "_map", map_), patch.object(
        TransactionScan, "_disagree", lambda self, what: AssertionError(what)
    )


@bug
def records_of_open_transactions_are_compacted() -> Any:
    """Up to the high watermark: an older value of the key goes, and the newer one is aborted."""
    look = cleanable.look

    def look_too_far(log: Log, wall_ms: int) -> cleanable.Cleanable:
        with patch.object(Log, "last_stable_offset", property(lambda self: self.high_watermark)):
            return look(log, wall_ms)

    return (
        patch("tests.log.compacting.look", look_too_far),
        patch("tests.simulator.life.look", look_too_far),
    )


@bug
def aborted_transactions_stay_in_the_index_after_their_marker() -> Any:
    """Readers then skip what the producer commits later."""
    real = TransactionScan.add_marker

    def add(self: TransactionScan, *args: Any) -> tuple[bool, AbortedTransaction | None]:
        has_data, aborted = real(self, *args)
        self.kept = aborted  # type: ignore[attr-defined]
        return has_data, aborted

    real_keep = Compaction._keep_marker

    def keep(self: Compaction, writer: Any, *rest: Any) -> list[int]:
        before = len(writer.aborted)
        counts = real_keep(self, writer, *rest)
        aborted = getattr(self._transactions, "kept", None)
        if aborted is not None and len(writer.aborted) == before:
            writer.aborted.append(aborted)
        return counts

    return patch.object(TransactionScan, "add_marker", add), patch.object(
        Compaction, "_keep_marker", keep
    )


@bug
def batches_without_records_need_no_marker() -> Any:
    """Recovery takes their transactions for open."""
    real = TransactionScan.add_batch

    def add(self: TransactionScan, header: BatchHeader) -> bool:
        if header.record_count:
            return real(self, header)
        return self._next_aborted(header) is not None

    return patch.object(TransactionScan, "add_batch", add)


@bug
def markers_go_without_a_delete_horizon() -> Any:
    real = Compaction._keep_marker

    def keep(self: Compaction, writer: Any, header: BatchHeader, *rest: Any) -> list[int]:
        return real(self, writer, header._replace(base_timestamp=0, attributes=0x70), *rest)

    return patch.object(Compaction, "_keep_marker", keep)


@bug
def the_new_index_of_aborted_transactions_is_not_put_in_place() -> Any:
    return patch.object(SegmentSwap, "_replace_aborted", lambda self: None)


@bug
def truncation_leaves_aborted_transactions_in_the_index() -> Any:
    return patch.object(AbortedIndex, "truncate", lambda self, offset: False)


@bug
def recovery_does_not_find_aborted_transactions() -> Any:
    return patch.object(Segment, "adopt_aborted", lambda self, ended, sync: None)


@bug
def recovery_takes_every_marker_for_a_commit() -> Any:
    real = replay_stored

    def replay(*args: Any) -> Any:
        ended = real(*args)
        return None if ended is None else (ended[0], True)

    return patch.object(segment_recovery, "replay_stored", replay)


@bug
def the_last_stable_offset_is_one_too_high() -> Any:
    """redpanda#3036."""
    real = OpenTransactions.last_stable_offset

    def stable(self: OpenTransactions, high_watermark: int, start_offset: int) -> int:
        return min(real(self, high_watermark, start_offset) + 1, high_watermark)

    return patch.object(OpenTransactions, "last_stable_offset", stable)


@bug
def a_marker_counts_before_it_is_committed() -> Any:
    """redpanda#10671: the last stable offset goes ahead of what is certain."""

    def forget(self: OpenTransactions, high_watermark: int) -> None:
        self._ended.clear()

    return patch.object(OpenTransactions, "forget_decided", forget)


@bug
def aborted_transactions_are_looked_for_in_one_segment_only() -> Any:
    """automq#754."""

    def aborted_in(log: Log, start: int, end: int) -> list[AbortedTransaction]:
        return log.segments[log.reader.segment_at(start)].aborted.find(start, end)[0]

    return patch.object(append, "aborted_in", aborted_in)


@bug
def the_start_of_the_log_does_not_hold_the_last_stable_offset() -> Any:
    """After DeleteRecords past an open transaction, readers are sent below the start."""
    real = OpenTransactions.last_stable_offset

    def stable(self: OpenTransactions, high_watermark: int, start_offset: int) -> int:
        return real(self, high_watermark, 0)

    return patch.object(OpenTransactions, "last_stable_offset", stable)


@contextmanager
def planted(name: str) -> Iterator[None]:
    patches = BUGS[name]()
    with ExitStack() as stack:
        for each in patches if isinstance(patches, tuple) else (patches,):
            stack.enter_context(each)
        yield

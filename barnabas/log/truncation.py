"""Truncates a log at its end, or lets it start or end at another offset.

In: offsets. Out: the log without the records above, and without what was derived from them.
Always: a producer snapshot is removed with the records that it was made from.
Not here: raising the start of a log (log/segments/deletion.py).
"""

from typing import TYPE_CHECKING

from barnabas.log.producers.replay import drop_compacted, replay_stored
from barnabas.log.producers.state import ProducerStates
from barnabas.log.roll import new_segment
from barnabas.log.segments.scan import headers
from barnabas.log.segments.segment_truncation import truncate_segment

if TYPE_CHECKING:
    from barnabas.log.log import Log


def truncate_to(log: "Log", offset: int, *, sync: bool) -> None:
    if offset >= log.end_offset:
        return
    log.reader.forget()
    # Snapshots first: one that outlives its records would bring back their producers.
    if log.snapshots.remove_above(offset) and sync:
        log.disk.sync_directory(log.path)
    empties = offset < log.start_offset  # nothing of the log is left then
    fresh = new_segment(log, offset) if empties else None  # first: there may be no room for it
    while log.segments and (empties or len(log.segments) > 1):
        if not empties and log.segments[-1].base_offset < offset:
            break
        log.segments.pop().remove_files()
    if fresh is not None:
        log.start_offset = offset
        log.segments.append(fresh)
    log.active = active = log.segments[-1]
    active.durable = False  # perhaps sealed and synced before; it is written to again
    truncate_segment(active, offset)
    if log.has_aborted:
        _truncate_aborted(log, offset)
    if sync:  # a power loss must not restore a record that was removed
        with log.durability.mark.during_sync(confirms=not log.durability.rewrite):
            active.file().sync()
        log.disk.sync_directory(log.path)
    else:
        log.durability.directory_changed()
    log.end_offset = active.next_offset
    log.start_offset = min(log.start_offset, log.end_offset)
    was_cleaned_to, log.cleaned_to = log.cleaned_to, min(log.cleaned_to, log.end_offset)
    log.size = sum(segment.size for segment in log.segments)
    log.epochs.truncate_end(log.end_offset)
    log.high_watermark = min(log.high_watermark, log.end_offset)
    log.durability.cut(log.end_offset, active)
    log.producers = _rebuilt_producers(log)
    drop_compacted(log.producers, log.segments, was_cleaned_to)


def _truncate_aborted(log: "Log", offset: int) -> None:
    """The index of a sealed segment has entries of later ones if their swap was interrupted."""
    for segment in log.segments:
        if segment.has_aborted() and segment.aborted.truncate(offset):
            segment.aborted.sync()


def _rebuilt_producers(log: "Log") -> ProducerStates:
    """The newest snapshot and the headers behind it."""
    states, offset = log.snapshots.load_newest(log.end_offset, log.findings)
    offset = max(offset, log.segments[0].base_offset)
    for segment in log.segments[log.reader.segment_at(offset) :]:
        found = segment.locate(offset)
        if found is not None:
            file = segment.file()
            for position, header in headers(file, found[0], segment.size, 1 << 16):
                replay_stored(states, header, file, position)
    return states


def start_at(log: "Log", offset: int) -> None:
    assert not log.size, "only an empty log can start elsewhere"
    for segment in log.segments:
        segment.remove_files()
    log.segments[:] = [new_segment(log, offset)]
    log.active = log.segments[-1]
    log.reader.forget()
    log.start_offset = log.end_offset = log.high_watermark = offset
    log.durability.directory_changed()


def restart_at(log: "Log", offset: int) -> None:
    fresh = new_segment(log, offset)  # first: there may be no room for it
    for segment in log.segments:
        segment.remove_files()
    log.snapshots.remove_above(-1)
    log.segments[:] = [fresh]
    log.active = fresh
    log.reader.forget()
    log.epochs.clear()
    log.producers = ProducerStates()
    log.start_offset = log.end_offset = log.high_watermark = offset
    log.cleaned_to = log.size = 0
    log.durability.cut(offset, log.active)
    log.durability.directory_changed()


def skip_to(log: "Log", offset: int) -> None:
    if offset <= log.end_offset:
        return
    fresh = new_segment(log, offset)  # first: there may be no room for it
    if log.active.size:
        log.active.seal()
    else:
        log.segments.pop().remove_files()
    log.segments.append(fresh)
    log.active = fresh
    log.reader.forget()
    log.end_offset = offset
    log.durability.directory_changed()

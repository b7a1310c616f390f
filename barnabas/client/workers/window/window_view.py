"""What people see of a sliding window: where it begins and ends, and what holds it up."""

from typing import NamedTuple

from barnabas.client.workers.window.window_partition import RecordState, WindowPartition
from barnabas.model.ids import TopicPartition

HELD_UP_MAX = 10


class HeldRecord(NamedTuple):
    """A record that is not finished. `why`: what it waits for; `failures`: of its calls so far."""

    offset: int
    state: str
    why: str
    failures: int


class WindowView(NamedTuple):
    """The window of one partition, at one moment.

    `start`: the first offset that is not finished, which is what can be committed; `end`: the
    offset after the last record that was fetched. `records` of them are in the window, `finished`
    behind a record that is not. `held`: the first unfinished records.
    """

    at: TopicPartition
    start: int
    end: int
    committed: int
    records: int
    running: int
    finished: int
    full: bool
    held: tuple[HeldRecord, ...]

    def __str__(self) -> str:
        held = "; ".join(f"{each.offset} {each.why}" for each in self.held[:3])
        text = (
            f"{self.at}: {self.start} to {self.end}, committed {self.committed},"
            f" {self.running} running, {self.finished} finished behind the first"
        )
        if self.full:
            text += ", full: no more is fetched"
        return f"{text}: {held}" if held else text


def view_of(share: WindowPartition) -> WindowView:
    entries = list(share.entries)
    unfinished = [each for each in entries if each.state is not RecordState.FINISHED]
    return WindowView(
        share.at,
        share.finished_prefix(),
        share.position,
        share.saved.offset,
        len(entries),
        share.running,
        len(entries) - len(unfinished),
        share.paused,
        tuple(
            HeldRecord(each.record.offset, each.state.name.lower(), each.state.value, each.failures)
            for each in unfinished[:HELD_UP_MAX]
        ),
    )

"""What the stories of all groups of a broker add up to: counts, durations, and what to log.

In: every chapter as it closes. Out: numbers for the metrics, chapters to be logged.
Always: all stories together keep no more than `bytes_max`; the oldest chapters go first,
whosever they are.
Not here: the stories themselves (story.py).
"""

from bisect import bisect_left
from collections import deque
from typing import NamedTuple

from barnabas.coordinators.groups.story import Cause, Chapter, Kind, Story, share_bytes

BYTES_MAX = 16 << 20
CHAPTER_BYTES = 600
CAUSE_BYTES = 300
UNTOLD_MAX = 1_000
SECONDS = (0.01, 0.05, 0.1, 0.5, 1.0, 3.0, 5.0, 10.0, 30.0, 60.0, 300.0)


class Told(NamedTuple):
    """A chapter that has closed, to be logged."""

    group: str
    chapter: Chapter


class Durations:
    """How long something took, counted in the way of Prometheus' histograms."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(SECONDS) + 1)
        self.sum_s = 0.0

    def add(self, ms: int) -> None:
        self.counts[bisect_left(SECONDS, ms / 1_000)] += 1
        self.sum_s += ms / 1_000


class Chronicle:
    """One for all groups of a broker."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self.bytes = 0
        self.rebalances = dict.fromkeys(Kind, 0)  # by what set them off
        self.overtaken = 0  # that never came to an assignment
        self.join = Durations()
        self.sync = Durations()
        self.untold: deque[Told] = deque(maxlen=UNTOLD_MAX)
        self._bytes_max = bytes_max
        self._kept: deque[tuple[Story, Chapter, int]] = deque()

    def closed(self, story: Story, chapter: Chapter) -> None:
        if chapter.causes:
            self.rebalances[chapter.causes[0].kind] += 1
        if chapter.sync_ms >= 0:
            self.join.add(chapter.join_ms)
            self.sync.add(chapter.sync_ms)
        else:
            self.overtaken += 1
        self.untold.append(Told(story.group, chapter))
        size = CHAPTER_BYTES + share_bytes(chapter.after or {}) + sum(map(_size, chapter.causes))
        self._kept.append((story, chapter, size))
        self.bytes += size
        while self.bytes > self._bytes_max:
            oldest, forgotten, size = self._kept.popleft()
            oldest.forget(forgotten)
            self.bytes -= size

    def take(self) -> list[Told]:
        """What has not been told yet."""
        told = list(self.untold)
        self.untold.clear()
        return told


def _size(cause: Cause) -> int:
    """About the memory of one; names may be long."""
    texts = (cause.member, cause.client, cause.reason, *cause.topics_added, *cause.topics_dropped)
    return CAUSE_BYTES + sum(map(len, texts))

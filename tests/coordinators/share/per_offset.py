"""A share partition offset by offset: slow, and too simple to be wrong."""

from dataclasses import dataclass, field

from barnabas.coordinators.share.acknowledge_ranges import AcknowledgeType

AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = "available", "acquired", "acknowledged", "archived"


@dataclass
class Offset:
    state: str = AVAILABLE
    attempts: int = 0
    owner: str = ""
    deadline: int = 0
    pending: str = ""  # the state that it gets when the write is committed


@dataclass
class PerOffset:
    """Without poison protection: give it a delivery limit of 2."""

    limit: int
    locks: int
    lock_ms: int
    offsets: dict[int, Offset] = field(default_factory=dict)
    start: int = 0
    end: int = -1

    def acquire(self, member: str, last: int, records: int, now: int) -> list[tuple[int, int]]:
        """Single records, at most `records` of them, up to `last`."""
        got: list[tuple[int, int]] = []
        for offset in range(self.start, min(last, self.start + self.locks - 1) + 1):
            if len(got) == records:
                break
            if offset > self.end:
                self.offsets[offset] = Offset()
                self.end = offset
            one = self.offsets[offset]
            if one.state == AVAILABLE:
                one.state, one.owner, one.deadline = ACQUIRED, member, now + self.lock_ms
                one.attempts += 1
                got.append((offset, one.attempts))
        return got

    def acknowledge(
        self, member: str, ranges: list[tuple[int, int, AcknowledgeType]], now: int
    ) -> str | list[int]:
        """An error, or the offsets that wait for the write."""
        seen: set[int] = set()
        for first, last, _ in ranges:
            for offset in range(first, last + 1):
                if offset in seen:
                    return "state"
                seen.add(offset)
        for first, last, _ in ranges:
            if last < self.start:
                continue
            if self.end < self.start:
                return "state"
            if last > self.end:
                return "range"
            for offset in range(max(first, self.start), last + 1):
                one = self.offsets[offset]
                if one.state != ACQUIRED or one.pending or one.owner != member:
                    return "state"
        waiting = []
        for first, last, type_ in ranges:
            for offset in range(max(first, self.start), last + 1):
                one = self.offsets[offset]
                if type_ is AcknowledgeType.RENEW:
                    one.deadline = now + self.lock_ms
                    continue
                waiting.append(offset)
                if type_ is AcknowledgeType.ACCEPT:
                    one.pending = ACKNOWLEDGED
                elif type_ is AcknowledgeType.RELEASE and one.attempts < self.limit:
                    one.pending = AVAILABLE
                else:
                    one.pending = ARCHIVED
        return waiting

    def release(self, member: str) -> list[int]:
        waiting = []
        for offset, one in self.offsets.items():
            if one.state == ACQUIRED and not one.pending and one.owner == member:
                one.pending = AVAILABLE if one.attempts < self.limit else ARCHIVED
                waiting.append(offset)
        return waiting

    def finish(self, waiting: list[int], written: bool) -> None:
        for offset in waiting:
            one = self.offsets.get(offset)
            if one is None:
                continue
            if written:
                one.state, one.owner = one.pending, ""
            one.pending = ""
        self._settle()

    def expire(self, now: int) -> list[int]:
        """The offsets that are archived, and whose write is awaited."""
        waiting = []
        for offset, one in self.offsets.items():
            if one.state == ACQUIRED and not one.pending and one.deadline <= now:
                one.owner = ""
                one.state = AVAILABLE
                if one.attempts >= self.limit:
                    one.state = one.pending = ARCHIVED
                    waiting.append(offset)
        return waiting

    def log_start(self, offset: int) -> None:
        for gone in [each for each in self.offsets if each < offset]:
            del self.offsets[gone]
        self.start = max(self.start, offset)
        self.end = max(self.end, self.start - 1)
        self._settle()

    def _settle(self) -> None:
        while self.start <= self.end:
            one = self.offsets[self.start]
            if one.pending or one.state not in (ACKNOWLEDGED, ARCHIVED):
                break
            del self.offsets[self.start]
            self.start += 1

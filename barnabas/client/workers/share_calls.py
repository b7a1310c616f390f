"""Decides which records of a share group a worker takes, renews and acknowledges.

In: calls that begin and end, time. Out: how many records to ask for, acknowledgements, renewals.
Always: no more records are held than calls may run; each record is acknowledged once; a lock is
renewed when two thirds of it have passed, as long as its call runs.
Not here: calling (share_runner.py), sending (client/share/).
"""

from barnabas.client.share.acknowledge_type import AcknowledgeType


class ShareCall:
    """A record whose call runs. `renew_at`: None if its lock is not renewed any more."""

    __slots__ = ("number", "renew_at", "timeout_at")

    def __init__(self, number: int, renew_at: int, timeout_at: int | None) -> None:
        self.number = number
        self.renew_at = renew_at
        self.timeout_at = timeout_at


class ShareCalls:
    """The calls of one worker, by a number for each."""

    def __init__(self, concurrency: int, timeout_ms: int | None) -> None:
        self._concurrency = concurrency
        self._timeout_ms = timeout_ms
        self._calls: dict[int, ShareCall] = {}
        self._number = 0

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def free(self) -> int:
        return self._concurrency - len(self._calls)

    def start(self, now: int, lock_ms: int) -> int:
        """A record was returned, and its call begins: its number."""
        self._number += 1
        timeout_at = None if self._timeout_ms is None else now + self._timeout_ms
        self._calls[self._number] = ShareCall(self._number, now + lock_ms * 2 // 3, timeout_at)
        return self._number

    def end(self, number: int, *, failed: bool, reject: bool) -> AcknowledgeType | None:
        """The acknowledgement of the record; None: it has one already."""
        if self._calls.pop(number, None) is None:
            return None
        if reject:
            return AcknowledgeType.REJECT
        return AcknowledgeType.RELEASE if failed else AcknowledgeType.ACCEPT

    def renewals(self, now: int, lock_ms: int) -> list[int]:
        """The records whose lock must be renewed now."""
        due = [call for call in self._calls.values() if now >= call.renew_at]
        for call in due:
            call.renew_at = now + lock_ms * 2 // 3
        return [call.number for call in due]

    def timed_out(self, now: int) -> list[int]:
        """Calls that take too long: they end as failed."""
        return [
            call.number
            for call in self._calls.values()
            if call.timeout_at is not None and now >= call.timeout_at
        ]

    def next_deadline(self) -> int | None:
        times = [call.renew_at for call in self._calls.values()]
        times += [call.timeout_at for call in self._calls.values() if call.timeout_at is not None]
        return min(times, default=None)

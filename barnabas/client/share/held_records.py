"""The records of one partition that a member of a share group holds, as runs of offsets.

In: acquired ranges, messages that were returned, acknowledgements, time. Out: the acknowledgements
to send, as runs.
Always: the runs are sorted and do not overlap; an acknowledgement is sent once, except a renewal,
after which the records are held on; acknowledgements whose lock may have ended are never in one
request with others, because a broker refuses all acknowledgements of a partition or none.
Not here: sessions and requests (sessions.py, share_fetching.py).
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from barnabas.client.share.acknowledge_type import AcknowledgeType

GAP = 0  # an offset without a record: the protocol's number
_RENEW = int(AcknowledgeType.RENEW)
FETCHED = -1  # it has arrived
RETURNED = -2  # the user has it
RENEWING = -3  # the request for it is in flight
_RUN_SIZE = 19  # bytes of a range in a request with one type; each further type is one byte


class AckRun(NamedTuple):
    """One acknowledgement for all offsets from `first` to `last`."""

    first: int
    last: int
    type: int


class HeldRun:
    """Neighbouring offsets with one state, one delivery count and one deadline.

    `state`: FETCHED, RETURNED, RENEWING, or the type of an acknowledgement that was not sent yet.
    """

    __slots__ = ("count", "deadline", "first", "last", "state")

    def __init__(self, first: int, last: int, state: int, count: int, deadline: int) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.count = count
        self.deadline = deadline


def _first(run: HeldRun) -> int:
    return run.first


class HeldRecords:
    """Of one partition, in one share session."""

    def __init__(self) -> None:
        self._runs: list[HeldRun] = []

    def __bool__(self) -> bool:
        return bool(self._runs)

    def __len__(self) -> int:
        """How many runs there are."""
        return len(self._runs)

    def runs(self) -> list[tuple[int, int, int]]:
        """First offset, last offset and state of each run."""
        return [(run.first, run.last, run.state) for run in self._runs]

    def acquired(self, first: int, last: int, count: int, deadline: int) -> None:
        """The broker gave these to this member. What it held there before has been lost."""
        at = self._cut(first)
        end = self._cut(last + 1)
        self._runs[at:end] = [HeldRun(first, last, FETCHED, count, deadline)]

    def gap(self, first: int, last: int) -> None:
        """No record has these offsets."""
        self._change(first, last, (FETCHED,), GAP)

    def returned(self, first: int, last: int) -> None:
        """The user has the records from `first` to `last` now."""
        self._change(first, last, (FETCHED,), RETURNED)

    def given_back(self, first: int, last: int) -> None:
        """The user did not see these."""
        self._change(first, last, (RETURNED,), FETCHED)

    def release_unreturned(self, first: int = -1, last: int = 1 << 62) -> None:
        self._change(first, last, (FETCHED,), int(AcknowledgeType.RELEASE))

    def acknowledge(self, offset: int, count: int, type_: int) -> bool:
        """False: this delivery of the record is not held, or was acknowledged and sent."""
        run = self._find(offset)
        if run is None or run.state in (FETCHED, GAP) or run.count != count:
            return False
        if run.first != offset or run.last != offset:
            run = self._runs[self._alone(offset)]
        run.state = type_
        return True

    def has(self, offset: int) -> bool:
        """Whether some delivery of this offset is held."""
        return self._find(offset) is not None

    def is_returned(self, offset: int, count: int) -> bool:
        """Whether this delivery is with the user, without an acknowledgement."""
        run = self._find(offset)
        return run is not None and run.count == count and run.state == RETURNED

    def accept(self, first: int, last: int) -> None:
        """Those from `first` to `last` that the user has."""
        self._change(first, last, (RETURNED,), int(AcknowledgeType.ACCEPT))

    def has_acknowledgements(self) -> bool:
        return any(run.state >= 0 for run in self._runs)

    def returned_runs(self) -> list[tuple[int, int, int]]:
        """First offset, last offset and deadline of what the user has."""
        return [(run.first, run.last, run.deadline) for run in self._runs if run.state == RETURNED]

    def take(self, now: int) -> list[AckRun]:
        """The acknowledgements to send now. Ask again after the answer: there may be more."""
        sure = [run for run in self._runs if run.state >= 0 and now < run.deadline]
        chosen = sure or [run for run in self._runs if run.state >= 0]
        if not chosen:
            return []
        taken = [AckRun(run.first, run.last, run.state) for run in chosen]
        gone = {run.first for run in chosen if run.state != _RENEW}
        for run in chosen:
            if run.state == _RENEW:
                run.state = RENEWING
        self._runs = [run for run in self._runs if run.first not in gone]
        return _joined(taken)

    def take_all(self) -> list[AckRun]:
        """All acknowledgements, sure or not, because the session ended."""
        return self.take(-1)

    def renewed(self, deadline: int | None) -> None:
        """The renewals in flight were answered; None: with an error, and the lock stays."""
        for run in self._runs:
            if run.state == RENEWING:
                run.state = RETURNED
                if deadline is not None:
                    run.deadline = deadline

    def drop_expired(self, now: int) -> list[tuple[int, int]]:
        """Forget what was not returned, and whose lock has ended: others get it now."""
        late = [run for run in self._runs if run.state == FETCHED and now >= run.deadline]
        if not late:
            return []
        self._runs = [run for run in self._runs if run.state != FETCHED or now < run.deadline]
        return [(run.first, run.last) for run in late]

    def drop_unreturned(self) -> None:
        self._runs = [run for run in self._runs if run.state not in (FETCHED, GAP)]

    # --- runs ---

    def _find(self, offset: int) -> HeldRun | None:
        at = bisect_right(self._runs, offset, key=_first) - 1
        if at < 0 or self._runs[at].last < offset:
            return None
        return self._runs[at]

    def _cut(self, offset: int) -> int:
        """The index of the first run from `offset` on; a run across it is cut in two."""
        at = bisect_right(self._runs, offset - 1, key=_first)
        if at > 0:
            before = self._runs[at - 1]
            if before.last >= offset:
                after = HeldRun(offset, before.last, before.state, before.count, before.deadline)
                before.last = offset - 1
                self._runs.insert(at, after)
        return at

    def _alone(self, offset: int) -> int:
        at = self._cut(offset)
        self._cut(offset + 1)
        return at

    def _change(self, first: int, last: int, states: tuple[int, ...], state: int) -> None:
        at = self._cut(first)
        end = self._cut(last + 1)
        for run in self._runs[at:end]:
            if run.state in states:
                run.state = state


def _joined(runs: Iterable[AckRun]) -> list[AckRun]:
    """Neighbours of one type as one run."""
    joined: list[AckRun] = []
    for run in runs:
        if joined and joined[-1].type == run.type and joined[-1].last + 1 == run.first:
            joined[-1] = AckRun(joined[-1].first, run.last, run.type)
        else:
            joined.append(run)
    return joined


def packed(runs: Iterable[AckRun]) -> list[tuple[int, int, list[int]]]:
    """As a request carries them: ranges with one type, or with one type for each offset.

    Short neighbouring runs of different types share a range: that takes fewer bytes.
    """
    ranges: list[tuple[int, int, list[int]]] = []
    for run in runs:
        length = run.last - run.first + 1
        if ranges:
            first, last, types = ranges[-1]
            before = last - first + 1
            each = len(types) == before
            if last + 1 == run.first and length < _RUN_SIZE and (each or before < _RUN_SIZE):
                types.extend(types * (before - len(types)))
                types.extend([run.type] * length)
                ranges[-1] = (first, run.last, types)
                continue
        ranges.append((run.first, run.last, [run.type]))
    return ranges

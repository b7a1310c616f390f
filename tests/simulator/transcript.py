"""What happened in a world, for people to read, and as one number to compare two runs by."""

from collections import Counter
from hashlib import sha256
from typing import Any, NamedTuple

from barnabas.system.logs import LEVELS, Logger
from tests.simulator.loop import Schedule

LINES_MAX = 20_000
_DIGITS = str.maketrans("", "", "0123456789")
_DULL = {"connection closed", "broker lost"}
OUT_OF_ORDER, TOO_LARGE = "OUT_OF_ORDER_SEQUENCE_NUMBER", "RECORD_LIST_TOO_LARGE"


class Line(NamedTuple):
    time_us: int
    who: str
    text: str

    def __str__(self) -> str:
        return f"{self.time_us / 1_000_000:11.6f}  {self.who:<9} {self.text}"


class Transcript:
    """Lines in order of time. `counts`: how often the events happened that a seed is run for."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self.lines: list[Line] = []
        self.counts: Counter[str] = Counter()
        self.gave_up: set[object] = set()  # clients that gave up or split a batch
        self._hash = sha256()

    def add(self, who: str, text: str) -> None:
        line = Line(self._schedule.now_us, who, text)
        self._hash.update(f"{line.time_us} {who} {text}\n".encode())
        if len(self.lines) < LINES_MAX:
            self.lines.append(line)

    def trace(self) -> str:
        """The same for two runs in which the same happened, at the same times."""
        schedule = self._schedule
        end = f"{schedule.events} {schedule.now_us} {sorted(self.counts.items())}"
        return sha256(self._hash.digest() + end.encode()).hexdigest()

    def last(self, count: int) -> str:
        """The last lines; a line that repeats is shown once, with a count."""
        shown: list[tuple[Line, int, Line]] = []
        last_of: dict[str, tuple[str, int]] = {}
        for line in self.lines:
            gist = line.text.translate(_DIGITS)
            before, at = last_of.get(line.who, ("", -1))
            if gist == before:
                shown[at] = (shown[at][0], shown[at][1] + 1, line)
                continue
            last_of[line.who] = (gist, len(shown))
            shown.append((line, 1, line))
        left_out = len(shown) - count
        head = [f"  ... {left_out} lines before"] if left_out > 0 else []
        return "\n".join(head + [_repeated(*each) for each in shown[-count:]])


def _repeated(first: Line, times: int, last: Line) -> str:
    if times == 1:
        return str(first)
    return f"{first} ({times} times, until {last.time_us / 1_000_000:.6f})"


class TranscriptLogger(Logger):
    """Adds log lines to the transcript; a line that must never be logged ends the run."""

    def __init__(self, transcript: Transcript, who: str) -> None:
        self._transcript = transcript
        self._who = who
        self.faults: list[str] = []  # errors of the program, with their traces
        self.out_of_order: list[dict[str, Any]] = []

    def _write(self, level: int, event: str, values: dict[str, object]) -> None:
        if level < 1 or event in _DULL:
            return
        if "trace" in values:
            self.faults.append(f"{event}\n{values['trace']}")
        # A producer that gave up no batch, and split none, sends them in order.
        if values.get("code") == TOO_LARGE:
            self._transcript.gave_up.add(values.get("client"))
        if (
            values.get("code") == OUT_OF_ORDER
            and values.get("client") not in self._transcript.gave_up
        ):
            self.out_of_order.append(values)
        pairs = " ".join(f"{key}={value}" for key, value in values.items() if key != "trace")
        self._transcript.add(self._who, f"{LEVELS[level]}: {event} {pairs}"[:600])

"""What a worker does with a record that fails: number of retries, delays, and target topics.

Pure. Seconds outside, milliseconds inside.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from barnabas.model.errors import Code, InvalidRequest
from barnabas.model.ids import check_topic_name

WINDOW_MAX = 1_000_000
_DOUBLINGS_MAX = 40
_SECONDS_MAX = 30 * 24 * 3600


class Reject(Exception):
    """A handler raises it for a record that retries cannot help: it goes to the dead-letter topic
    at once.
    """


class RecordOrder(Enum):
    """Which records are handled one after another."""

    KEY = "key"
    PARTITION = "partition"
    NONE = "none"


@dataclass(frozen=True)
class Retry:
    """Retries: `times` in this worker, then `rounds` times through the retry topic.

    `backoff`: the pause before a retry in this worker; `delay`: the time in the retry topic. Both
    are the first and the longest, in seconds; each pause is twice the previous one.
    """

    times: int = 3
    backoff: tuple[float, float] = (0.1, 30.0)
    rounds: int = 3
    delay: tuple[float, float] = (10.0, 600.0)

    def __post_init__(self) -> None:
        check_whole("Retry times", self.times, 0, 1_000)
        check_whole("Retry rounds", self.rounds, 0, 1_000)
        for name, (first, longest) in (("backoff", self.backoff), ("delay", self.delay)):
            if not 0 <= first <= longest <= _SECONDS_MAX:
                raise invalid(
                    f"Retry {name} ({first}, {longest}): the first pause and the longest, in "
                    f"seconds, 0 <= first <= longest <= {_SECONDS_MAX}"
                )

    def backoff_ms(self, failures: int) -> int:
        """The pause after this many failures in this worker."""
        return _doubled(self.backoff, failures)

    def delay_ms(self, round_: int) -> int:
        """How long the retry topic keeps a record in its nth round."""
        return _doubled(self.delay, round_)


class FailureRoute(NamedTuple):
    """The topic for a record that this worker gives up; `not_before`: -1, or the time of the next
    attempt.
    """

    topic: str
    round: int
    not_before: int


@dataclass(frozen=True)
class Policy:
    """The options of a window."""

    group: str
    order: RecordOrder = RecordOrder.KEY
    window: int = 1_000
    concurrency: int = 64
    retry: Retry = field(default_factory=Retry)
    retry_topic: str | None = None
    dlq: str | None = None
    timeout_ms: int | None = None  # of one call of the handler
    commit_interval_ms: int = 1_000
    drain_ms: int = 10_000
    exactly_once: bool = False

    def __post_init__(self) -> None:
        check_whole("window", self.window, 1, WINDOW_MAX)
        check_whole("concurrency", self.concurrency, 1, 10_000)
        check_whole("commit interval in ms", self.commit_interval_ms, 0, 3_600_000)
        check_whole("drain time in ms", self.drain_ms, 0, 3_600_000)
        if self.timeout_ms is not None:
            check_whole("timeout in ms", self.timeout_ms, 1, 24 * 3_600_000)
        for topic in (self.retry_topic, self.dlq):
            if topic is not None:
                check_topic_name(topic)
        if self.retry_topic is not None and self.retry_topic == self.dlq:
            raise invalid(f"retry_topic and dlq are both {self.dlq!r}; they must differ")

    def way_out(self, rounds: int, now: int, *, reject: bool) -> FailureRoute | None:
        """The target of a record after this many rounds; None if there is none."""
        if self.retry_topic is not None and not reject and rounds < self.retry.rounds:
            return FailureRoute(self.retry_topic, rounds + 1, now + self.retry.delay_ms(rounds + 1))
        return None if self.dlq is None else FailureRoute(self.dlq, rounds, -1)


def invalid(detail: str) -> InvalidRequest:
    return InvalidRequest(Code.INVALID_CONFIG, detail)


def check_whole(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise invalid(f"{name} is {value}: expected {least} to {most}")


def _doubled(bounds: tuple[float, float], count: int) -> int:
    first, longest = bounds
    return int(min(longest, first * 2.0 ** min(count - 1, _DOUBLINGS_MAX)) * 1_000)

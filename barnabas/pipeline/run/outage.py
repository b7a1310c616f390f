"""Decides whether a pipeline goes on after a failure: brokers that are away may come back, and a
batch whose transaction was aborted can be written again.

In: failures of attempts to run, and times. Out: how long to wait before the next attempt, or that
the failure ends the pipeline.
Always: a pipeline that runs until it is stopped does not end because brokers are unreachable,
unless the user sets a time (`run.give_up_after`). A pipeline that has not reached a broker yet ends
at once: its spec is probably wrong.
Pure: running.py waits and tries again.
"""

from barnabas.model.errors import Code, KafkaError, Retriable
from barnabas.pipeline.errors import PipelineError, from_spark

_AWAY = frozenset(
    {
        Code.NETWORK_EXCEPTION,
        Code.REQUEST_TIMED_OUT,
        Code.BROKER_NOT_AVAILABLE,
        Code.LEADER_NOT_AVAILABLE,
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.COORDINATOR_LOAD_IN_PROGRESS,
        Code.COORDINATOR_NOT_AVAILABLE,
        Code.NOT_COORDINATOR,
        Code.NOT_ENOUGH_REPLICAS,
        Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Code.KAFKA_STORAGE_ERROR,
        Code.TRANSACTION_ABORTABLE,
        Code.UNSTABLE_OFFSET_COMMIT,
    }
)
_WAIT_MS_MIN, _WAIT_MS_MAX = 1_000, 30_000
# An attempt that lasted longer than tasks and their retries wait for a broker had reached one.
_ATTEMPT_MS_MAX = 600_000


class Outage:
    """The outage of one run, if there is one. `give_up_ms` None: it may last for ever."""

    def __init__(self, give_up_ms: int | None) -> None:
        self._give_up_ms = give_up_ms
        self._reached = False
        self._since_ms: int | None = None
        self._wait_ms = _WAIT_MS_MIN

    def reached(self) -> None:
        """Brokers have answered."""
        self._reached = True

    def progressed(self) -> None:
        """A batch was finished: an outage is over."""
        self._reached = True
        self._since_ms = None
        self._wait_ms = _WAIT_MS_MIN

    def wait_ms(self, problem: Exception, began_ms: int, now_ms: int) -> int | None:
        """How long to wait before the next attempt; None: give up. `began_ms`: when the attempt
        that failed began.
        """
        if not self._reached or not is_outage(problem):
            return None
        if now_ms - began_ms > _ATTEMPT_MS_MAX:
            self.progressed()
        if self._since_ms is None:
            self._since_ms = now_ms
        if self._give_up_ms is not None and now_ms - self._since_ms >= self._give_up_ms:
            return None
        wait_ms = self._wait_ms
        self._wait_ms = min(2 * wait_ms, _WAIT_MS_MAX)
        return wait_ms


def is_outage(problem: Exception) -> bool:
    """Whether the same attempt may succeed later."""
    if isinstance(problem, KafkaError):
        return isinstance(problem, Retriable) or problem.code in _AWAY
    short = problem if isinstance(problem, PipelineError) else from_spark(problem)
    return short is not None and short.code in _AWAY

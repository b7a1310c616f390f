"""When a producer requests metadata, and when it gives up an unknown topic.

In: time, metadata responses, or why there is none. Out: queues that know their leaders; failed
records of topics that do not exist.
Always: records of an unknown topic wait for `block_ms_max` at most.
Not here: asking (producing.py).
"""

from barnabas.client.metadata_snapshot import MetadataSnapshot, TopicMetadata
from barnabas.client.producer.accumulator import Accumulator
from barnabas.client.producer.settings import ProducerSettings
from barnabas.model.errors import Code, InvalidRequest, KafkaError, Retriable


class MetadataRefresh:
    """For all topics that records were sent to. `stale`: the metadata was found to be wrong."""

    def __init__(self, accumulator: Accumulator, settings: ProducerSettings) -> None:
        self._accumulator = accumulator
        self._settings = settings
        self._seen_at: int | None = None
        self._retry_at = 0
        self._retries = 0
        self._problems: dict[str, KafkaError] = {}  # why a topic is not known yet
        self.stale = False
        self.asking = False  # a request is in flight

    def wanted(self, now: int) -> bool:
        """Whether to send a request now."""
        if self.asking or now < self._retry_at:
            return False
        accumulator = self._accumulator
        old = (
            self._seen_at is not None
            and now >= self._seen_at + self._settings.metadata_age_ms_max
            and bool(accumulator.active)
        )
        return bool(accumulator.unknown) or self.stale or accumulator.refreshing or old

    def seen(self, view: MetadataSnapshot, now: int) -> None:
        """A response has described all topics in use."""
        self.stale = self.asking = False
        self._problems.clear()
        self._seen_at = now
        accumulator = self._accumulator
        accumulator.refreshing = False
        for topic in accumulator.topics():
            found = view.topics.get(topic)
            if found is not None:
                accumulator.topic_known(topic, _leaders(found, view), found.id)
            elif topic in accumulator.unknown:
                self._not_there(topic, view.errors.get(topic), now)
        if accumulator.unknown or any(queue.leader < 0 for queue in accumulator.active):
            self._later(now)
        else:
            self._retries = 0
            self._retry_at = 0

    def _not_there(self, topic: str, problem: KafkaError | None, now: int) -> None:
        may_come = (
            problem is None
            or isinstance(problem, Retriable)
            or problem.code is Code.UNKNOWN_TOPIC_OR_PARTITION
        )
        why = problem or InvalidRequest(
            Code.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic!r} does not exist"
        )
        if may_come and now < self._limit(topic):
            self._problems[topic] = why
            return
        self._accumulator.topic_failed(topic, why)

    def unseen(self, problem: KafkaError, now: int, *, for_good: bool) -> None:
        """The request failed. `for_good`: no broker has ever accepted a connection."""
        self.asking = False
        self._problems = dict.fromkeys(self._accumulator.unknown, problem)
        self._later(now)
        for topic in list(self._accumulator.unknown):
            if for_good or now >= self._limit(topic):
                self._accumulator.topic_failed(topic, problem)

    def expire(self, now: int) -> None:
        """Give up records whose topic is not known in time, even while a request is in flight."""
        for topic in list(self._accumulator.unknown):
            if self.asking and now >= self._limit(topic):
                self._accumulator.topic_failed(
                    topic,
                    self._problems.get(topic)
                    or Retriable(
                        Code.REQUEST_TIMED_OUT,
                        f"topic {topic!r}: no broker answered a Metadata request within "
                        f"max.block.ms={self._settings.block_ms_max}",
                    ),
                )

    def _later(self, now: int) -> None:
        bound = self._settings.backoff_ms << min(self._retries, 20)
        self._retries += 1
        self._retry_at = now + min(bound, self._settings.backoff_ms_max)

    def _limit(self, topic: str) -> int:
        return self._accumulator.limbo_since(topic) + self._settings.block_ms_max

    def deadlines(self, now: int) -> list[int]:
        """When to look again, if nothing happens before."""
        limits = [self._limit(topic) for topic in self._accumulator.unknown]
        times = [limit for limit in limits if limit > now]
        if self.wanted(max(now, self._retry_at)):
            times.append(self._retry_at)
        return times


def _leaders(topic: TopicMetadata, view: MetadataSnapshot) -> dict[int, int]:
    """-1 where there is none."""
    return {
        each.number: each.leader if each.leader in view.brokers else -1 for each in topic.partitions
    }

"""Which replicas are throttled while they catch up, and by how much: options of broker and topics.

Not here: counting bytes and time (replication/throttle.py).
"""

from typing import TYPE_CHECKING

from barnabas.broker.context import BrokerContext
from barnabas.replication.throttle import Throttle

if TYPE_CHECKING:
    from barnabas.broker.topic import Topic

EVERYTHING = "*"


class Throttles:
    """The throttles of one broker, one in each direction."""

    def __init__(self, broker: BrokerContext) -> None:
        self._broker = broker
        now, config = broker.clock.monotonic_ms(), broker.config
        self._sent = Throttle(config.leader_replication_throttled_rate, now)
        self._taken = Throttle(config.follower_replication_throttled_rate, now)

    def sent(self, topic: "Topic", index: int) -> Throttle | None:
        """For the partition's records that this broker sends as leader; None: no throttle."""
        if not self._is_named(topic.config.leader_replication_throttled_replicas, index):
            return None
        rate = self._broker.config.leader_replication_throttled_rate
        self._sent.set_rate(rate, self._broker.clock.monotonic_ms())
        return self._sent

    def taken(self, topic: "Topic", index: int) -> Throttle | None:
        """For the partition's records that this broker receives as follower."""
        if not self._is_named(topic.config.follower_replication_throttled_replicas, index):
            return None
        rate = self._broker.config.follower_replication_throttled_rate
        self._taken.set_rate(rate, self._broker.clock.monotonic_ms())
        return self._taken

    def _is_named(self, replicas: tuple[str, ...], index: int) -> bool:
        if not replicas:
            return False
        return replicas[0] == EVERYTHING or f"{index}:{self._broker.id}" in replicas

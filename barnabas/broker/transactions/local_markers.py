"""Writes the markers of a transaction into partitions of this broker, without a request to itself.

In: markers that are due. Out: the partitions that have their marker, and the markers that are left.
Always: only where a record is committed as soon as it is appended; whatever else is the case, or
goes wrong, is left to the queue of markers, which waits and retries.
Not here: requests for markers, and the offsets of groups (marker_writing.py).
"""

from msgspec.structs import replace

from barnabas.broker.context import GroupsContext
from barnabas.broker.role import Role
from barnabas.broker.topic import INTERNAL
from barnabas.broker.transactions.marker_append import append_marker
from barnabas.coordinators.transactions.markers import NO_LEADER, MarkersDue, MarkersWritten
from barnabas.model.errors import KafkaError
from barnabas.wire.control_records import EndMarker

AT_ONCE_MAX = 200
"""Partitions that get their marker before other requests are served: about 5 ms."""


class PartitionLeaders:
    """Who gets the markers of a partition, as far as this broker knows."""

    def __init__(self, broker: GroupsContext) -> None:
        self._broker = broker

    def leader_of(self, topic: str, partition: int) -> int | None:
        found = self._broker.topics.get(topic)
        if found is None or partition >= len(found.partitions):
            cluster = self._broker.cluster
            # Until the controller has spoken, a topic that is not known here may well be there.
            is_known = cluster is None or cluster.registered.is_set()
            return None if is_known else NO_LEADER
        return found.partitions[partition].leader


def write_now(
    broker: GroupsContext, due: MarkersDue, wall_ms: int
) -> tuple[MarkersWritten | None, MarkersDue | None]:
    """What is written, and what is left."""
    written: list[tuple[str, int]] = []
    left: dict[str, frozenset[int]] = {}
    end = EndMarker(due.commit, due.coordinator_epoch)
    for topic, indexes in due.partitions.items():
        found = None if topic in INTERNAL else broker.topics.get(topic)
        for index in indexes:
            if found is not None and index < len(found.partitions):
                partition = found.partitions[index]
                if partition.role is Role.LEADER and partition.commits_immediately:
                    try:
                        append_marker(
                            partition,
                            due.producer_id,
                            due.producer_epoch,
                            end,
                            due.transaction_version,
                            wall_ms,
                        )
                    except KafkaError:
                        pass  # the queue tries again, and knows which errors are final
                    else:
                        written.append((topic, index))
                        continue
            left[topic] = left.get(topic, frozenset()) | {index}
    done = None
    if written:
        done = MarkersWritten(due.transactional_id, due.producer_id, due.producer_epoch, written)
    return done, replace(due, partitions=left) if left else None

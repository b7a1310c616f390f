"""What the coordinator sees of the topics, and a digest to notice changes.

In: the broker's topics, behind a Protocol. Out: partition counts, ids, names, a hash.
Always: the coordinator asks for the current topics; it keeps none.
Not here: the topics of the broker (broker/groups/ports.py).
"""

from collections.abc import Container, Iterable
from hashlib import blake2b
from typing import Protocol
from uuid import UUID

from barnabas.assignment.group import AssignableTopic


class TopicsPort(Protocol):
    """The topics that exist now."""

    def find(self, name: str) -> AssignableTopic | None: ...

    def name_of(self, topic_id: UUID) -> str | None: ...

    def names(self) -> Iterable[str]: ...


class NoTopics:
    """No topics: enough for offsets and classic groups."""

    def find(self, name: str) -> AssignableTopic | None:
        return None

    def name_of(self, topic_id: UUID) -> str | None:
        return None

    def names(self) -> Iterable[str]:
        return ()


def metadata_hash(names: Iterable[str], topics: TopicsPort) -> int:
    """Changes when one of these topics is created, deleted, or gets partitions.

    Kafka uses another hash: a group that moves between the two gets one more assignment.
    """
    digest = blake2b(digest_size=8)
    found = False
    for name in sorted(names):
        topic = topics.find(name)
        if topic is not None:
            found = True
            digest.update(f"{name} {topic.topic_id} {topic.partitions}\n".encode())
    return int.from_bytes(digest.digest(), signed=True) if found else 0


class SubscribedIds(Container[UUID]):
    """The ids of the topics with these names."""

    __slots__ = ("_names", "_topics")

    def __init__(self, names: Container[str], topics: TopicsPort) -> None:
        self._names = names
        self._topics = topics

    def __contains__(self, topic_id: object) -> bool:
        assert isinstance(topic_id, UUID)
        name = self._topics.name_of(topic_id)
        return name is not None and name in self._names

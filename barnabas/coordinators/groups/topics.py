"""The topics as the coordinator sees them, and what it remembers of how it saw them."""

from collections.abc import Container, Iterable
from hashlib import blake2b
from typing import Protocol
from uuid import UUID

from barnabas.assignment.group import Topic


class Topics(Protocol):
    """Which topics there are now."""

    def find(self, name: str) -> Topic | None: ...

    def name_of(self, topic_id: UUID) -> str | None: ...

    def names(self) -> Iterable[str]: ...


class NoTopics:
    """Where only offsets and classic groups are of interest."""

    def find(self, name: str) -> Topic | None:
        return None

    def name_of(self, topic_id: UUID) -> str | None:
        return None

    def names(self) -> Iterable[str]:
        return ()


def metadata_hash(names: Iterable[str], topics: Topics) -> int:
    """Another number when one of these topics has come, gone, or grown.

    Kafka uses another digest: a group that moves from one to the other is assigned once more.
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
    """The ids of topics that go by one of these names."""

    __slots__ = ("_names", "_topics")

    def __init__(self, names: Container[str], topics: Topics) -> None:
        self._names = names
        self._topics = topics

    def __contains__(self, topic_id: object) -> bool:
        assert isinstance(topic_id, UUID)
        name = self._topics.name_of(topic_id)
        return name is not None and name in self._names

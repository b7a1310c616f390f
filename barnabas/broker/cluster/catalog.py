"""Topics and configuration of a broker in a cluster: the controller decides, the keeper stores.

In: the operations of Catalog. Out: the same, through the controller, on any broker.
Always: no two brokers hand out one producer id.
Not here: what the controller does with them (broker/controller/controller_election.py), the
resulting metadata (metadata.py).
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol, TypeVar
from uuid import UUID

from barnabas.broker.catalog_interface import (
    Change,
    TopicsContext,
    apply_config,
    check_new_topic,
    log_config,
)
from barnabas.broker.producer_id_blocks import next_block
from barnabas.broker.topic import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC, Topic
from barnabas.config.resolve import Layers
from barnabas.config.topic import TopicConfig
from barnabas.keeper.keeper import Keeper
from barnabas.log.config import LogConfig
from barnabas.model.errors import Code, InvalidRequest, Retriable
from barnabas.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.cluster.membership import ClusterMembership

TIMEOUT_MS = 30_000
LOOK_MS = 10
DEFAULT_FACTOR = -1
OFFSETS_FACTOR = "offsets.topic.replication.factor"
TRANSACTIONS_FACTOR = "transaction.state.log.replication.factor"
SHARE_STATE_FACTOR = "share.coordinator.state.topic.replication.factor"
JOINING_MS = 2_000
T = TypeVar("T")

_NOBODY: Mapping[str, tuple[UUID, Mapping[int, int]]] = {}


class ClusterCatalogContext(TopicsContext, Protocol):
    """What this module needs of the broker."""

    static: Mapping[str, str]


class ClusterCatalog:
    """Implements AnyCatalog. Calls from handlers on the controller go directly to it."""

    def __init__(self, broker: ClusterCatalogContext, cluster: "ClusterMembership") -> None:
        self._broker = broker
        self._cluster = cluster
        self._one_at_a_time = asyncio.Lock()
        self._producer_ids = range(0)

    @property
    def dynamic(self) -> Mapping[int | None, Mapping[str, str]]:
        return self._cluster.settings.brokers

    @property
    def entities(self) -> Mapping[tuple[str, str], Mapping[str, str]]:
        return self._cluster.settings.entities

    @property
    def deleted_topic_offsets(self) -> Mapping[str, tuple[UUID, Mapping[int, int]]]:
        """None: offsets of deleted topics are removed when their shard learns of the deletion
        (broker/groups/coordination.py)."""
        return _NOBODY

    def log_config_of(self, topic: str) -> LogConfig:
        overrides = self._cluster.settings.of_topic(topic)
        return log_config(TopicConfig(overrides, self._broker.layers), self._broker)

    def layers(self, static: Mapping[str, str]) -> Layers:
        return Layers(static, self.dynamic.get(None, {}), self.dynamic.get(self._broker.id, {}))

    def apply(self, topic: Topic) -> None:
        apply_config(self._broker, topic)

    def check_new(self, name: str) -> None:
        check_new_topic(self._broker.topics, name)

    async def create_topic(self, name: str, partitions: int, overrides: Mapping[str, str]) -> Topic:
        """For this broker: a topic that a client requested, or one that the broker needs itself."""
        factor, config = DEFAULT_FACTOR, self._broker.config
        if name == OFFSETS_TOPIC:
            wanted = config.offsets_topic_replication_factor
            factor = await self._internal_factor(OFFSETS_FACTOR, wanted)
        elif name == TRANSACTIONS_TOPIC:
            wanted = config.transaction_state_log_replication_factor
            factor = await self._internal_factor(TRANSACTIONS_FACTOR, wanted)
        elif name == SHARE_STATE_TOPIC:
            wanted = config.share_coordinator_state_topic_replication_factor
            factor = await self._internal_factor(SHARE_STATE_FACTOR, wanted)
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=name,
                    num_partitions=partitions,
                    replication_factor=factor,
                    assignments=[],
                    configs=[
                        CreatableTopicConfig(name=option, value=value)
                        for option, value in overrides.items()
                    ],
                )
            ],
            timeout_ms=TIMEOUT_MS,
        )
        answer = await self._cluster.forwarding.ask(request, TIMEOUT_MS)
        assert isinstance(answer, CreateTopicsResponse)
        (result,) = answer.topics
        if result.error_code not in (0, Code.TOPIC_ALREADY_EXISTS):
            code = Code.of(result.error_code)
            raise InvalidRequest(code, result.error_message or code.text)
        return await self._appeared(name)

    async def _internal_factor(self, option: str, wanted: int) -> int:
        """The configured number; if it is not configured, the number of brokers.

        A cluster that is just starting may have only its first brokers yet.
        """
        members = self._cluster.members
        if option in self._broker.static and len(members) < wanted:
            raise Retriable(
                Code.COORDINATOR_NOT_AVAILABLE,
                f"{option} is {wanted}, but there are {len(members)} brokers: start more,"
                " or set it lower",
            )
        for _ in range(JOINING_MS // LOOK_MS):
            if len(self._cluster.members) >= wanted:
                break
            await asyncio.sleep(LOOK_MS / 1000)
        return max(1, min(wanted, len(self._cluster.members)))

    async def _appeared(self, name: str) -> Topic:
        """The controller replies when brokers know the topic; this one may be slow."""
        loop = self._broker.loop
        deadline = loop.time() + TIMEOUT_MS / 1000
        while loop.time() < deadline:
            topic = self._broker.topics.get(name)
            if topic is not None and self._cluster.view.is_whole(topic):
                return topic
            await asyncio.sleep(LOOK_MS / 1000)
        raise Retriable(Code.LEADER_NOT_AVAILABLE, f"topic {name!r} is not known here yet")

    async def delete_topic(self, topic: Topic) -> None:
        await self._cluster.controlling.delete_topic(topic.name, topic.id, timeout_ms=TIMEOUT_MS)

    async def add_partitions(self, topic: Topic, total: int) -> None:
        await self._cluster.controlling.add_partitions(topic.name, total, timeout_ms=TIMEOUT_MS)

    async def configure_topic(self, topic: Topic, change: Change) -> None:
        await self._cluster.controlling.configure_topic(topic.name, change)

    async def configure_broker(self, broker: int | None, change: Change) -> None:
        await self._cluster.controlling.configure_broker(broker, change)

    async def configure_entity(self, kind: str, name: str, change: Change) -> None:
        await self._cluster.controlling.configure_entity(kind, name, change)

    async def new_producer_id(self) -> int:
        async with self._one_at_a_time:
            if not self._producer_ids:
                id_ = self._broker.id
                self._producer_ids = await self._cluster.run(lambda keeper: next_block(keeper, id_))
            first, self._producer_ids = self._producer_ids[0], self._producer_ids[1:]
            return first

    async def run(self, call: Callable[[Keeper], T]) -> T:
        return await self._cluster.run(call)

    async def offsets_forgotten(self, shard: int, ends: Mapping[str, int]) -> None:
        """Nothing is stored about them."""

    def close(self) -> None:
        """The session belongs to the cluster membership."""

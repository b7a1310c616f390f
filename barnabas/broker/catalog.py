"""The topics, and the configuration of topics and brokers, stored in the keeper.

In: changes, already checked against the protocol. Out: topics and partitions to serve.
Always: a change is written to the keeper before it is visible; one change at a time.
Not here: the format of replies (handlers/), the logs of a topic
(broker/storage/partition_opening.py).
"""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar
from uuid import UUID, uuid4

from barnabas.broker.catalog_interface import (
    Change,
    apply_config,
    check_new_topic,
    log_config,
)
from barnabas.broker.context import GroupsContext
from barnabas.broker.producer_id_blocks import next_block
from barnabas.broker.storage.partition_opening import OpeningContext, open_partitions, set_aside
from barnabas.broker.topic import OFFSETS_TOPIC, Topic
from barnabas.config.resolve import Layers
from barnabas.config.topic import TopicConfig
from barnabas.keeper import paths
from barnabas.keeper.entity_settings import read_config, read_entities
from barnabas.keeper.keeper import (
    Create,
    Delete,
    Keeper,
    NodeExists,
    NoNode,
    Operation,
    ensure,
    parent,
)
from barnabas.log.config import INT64_MAX, LogConfig
from barnabas.model.errors import Code, Failed, InvalidRequest, KafkaError
from barnabas.model.ids import NO_TOPIC_ID, TopicPartition

OPENED_PER_SLICE = 50
_PARENTS = (
    parent(paths.CLUSTER_ID),
    paths.TOPICS,
    paths.TOPIC_CONFIGS,
    paths.BROKER_CONFIGS,
    paths.GROUP_CONFIGS,
    paths.CLIENT_METRICS_CONFIGS,
    paths.USER_CONFIGS,
    paths.TOKEN_CONFIGS,
    paths.CLIENT_CONFIGS,
    paths.IP_CONFIGS,
    paths.DELETED_TOPICS,
)

T = TypeVar("T")


class CatalogContext(OpeningContext, GroupsContext, Protocol):
    """What the catalog needs of the broker."""

    def reconfigure(self) -> None: ...

    def entity_configured(self, kind: str, name: str) -> None: ...


class Catalog:
    """The single writer of topics and configuration on a lone broker."""

    def __init__(self, broker: CatalogContext, keeper: Keeper) -> None:
        self._broker = broker
        self._keeper = keeper
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="keeper")
        self._one_at_a_time = asyncio.Lock()
        self._producer_ids = range(0)
        self.dynamic: dict[int | None, dict[str, str]] = {}
        self.entities: dict[tuple[str, str], dict[str, str]] = {}
        # Deleted topics: for each group shard, the end offset below which it may have their
        # offsets.
        self.deleted_topic_offsets: dict[str, tuple[UUID, dict[int, int]]] = {}

    # At start

    def load_cluster_id(self, new_id: str) -> str:
        """The id that this cluster got at its first start.

        All other required nodes are created first: a first start may be interrupted anywhere.
        """
        for path in _PARENTS:
            if not self._keeper.exists(path):
                ensure(self._keeper, path)
        try:
            return paths.read_cluster_id(paths.CLUSTER_ID, self._keeper.get(paths.CLUSTER_ID).data)
        except NoNode:
            self._keeper.create(paths.CLUSTER_ID, paths.cluster_id_data(new_id))
        return new_id

    def at_start(self, call: Callable[[Keeper], T]) -> T:
        """Before the broker answers, so that it may block."""
        return call(self._keeper)

    def load_settings(self) -> None:
        """Load the dynamic settings that apply to this broker."""
        for broker in (None, self._broker.id):
            self.dynamic[broker] = read_config(self._keeper, paths.broker_config(broker))
        self.entities.update(read_entities(self._keeper))

    def load_topics(self) -> None:
        """Load every topic in the keeper; a partition without a directory gets a new, empty one."""
        self._finish_deletions()
        for name in self._keeper.children(paths.TOPICS):
            path = paths.topic(name)
            id_, replicas = paths.read_topic(path, self._keeper.get(path).data)
            overrides = read_config(self._keeper, paths.topic_config(name))
            topic = Topic(name, id_, TopicConfig(overrides, self._broker.layers), overrides)
            lost = self._broker.logs.lost_on()
            if not lost:
                self._warn_of_missing(topic, len(replicas))
            open_partitions(self._broker, topic, len(replicas), lost)
            self._broker.topics.add(topic)
        owned = {partition.name for topic in self._broker.topics for partition in topic.partitions}
        for stray in [each for each in self._broker.logs.logs if each not in owned]:
            set_aside(self._broker, stray)

    def _warn_of_missing(self, topic: Topic, total: int) -> None:
        """A missing log may have had records: log a warning, so that the loss is noticed."""
        for index in range(total):
            name = TopicPartition(topic.name, index)
            if name not in self._broker.logs.logs and name not in self._broker.logs.damaged:
                self._broker.log.warning(
                    "log missing: the partition begins empty", partition=str(name)
                )

    def _finish_deletions(self) -> None:
        """Finish deletions that a crash interrupted: logs must not outlive their topic."""
        logs = self._broker.logs
        for name in self._keeper.children(paths.DELETED_TOPICS):
            path = paths.deleted_topic(name)
            id_, ends = paths.read_deleted_topic(path, self._keeper.get(path).data)
            if ends is None:
                for partition, log in list(logs.logs.items()):
                    if partition.topic == name and log.topic_id in (id_, NO_TOPIC_ID):
                        logs.delete(partition)
            ends = self._offsets_to_delete(ends)
            if not ends:
                self._keeper.delete(path)
                continue
            # From now on another topic may have the name.
            self._keeper.set(path, paths.deleted_topic_data(id_, ends))
            self.deleted_topic_offsets[name] = (id_, ends)

    def _offsets_to_delete(self, ends: dict[int, int] | None) -> dict[int, int]:
        """Below which ends group logs may have offsets of a deleted topic; None: in all logs."""
        path = paths.topic(OFFSETS_TOPIC)
        if not self._keeper.exists(path):
            return {}
        _, replicas = paths.read_topic(path, self._keeper.get(path).data)
        found = {}
        for index in replicas:
            end = INT64_MAX if ends is None else ends.get(index, 0)
            log = self._broker.logs.logs.get(TopicPartition(OFFSETS_TOPIC, index))
            if log is not None:  # after a crash it may be shorter
                end = min(end, log.end_offset)
            elif not self._broker.logs.lost_on():
                continue
            if end > (0 if log is None else log.start_offset):
                found[index] = end
        return found

    def log_config_of(self, topic: str) -> LogConfig:
        """For logs that are opened before their topics."""
        overrides = read_config(self._keeper, paths.topic_config(topic))
        return log_config(TopicConfig(overrides, self._broker.layers), self._broker)

    def layers(self, static: Mapping[str, str]) -> Layers:
        return Layers(static, self.dynamic.get(None, {}), self.dynamic.get(self._broker.id, {}))

    # Changes

    async def create_topic(self, name: str, partitions: int, overrides: Mapping[str, str]) -> Topic:
        """The name, the number and the overrides have been checked."""
        async with self._one_at_a_time:
            self.check_new(name)
            id_ = uuid4()
            operations: list[Operation] = [
                Create(paths.topic(name), self._topic_data(id_, partitions))
            ]
            if overrides:
                operations.append(Create(paths.topic_config(name), paths.config_data(overrides)))
            # A creation that failed may have left its nodes: replace them.
            operations[:0] = self._deletes(paths.topic(name), paths.topic_config(name))
            await self._in_thread(lambda: self._keeper.multi(operations))
            topic = Topic(name, id_, TopicConfig(overrides, self._broker.layers), overrides)
            try:
                await self._open_in_slices(topic, partitions)
            except (OSError, KafkaError) as error:
                await self._undo_create(topic, partitions)
                raise _failed(f"topic {name!r} not created", error) from error
            self._broker.topics.add(topic)
        self._notify_groups(name, of_names=True)
        self._broker.log.info("topic created", topic=name, id=id_, partitions=partitions)
        return topic

    def check_new(self, name: str) -> None:
        check_new_topic(self._broker.topics, name)

    async def delete_topic(self, topic: Topic) -> None:
        async with self._one_at_a_time:
            self._check_exists(topic)
            mark = paths.deleted_topic(topic.name)
            marks = [mark]
            if topic.name == OFFSETS_TOPIC:  # including all offsets that were still to be deleted
                marks += [
                    paths.deleted_topic(name)
                    for name in self.deleted_topic_offsets
                    if name != topic.name
                ]
            operations = [
                *self._deletes(paths.topic(topic.name), paths.topic_config(topic.name), *marks),
                Create(mark, paths.deleted_topic_data(topic.id)),
            ]
            await self._in_thread(lambda: self._keeper.multi(operations))
            if topic.name == OFFSETS_TOPIC:
                self.deleted_topic_offsets.clear()
            self._broker.topics.remove(topic)
            for partition in topic.partitions:
                partition.close()
            await self._broker.logs.delete_all(partition.name for partition in topic.partitions)
            # Offsets of this topic can no longer be committed, nor yet those of the next topic of
            # its name.
            ends: dict[int, int] = {}
            if self._broker.topics.get(OFFSETS_TOPIC) is not None:
                from barnabas.broker.groups.coordination import coordination

                ends = await coordination(self._broker).topic_deleted(topic.name)
            self.deleted_topic_offsets[topic.name] = (topic.id, ends)
            await self._write_mark(topic.name)
        if self._broker.share is not None:
            self._broker.share.coordination.topic_deleted(topic.id)
        self._broker.log.info("topic deleted", topic=topic.name, id=topic.id)

    async def offsets_forgotten(self, shard: int, ends: Mapping[str, int]) -> None:
        """The log of a shard has the deletions of these topics' offsets up to these ends."""
        async with self._one_at_a_time:
            for name, end in ends.items():
                _, left = self.deleted_topic_offsets.get(name, (NO_TOPIC_ID, {}))
                if left.get(shard) == end:
                    del left[shard]
                    await self._write_mark(name)

    async def _write_mark(self, name: str) -> None:
        """The mark stays as long as there are offsets to delete."""
        path = paths.deleted_topic(name)
        id_, ends = self.deleted_topic_offsets[name]
        if ends:
            data = paths.deleted_topic_data(id_, ends)
            await self._in_thread(lambda: self._keeper.set(path, data))
        else:
            del self.deleted_topic_offsets[name]
            await self._in_thread(lambda: self._keeper.delete(path))

    async def add_partitions(self, topic: Topic, total: int) -> None:
        async with self._one_at_a_time:
            self._check_exists(topic)
            have = len(topic.partitions)
            if total <= have:
                raise InvalidRequest(
                    Code.INVALID_PARTITIONS,
                    f"topic {topic.name!r} has {have} partitions, and {total} are requested; the"
                    " number of partitions can only grow",
                )
            data = self._topic_data(topic.id, total)
            await self._in_thread(lambda: self._keeper.set(paths.topic(topic.name), data))
            try:
                await self._open_in_slices(topic, total)
            except (OSError, KafkaError) as error:
                opened = len(topic.partitions)  # these may be in use already: they stay
                data = self._topic_data(topic.id, opened)
                await self._in_thread(lambda: self._keeper.set(paths.topic(topic.name), data))
                problem = f"topic {topic.name!r} has {opened} partitions, not {total}"
                raise _failed(problem, error) from error
        self._notify_groups(topic.name, of_names=False)
        self._broker.log.info("partitions added", topic=topic.name, had=have, has=total)

    async def configure_topic(self, topic: Topic, change: Change) -> None:
        async with self._one_at_a_time:
            self._check_exists(topic)
            overrides = change(topic.overrides)
            await self._write_config(paths.topic_config(topic.name), overrides)
            topic.overrides = overrides
            self.apply(topic)
        self._broker.log.info("topic configured", topic=topic.name, settings=overrides)

    async def configure_broker(self, broker: int | None, change: Change) -> None:
        """For one broker, or for all (None)."""
        async with self._one_at_a_time:
            settings = change(self.dynamic.get(broker, {}))
            await self._write_config(paths.broker_config(broker), settings)
            self.dynamic[broker] = settings
            self._broker.reconfigure()
        self._broker.log.info("broker configured", broker=broker, settings=settings)

    async def configure_entity(self, kind: str, name: str, change: Change) -> None:
        """For a group, a user, or a subscription to client metrics."""
        async with self._one_at_a_time:
            settings = change(self.entities.get((kind, name), {}))
            await self._write_config(paths.entity_config(kind, name), settings)
            self.entities[kind, name] = settings
            if kind == paths.TOKENS and not settings:  # a token that is over leaves nothing
                await self._in_thread(lambda: self._keeper.delete(paths.entity_config(kind, name)))
                del self.entities[kind, name]
            self._broker.entity_configured(kind, name)
        shown = sorted(settings) if kind == paths.USERS else settings  # not the credentials
        self._broker.log.info("configured", kind=kind, name=name, settings=shown)

    async def new_producer_id(self) -> int:
        """Ids come from the keeper in blocks, so that no id is handed out twice."""
        async with self._one_at_a_time:
            if not self._producer_ids:
                id_ = self._broker.id
                self._producer_ids = await self._in_thread(lambda: next_block(self._keeper, id_))
            first, self._producer_ids = self._producer_ids[0], self._producer_ids[1:]
            return first

    def apply(self, topic: Topic) -> None:
        apply_config(self._broker, topic)

    def close(self) -> None:
        self._thread.shutdown()
        self._keeper.close()

    # Internal

    def _notify_groups(self, topic: str, *, of_names: bool) -> None:
        if self._broker.coordination is not None:
            self._broker.coordination.topics_changed(topic, of_names=of_names)

    def _check_exists(self, topic: Topic) -> None:
        """It may have been deleted while this change waited."""
        if self._broker.topics.by_id(topic.id) is None:
            raise InvalidRequest(Code.UNKNOWN_TOPIC_OR_PARTITION, f"no topic {topic.name!r}")

    def _deletes(self, *nodes: str) -> list[Operation]:
        """For the nodes that exist."""
        return [Delete(path) for path in nodes if self._keeper.exists(path)]

    async def _undo_create(self, topic: Topic, total: int) -> None:
        """Undo the creation of a topic that could not be completed; it is not visible yet."""
        logs = self._broker.logs
        try:
            names = (TopicPartition(topic.name, index) for index in range(total))
            await logs.delete_all([name for name in names if name in logs.logs])
            operations = self._deletes(paths.topic(topic.name), paths.topic_config(topic.name))
            await self._in_thread(lambda: self._keeper.multi(operations))
        except (OSError, KafkaError) as error:
            self._broker.log.error("topic partly created", topic=topic.name, reason=str(error))

    async def _open_in_slices(self, topic: Topic, total: int) -> None:
        """Creating thousands of files would block the loop: other requests run between slices."""
        while len(topic.partitions) < total:
            open_partitions(
                self._broker, topic, min(total, len(topic.partitions) + OPENED_PER_SLICE)
            )
            await asyncio.sleep(0)

    def _topic_data(self, id_: UUID, partitions: int) -> bytes:
        return paths.topic_data(id_, {index: [self._broker.id] for index in range(partitions)})

    async def _write_config(self, path: str, settings: Mapping[str, str]) -> None:
        data = paths.config_data(settings)

        def keep() -> None:
            try:
                self._keeper.create(path, data)
            except NodeExists:
                self._keeper.set(path, data)
            except NoNode:  # the settings of a user's client, and the user has none
                ensure(self._keeper, parent(path))
                self._keeper.create(path, data)

        await self._in_thread(keep)

    async def run(self, call: Callable[[Keeper], T]) -> T:
        return await self._in_thread(lambda: call(self._keeper))

    async def _in_thread(self, call: Callable[[], T]) -> T:
        """The keeper syncs to disk: never call it on the loop."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, call)
        except Failed as error:  # the client gets an error; the operator gets a log line
            self._broker.log.error("keeper file failed", reason=error.detail)
            raise


def _failed(problem: str, error: OSError | KafkaError) -> Failed:
    reason = error.detail if isinstance(error, KafkaError) else error.strerror or error
    return Failed(Code.KAFKA_STORAGE_ERROR, f"{problem}: {reason}")

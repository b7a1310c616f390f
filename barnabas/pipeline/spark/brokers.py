"""A query's requests to the brokers: partitions, offsets, and commits of its progress.

In: the options of a source. Out: offsets by partition, or an error in one line.
Always: one cluster per process and set of options, kept open between tasks and triggers.
Not here: what to do with the offsets (offsets.py), the records (reading.py).
"""

import re
import time
from collections.abc import Iterable, Mapping
from uuid import UUID

from barnabas.client.blocking import open_cluster
from barnabas.client.blocking.admin import Admin
from barnabas.client.blocking.net import run
from barnabas.client.cluster import ClusterClient
from barnabas.client.errors import check
from barnabas.config.client import OPTIONS
from barnabas.model.errors import Code, InvalidRequest, KafkaError, Retriable
from barnabas.model.ids import NO_TOPIC_ID, TopicPartition
from barnabas.pipeline.errors import OptionError, PipelineError
from barnabas.pipeline.spark.offsets import EARLIEST, LATEST, Offsets
from barnabas.pipeline.spark.options import ReadBound, SourceOptions
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)

INITIAL = "where the query began"  # metadata of a commit: no batch has been finished yet
_NEVER_IGNORED = ("sasl.", "security.", "ssl.")
_COMMIT_BY_NAME_MAX = 9  # the last version of OffsetCommit that names topics
_FETCH_ONE_GROUP_MAX = 7  # the last version of OffsetFetch that asks for one group

_VIEW_AGE_S_MAX = 60.0
_SIZES_AGE_S_MAX = 30.0

_opened: dict[tuple[tuple[str, str], ...], ClusterClient] = {}
_looked_at: dict[ClusterClient, float] = {}


def opened(client: Mapping[str, str]) -> ClusterClient:
    """A cluster that stays open for the life of this process: a task reuses the connections of
    earlier tasks.
    """
    key = tuple(sorted(client.items()))
    cluster = _opened.get(key)
    if cluster is None:
        cluster = _opened[key] = open_cluster(known_options(client), {})
        _looked_at[cluster] = time.monotonic()
    elif time.monotonic() - _looked_at[cluster] > _VIEW_AGE_S_MAX:
        look_again(cluster)
    return cluster


def look_again(cluster: ClusterClient) -> None:
    """Refresh the metadata of the topics known so far; keep the old metadata if no
    broker answers.
    """
    _looked_at[cluster] = time.monotonic()
    cluster.drop_closed()
    try:
        run(cluster.refresh())
    except Retriable:
        cluster.drop_closed()


def look_for(cluster: ClusterClient, partitions: Iterable[TopicPartition]) -> None:
    """The leader of a partition. Refreshes the metadata if the partition is not in it."""
    view = cluster.known
    for at in partitions:
        topic = view.topics.get(at.topic) if view is not None else None
        if topic is not None and at.partition not in [known.number for known in topic.partitions]:
            look_again(cluster)
            return


def known_options(client: Mapping[str, str]) -> dict[str, str]:
    """The options that our client has. Other options of the Java client are ignored, except
    security options, which are refused.
    """
    for name in client:
        if name.startswith(_NEVER_IGNORED) and name not in OPTIONS:
            raise OptionError(f"kafka.{name} is not supported: leave it out (docs/SECURITY.md)")
    found = {name: value for name, value in client.items() if name in OPTIONS}
    # the default of the Java consumer, not of ours
    found.setdefault("isolation.level", "read_uncommitted")
    return found


class Brokers:
    """The brokers as one source sees them."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._cluster = opened(options.client)
        self._admin = Admin(cluster=self._cluster)
        self._sizes: dict[TopicPartition, float] = {}
        self._sizes_at = 0.0
        self.topic_ids: dict[str, UUID] = {}  # as of the last read of the partitions

    @property
    def committed_only(self) -> bool:
        return self._cluster.config.isolation_level == "read_committed"

    def partitions(self) -> list[TopicPartition]:
        """The partitions that are read now, in order."""
        options = self._options
        if options.pattern is not None:
            pattern = re.compile(options.pattern)
            topics = self._admin.topics().topics.values()
            chosen = [t for t in topics if not t.is_internal and pattern.search(t.name)]
            self.topic_ids = {topic.name: topic.id for topic in chosen}
            return sorted(TopicPartition(t.name, p.number) for t in chosen for p in t.partitions)
        names = options.topics or tuple(dict.fromkeys(at.topic for at in options.assigned))
        found = [self._admin.topic(name) for name in names]
        self.topic_ids = {topic.name: topic.id for topic in found}
        there = [
            TopicPartition(topic.name, partition.number)
            for topic in found
            for partition in topic.partitions
        ]
        if options.assigned:
            if missing := sorted(set(options.assigned) - set(there)):
                raise PipelineError(f"assign: {missing[0]} does not exist")
            return sorted(options.assigned)
        return sorted(there)

    def topic_ids_now(self) -> dict[str, UUID]:
        self.partitions()
        return self.topic_ids

    def record_sizes(self, partitions: list[TopicPartition]) -> dict[TopicPartition, float]:
        """Bytes of a record as the brokers store it, on average. They are asked from time to time,
        for the sizes of all logs.
        """
        if time.monotonic() - self._sizes_at > _SIZES_AGE_S_MAX or any(
            at not in self._sizes for at in partitions
        ):
            self._sizes_at = time.monotonic()
            firsts, ends = self.earliest(partitions), self.latest(partitions, {})
            stored: dict[TopicPartition, int] = {}
            for directory in self._admin.log_dirs():
                for each in directory.replicas:
                    stored[each.at] = max(each.size, stored.get(each.at, 0))
            self._sizes = {
                at: stored.get(at, 0) / max(ends[at] - firsts[at], 1) for at in partitions
            }
        return self._sizes

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        return self._offsets(dict.fromkeys(partitions, EARLIEST))

    def latest(
        self, partitions: Iterable[TopicPartition], known: Mapping[TopicPartition, int]
    ) -> Offsets:
        """The end offsets. A new leader may not know its end yet: an end that went back is read
        again.
        """
        wanted = dict.fromkeys(partitions, LATEST)
        found = self._offsets(wanted)
        for _ in range(self._options.tries - 1):
            if all(offset >= known.get(at, 0) for at, offset in found.items()):
                break
            time.sleep(self._options.retry_wait_ms / 1000)
            found = self._offsets(wanted)
        return found

    def first_since(self, time_ms: int, partitions: Iterable[TopicPartition]) -> Offsets:
        """The offset of the first record at or after a time, of partitions that have one."""
        found = self._offsets(dict.fromkeys(partitions, max(time_ms, 0)))
        return {at: offset for at, offset in found.items() if offset >= 0}

    def resolve(self, where: ReadBound, partitions: list[TopicPartition], option: str) -> Offsets:
        """The offsets where reading starts or ends. `option` is `starting` or `ending`."""
        if where.everywhere is not None:
            return self._offsets(dict.fromkeys(partitions, where.everywhere))
        if where.offsets is not None:
            self._check_same(where.offsets, partitions, f"{option}Offsets")
            ends = {at: offset for at, offset in where.offsets.items() if offset < 0}
            return {**where.offsets, **self._offsets(ends)}
        times = where.times
        if times is None:
            assert where.time is not None
            times = dict.fromkeys(partitions, where.time)
        else:
            self._check_same(times, partitions, f"{option}OffsetsByTimestamp")
        return self._by_time(times, option)

    def _by_time(self, times: Offsets, option: str) -> Offsets:
        # Negative numbers stand for the ends, not for times.
        found = self._offsets({at: max(wanted, 0) for at, wanted in times.items()})
        none = [at for at, offset in found.items() if offset < 0]
        if none and option == "starting" and not self._options.latest_if_no_time:
            raise PipelineError(
                f"{none[0]} has no record at or after {times[none[0]]}: set"
                " startingOffsetsByTimestampStrategy to latest to begin at its end"
            )
        return {**found, **self._offsets(dict.fromkeys(none, LATEST))}

    def _offsets(self, times: Mapping[TopicPartition, int]) -> Offsets:
        if not times:
            return {}
        look_for(self._cluster, times)
        found = self._admin.offsets(times, committed_only=self.committed_only)
        return {at: answer.offset for at, answer in found.items()}

    def _check_same(self, given: Offsets, partitions: list[TopicPartition], option: str) -> None:
        odd = sorted(set(given) ^ set(partitions))
        if odd:
            what = "does not exist" if odd[0] in given else "is not named"
            raise PipelineError(
                f"{option} must name every partition that is read, and no other: {odd[0]} {what};"
                " -1 is latest, -2 earliest"
            )

    # --- a query is a group ---

    def committed(
        self, group: str, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, tuple[int, str]]:
        """Offset and note of each partition that the group has committed."""
        return run(committed_offsets(self._cluster, group, partitions))

    def commit(self, group: str, offsets: Offsets, note: str) -> None:
        run(commit_offsets(self._cluster, group, offsets, note))


async def commit_offsets(cluster: ClusterClient, group: str, offsets: Offsets, note: str) -> None:
    """Commits without being a member, which Kafka allows while the group has no members."""

    async def attempt() -> None:
        connection = await cluster.coordinator(group)
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for at, offset in sorted(offsets.items()):
            topics.setdefault(at.topic, []).append(
                OffsetCommitRequestPartition(
                    partition_index=at.partition,
                    committed_offset=offset,
                    committed_metadata=note,
                )
            )
        response = await connection.call(
            OffsetCommitRequest(
                group_id=group,
                member_id="",
                topics=[
                    OffsetCommitRequestTopic(name=name, topic_id=NO_TOPIC_ID, partitions=partitions)
                    for name, partitions in topics.items()
                ],
            ),
            OffsetCommitResponse,
            timeout_ms=cluster.timeout_ms,
            version_max=_COMMIT_BY_NAME_MAX,
        )
        for topic in response.topics:
            for partition in topic.partitions:
                check(partition.error_code, about=f"group {group!r}, {topic.name}")

    try:
        await cluster.retrying(attempt)
    except KafkaError as problem:
        if problem.code in (Code.UNKNOWN_MEMBER_ID, Code.ILLEGAL_GENERATION):
            raise InvalidRequest(
                problem.code,
                f"group {group!r} has consumers of its own: give this query another group.id",
            ) from None
        raise


async def committed_offsets(
    cluster: ClusterClient, group: str, partitions: list[TopicPartition]
) -> dict[TopicPartition, tuple[int, str]]:
    topics: dict[str, list[int]] = {}
    for at in sorted(partitions):
        topics.setdefault(at.topic, []).append(at.partition)

    async def attempt() -> dict[TopicPartition, tuple[int, str]]:
        connection = await cluster.coordinator(group)
        response = await connection.call(
            OffsetFetchRequest(
                group_id=group,
                require_stable=True,
                topics=[
                    OffsetFetchRequestTopic(name=name, partition_indexes=numbers)
                    for name, numbers in topics.items()
                ],
            ),
            OffsetFetchResponse,
            timeout_ms=cluster.timeout_ms,
            version_max=_FETCH_ONE_GROUP_MAX,
        )
        check(response.error_code, about=f"group {group!r}")
        found = {}
        for topic in response.topics:
            for partition in topic.partitions:
                check(partition.error_code, about=f"group {group!r}, {topic.name}")
                if partition.committed_offset >= 0:
                    at = TopicPartition(topic.name, partition.partition_index)
                    found[at] = (partition.committed_offset, partition.metadata or "")
        return found

    return await cluster.retrying(attempt)

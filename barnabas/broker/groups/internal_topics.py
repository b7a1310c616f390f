"""Creates the internal topics of streams groups: changelogs and repartition topics.

In: a heartbeat's response that says that internal topics are missing. Out: topics, or in the
response why there are none.
Always: a topic is created in the name of the member whose heartbeat needs it, which must have the
right to create it; one request at a time creates it, and after a failure none for two heartbeats.
Not here: which topics a group needs (coordinators/groups/streams/topics.py).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.broker.groups.coordination import coordination
from barnabas.coordinators.groups.streams.topics import InternalTopic, StreamsStatus, summary
from barnabas.model.errors import Code, KafkaError
from barnabas.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from barnabas.wire.messages.streams_group_heartbeat import Status, StreamsGroupHeartbeatResponse

if TYPE_CHECKING:
    from barnabas.broker.context import GroupsContext
    from barnabas.broker.net.dispatch import Call

CREATE_VERSION = 7
TIMEOUT_MS = 30_000
FAILURES_MAX = 1_000
DETAIL_CHARS_MAX = 300


class InternalTopicCreation:
    """One broker's: topics that are being created, and those that could not be."""

    def __init__(self) -> None:
        self.under_way: set[str] = set()
        self._failures: dict[str, tuple[int, str]] = {}  # until when, and why

    def failed(self, name: str, why: str, until_ms: int) -> None:
        if len(self._failures) >= FAILURES_MAX:
            del self._failures[next(iter(self._failures))]
        self._failures[name] = until_ms, why[:DETAIL_CHARS_MAX]

    def failure(self, name: str, now_ms: int) -> str | None:
        """Why the topic was not created, and will not be for a while."""
        found = self._failures.get(name)
        if found is None:
            return None
        if found[0] <= now_ms:
            del self._failures[name]
            return None
        return found[1]


def create_missing(
    broker: "GroupsContext", group_id: str, response: StreamsGroupHeartbeatResponse, call: "Call"
) -> StreamsGroupHeartbeatResponse:
    """Begin to create what the group lacks; the next heartbeats find it."""
    groups = coordination(broker)
    try:
        group = groups.shard_of(group_id).group(group_id)
    except KafkaError:
        return response
    if group is None or group.type != "streams" or group.configured is None:
        return response
    missing = group.configured.missing
    if not missing:
        return response
    may_create = call.may_create
    if may_create is not None:
        denied = [topic.name for topic in missing if not may_create(topic.name)]
        if denied:
            return _explained(response, f"the client may not create {summary(denied)}")
    creation = groups.internal_topics
    if creation is None:
        creation = groups.internal_topics = InternalTopicCreation()
    now_ms = groups.now().ms
    failures = {
        topic.name: why
        for topic in missing
        if (why := creation.failure(topic.name, now_ms)) is not None
    }
    wanted = [
        topic
        for topic in missing
        if topic.name not in failures and topic.name not in creation.under_way
    ]
    if wanted:
        creation.under_way.update(topic.name for topic in wanted)
        wait_ms = 2 * group.limits.streams_heartbeat_interval_ms
        groups.start(_create(broker, creation, wanted, wait_ms))
    if failures:
        listed = [f"{name} ({why})" for name, why in failures.items()]
        return _explained(response, f"not created: {summary(listed)}")
    return response


async def _create(
    broker: "GroupsContext",
    creation: InternalTopicCreation,
    topics: Sequence[InternalTopic],
    wait_ms: int,
) -> None:
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=topic.name,
                num_partitions=topic.partitions,
                replication_factor=topic.replication_factor or -1,
                assignments=[],
                configs=[
                    CreatableTopicConfig(name=name, value=value)
                    for name, value in topic.settings.items()
                ],
            )
            for topic in topics
        ],
        timeout_ms=TIMEOUT_MS,
    )
    failures: dict[str, str] = {}
    try:
        failures = await _ask(broker, request)
    except KafkaError as error:
        failures = dict.fromkeys((topic.name for topic in topics), error.detail)
    finally:
        creation.under_way.difference_update(topic.name for topic in topics)
    until_ms = coordination(broker).now().ms + wait_ms
    for name, why in failures.items():
        creation.failed(name, why, until_ms)
        broker.log.warning("internal topic not created", topic=name, reason=why)


async def _ask(broker: "GroupsContext", request: CreateTopicsRequest) -> dict[str, str]:
    """By topic: why it was not created."""
    if broker.cluster is None:
        answer = await broker.dispatcher.answer(request, CREATE_VERSION)
    else:
        answer = await broker.cluster.forwarding.ask(request, TIMEOUT_MS, CREATE_VERSION)
    assert isinstance(answer, CreateTopicsResponse)
    return {
        each.name or "": each.error_message or Code.of(each.error_code).text
        for each in answer.topics
        if each.error_code not in (Code.NONE, Code.TOPIC_ALREADY_EXISTS)
    }


def _explained(response: StreamsGroupHeartbeatResponse, why: str) -> StreamsGroupHeartbeatResponse:
    """The status that says what is missing also says why."""
    statuses = response.status or []
    for index, each in enumerate(statuses):
        if each.status_code == StreamsStatus.MISSING_INTERNAL_TOPICS:
            detail = f"{each.status_detail}; {why}"
            statuses[index] = Status(status_code=each.status_code, status_detail=detail)
    return response

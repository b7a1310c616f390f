"""How many partitions a client may create and delete (`controller_mutation_rate`, KIP-599).

In: CreateTopics, DeleteTopics and CreatePartitions. Out: the same without the topics that the
client must wait for; these are answered with THROTTLING_QUOTA_EXCEEDED. In versions that do not
know this error, all are done, and the client waits afterwards.
Always: counted where the client is connected, after the check of its rights and before the request
is forwarded to the controller.
"""

from typing import TYPE_CHECKING, Any

from barnabas.broker.authorization.answers import Handle, after, changed
from barnabas.broker.net.dispatch import Call
from barnabas.broker.security.limited_requests import is_of_broker
from barnabas.model.errors import Code
from barnabas.security.quotas.quota_limits import INT_MAX, QuotaKind

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker
    from barnabas.broker.security.quotas import ClientQuotas, ClientUsage

CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS = 19, 20, 37
STRICT_SINCE = {CREATE_TOPICS: 6, DELETE_TOPICS: 5, CREATE_PARTITIONS: 3}
DELETE_STATES_SINCE = 6  # topics by name or id, in another field


def limited_mutations(quotas: "ClientQuotas", key: int, handle: Handle) -> Handle:
    """The handler of one of these APIs, limited."""
    strict_since = STRICT_SINCE[key]

    def limited(broker: "Broker", request: Any, call: Call) -> Any:
        if is_of_broker(broker, call):
            return handle(broker, request, call)
        usage = quotas.usage(QuotaKind.MUTATION, call.connection.principal.name, call.client_id)
        if usage is None:
            return handle(broker, request, call)
        return _Mutations(broker, quotas, usage, key, call.version >= strict_since).handle(
            handle, request, call
        )

    return limited


class _Mutations:
    """One request."""

    def __init__(
        self, broker: "Broker", quotas: "ClientQuotas", usage: "ClientUsage", key: int, strict: bool
    ) -> None:
        self._broker = broker
        self._quotas = quotas
        self._usage = usage
        self._key = key
        self._strict = strict
        self._wait_ms = 0

    def handle(self, handle: Handle, request: Any, call: Call) -> Any:
        field = "topics"
        if self._key == DELETE_TOPICS and call.version < DELETE_STATES_SINCE:
            field = "topic_names"
        allowed: list[Any] = []
        refused: list[Any] = []
        for topic in getattr(request, field):
            (allowed if self._admits(self._partitions(topic)) else refused).append(topic)
        if self._wait_ms:
            self._quotas.throttled(QuotaKind.MUTATION, self._usage.limit, call, self._wait_ms)
        if refused:
            request = changed(request, **{field: allowed})
        return after(
            handle(self._broker, request, call), lambda done: self._finished(done, refused)
        )

    def _admits(self, partitions: int) -> bool:
        bucket, limit = self._usage.bucket, self._usage.limit.value
        now_ms = self._quotas.now_ms()
        if not partitions:
            return True
        if self._strict:
            wait_ms = bucket.wait_ms(limit, now_ms)
            if wait_ms:
                self._wait_ms = min(wait_ms, INT_MAX)
                return False
        bucket.take(partitions, limit, now_ms)
        if not self._strict:
            self._wait_ms = min(bucket.wait_ms(limit, now_ms), INT_MAX)
        return True

    def _partitions(self, topic: Any) -> int:
        """How many of them are created or deleted; 0 for what the handler refuses."""
        topics = self._broker.topics
        if self._key == CREATE_TOPICS:
            if topics.get(topic.name) is not None:
                return 0
            if topic.assignments:
                return len(topic.assignments)
            wanted: int = topic.num_partitions
            return self._broker.config.num_partitions if wanted == -1 else max(0, wanted)
        if self._key == CREATE_PARTITIONS:
            found = topics.get(topic.name)
            return 0 if found is None else max(0, topic.count - len(found.partitions))
        if isinstance(topic, str):
            found = topics.get(topic)
        else:
            found = topics.get(topic.name) if topic.name else topics.by_id(topic.topic_id)
        return 0 if found is None else len(found.partitions)

    def _finished(self, response: Any, refused: list[Any]) -> Any:
        field = "results" if self._key == CREATE_PARTITIONS else None
        field = field or ("responses" if self._key == DELETE_TOPICS else "topics")
        results = [*getattr(response, field), *(self._refusal(topic) for topic in refused)]
        return changed(response, throttle_time_ms=self._wait_ms, **{field: results})

    def _refusal(self, topic: Any) -> Any:
        code = Code.THROTTLING_QUOTA_EXCEEDED
        limit = self._usage.limit
        problem = (
            f"the quota controller_mutation_rate={limit.value:g} of {limit.source} is used up:"
            f" try again in {self._wait_ms} ms"
        )
        if self._key == CREATE_TOPICS:
            from barnabas.wire.messages.create_topics import CreatableTopicResult

            return CreatableTopicResult(name=topic.name, error_code=code, error_message=problem)
        if self._key == CREATE_PARTITIONS:
            from barnabas.wire.messages.create_partitions import CreatePartitionsTopicResult

            return CreatePartitionsTopicResult(
                name=topic.name, error_code=code, error_message=problem
            )
        from barnabas.wire.messages.delete_topics import DeletableTopicResult

        if isinstance(topic, str):
            return DeletableTopicResult(name=topic, error_code=code, error_message=problem)
        return DeletableTopicResult(
            name=topic.name, topic_id=topic.topic_id, error_code=code, error_message=problem
        )

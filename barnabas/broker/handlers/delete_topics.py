"""DeleteTopics: by name, or by id."""

from collections import Counter
from typing import TYPE_CHECKING
from uuid import UUID

from barnabas.broker.net.dispatch import Call
from barnabas.model.errors import Code, InvalidRequest, KafkaError
from barnabas.model.ids import NO_TOPIC_ID
from barnabas.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker
    from barnabas.broker.topic import Topic

IDS_SINCE = 6
DISABLED_SINCE = 3


async def handle(
    broker: "Broker", request: DeleteTopicsRequest, call: Call
) -> DeleteTopicsResponse:
    if call.version >= IDS_SINCE:
        asked = request.topics
    else:
        asked = [DeleteTopicState(name=name, topic_id=NO_TOPIC_ID) for name in request.topic_names]
    counts = Counter((each.name, each.topic_id) for each in asked)
    topics = {key: _find(broker, *key) for key in counts}
    to_delete = Counter(topic.id for topic in topics.values() if topic is not None)
    responses = []
    for (name, id_), count in counts.items():
        topic = topics[name, id_]
        try:
            _check(broker, name, id_, call)
            if count > 1:
                raise _invalid("the topic is in the request more than once")
            if topic is None:
                raise _unknown(name, id_)
            if to_delete[topic.id] > 1:
                raise _invalid("the topic is in the request both by name and by id")
            await broker.catalog.delete_topic(topic)
        except KafkaError as error:
            responses.append(
                DeletableTopicResult(
                    name=name, topic_id=id_, error_code=error.code, error_message=error.detail
                )
            )
            continue
        responses.append(DeletableTopicResult(name=topic.name, topic_id=topic.id, error_code=0))
    return DeleteTopicsResponse(responses=responses)


def _find(broker: "Broker", name: str | None, id_: UUID) -> "Topic | None":
    if name is None:
        return broker.topics.by_id(id_)
    return broker.topics.get(name) if id_ == NO_TOPIC_ID else None


def _check(broker: "Broker", name: str | None, id_: UUID, call: Call) -> None:
    if not broker.config.delete_topic_enable:
        old = call.version < DISABLED_SINCE
        raise InvalidRequest(
            Code.INVALID_REQUEST if old else Code.TOPIC_DELETION_DISABLED,
            "topics cannot be deleted: delete.topic.enable is false on this broker",
        )
    if name is None and id_ == NO_TOPIC_ID:
        raise _invalid("the topic has neither a name nor an id")
    if name is not None and id_ != NO_TOPIC_ID:
        raise _invalid("the topic has both a name and an id: use one")


def _unknown(name: str | None, id_: UUID) -> KafkaError:
    if name is None:
        return InvalidRequest(Code.UNKNOWN_TOPIC_ID, f"there is no topic with id {id_}")
    return InvalidRequest(Code.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name[:300]!r}")


def _invalid(detail: str) -> KafkaError:
    return InvalidRequest(Code.INVALID_REQUEST, detail)

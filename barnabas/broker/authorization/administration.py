"""Topics created, deleted, extended; settings described and changed."""

from collections.abc import Callable
from random import shuffle
from typing import TYPE_CHECKING, Any

from barnabas.broker.authorization.answers import Handle, after, changed
from barnabas.broker.authorization.requester import Requester
from barnabas.broker.net.dispatch import Call
from barnabas.broker.requests.config_resources import ResourceType
from barnabas.model.errors import Code
from barnabas.model.ids import NO_TOPIC_ID
from barnabas.security.acl.rules import AclOperation
from barnabas.wire.apis import APIS
from barnabas.wire.messages import (
    alter_configs,
    create_partitions,
    create_topics,
    delete_topics,
    describe_configs,
    incremental_alter_configs,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

DENIED = Code.TOPIC_AUTHORIZATION_FAILED
DELETE_IDS_SINCE = 6
DEAD_LETTER_TOPIC = "errors.deadletterqueue.topic.name"


def create_topics_check(
    handle: Handle,
    broker: "Broker",
    request: create_topics.CreateTopicsRequest,
    call: Call,
    caller: Requester,
) -> Any:
    """CREATE on the cluster or on the topic. Its settings are shown with DESCRIBE_CONFIGS only."""
    everywhere = caller.cluster(AclOperation.CREATE, quiet=True)
    allowed, refusals = [], {}
    for topic in request.topics:
        if everywhere or caller.topic(AclOperation.CREATE, topic.name):
            allowed.append(topic)
        else:
            refusals[topic.name] = create_topics.CreatableTopicResult(
                name=topic.name, error_code=DENIED, error_message=DENIED.text, configs=[]
            )

    def finish(response: create_topics.CreateTopicsResponse) -> create_topics.CreateTopicsResponse:
        results = [
            result
            if result.error_code
            or caller.topic(AclOperation.DESCRIBE_CONFIGS, result.name, quiet=True)
            else changed(
                result,
                topic_config_error_code=DENIED,
                num_partitions=-1,
                replication_factor=-1,
                configs=[],
            )
            for result in response.topics
        ]
        return changed(response, topics=results + list(refusals.values()))

    if not allowed:
        return finish(create_topics.CreateTopicsResponse(topics=[]))
    return after(handle(broker, changed(request, topics=allowed), call), finish)


def create_partitions_check(
    handle: Handle,
    broker: "Broker",
    request: create_partitions.CreatePartitionsRequest,
    call: Call,
    caller: Requester,
) -> Any:
    allowed, refusals = [], {}
    for topic in request.topics:
        if caller.topic(AclOperation.ALTER, topic.name):
            allowed.append(topic)
        else:
            refusals[topic.name] = create_partitions.CreatePartitionsTopicResult(
                name=topic.name, error_code=DENIED, error_message=DENIED.text
            )
    if not refusals:
        return handle(broker, request, call)
    if not allowed:
        return create_partitions.CreatePartitionsResponse(results=list(refusals.values()))
    return after(
        handle(broker, changed(request, topics=allowed), call),
        lambda response: changed(response, results=response.results + list(refusals.values())),
    )


def delete_topics_check(
    handle: Handle,
    broker: "Broker",
    request: delete_topics.DeleteTopicsRequest,
    call: Call,
    caller: Requester,
) -> Any:
    """DELETE on the topic, or on the cluster. A topic that may not be described is denied whether
    it exists or not; the order of the answers does not reveal it either."""
    if caller.cluster(AclOperation.DELETE, quiet=True):
        return handle(broker, request, call)
    by_id = call.version >= DELETE_IDS_SINCE
    asked = request.topics
    if not by_id:
        asked = [
            delete_topics.DeleteTopicState(name=name, topic_id=NO_TOPIC_ID)
            for name in request.topic_names
        ]
    allowed: list[delete_topics.DeleteTopicState] = []
    refusals: dict[Any, delete_topics.DeletableTopicResult] = {}
    for topic in asked:
        name = topic.name
        if name is None:
            known = broker.topics.by_id(topic.topic_id)
            if known is None:
                refusals[None, topic.topic_id] = _unknown(topic)
                continue
            name = known.name
        may_describe = caller.topic(AclOperation.DESCRIBE, name, quiet=True)
        exists = broker.topics.get(name) is not None
        may_delete = caller.topic(
            AclOperation.DELETE,
            name,
            quiet=may_describe and not exists,
            named=topic.name is not None,
        )
        if may_describe and may_delete:
            allowed.append(topic)
        elif may_describe and not exists:
            refusals[name, topic.topic_id] = _unknown(topic)
        else:
            shown = name if may_describe or topic.name is not None else None
            refusals[name, topic.topic_id] = delete_topics.DeletableTopicResult(
                name=shown, topic_id=topic.topic_id, error_code=DENIED, error_message=DENIED.text
            )

    def finish(response: delete_topics.DeleteTopicsResponse) -> delete_topics.DeleteTopicsResponse:
        responses = response.responses + list(refusals.values())
        shuffle(responses)
        return changed(response, responses=responses)

    if not allowed:
        return finish(delete_topics.DeleteTopicsResponse(responses=[]))
    if by_id:
        rest = changed(request, topics=allowed)
    else:
        rest = changed(request, topic_names=[each.name or "" for each in allowed])
    return after(handle(broker, rest, call), finish)


def _unknown(topic: delete_topics.DeleteTopicState) -> delete_topics.DeletableTopicResult:
    """Unknown to this broker. The controller may know it already, but not who asks."""
    code = Code.UNKNOWN_TOPIC_ID
    if topic.name is not None:
        code = Code.UNKNOWN_TOPIC_OR_PARTITION
    elif topic.topic_id == NO_TOPIC_ID:
        code = Code.INVALID_REQUEST
    return delete_topics.DeletableTopicResult(
        name=topic.name, topic_id=topic.topic_id, error_code=code, error_message=code.text
    )


def _config_refusal(caller: Requester, operation: AclOperation, type_: int, name: str) -> Code:
    if type_ == ResourceType.TOPIC:
        return Code.NONE if caller.topic(operation, name) else DENIED
    if type_ == ResourceType.GROUP:
        allowed = caller.group(operation, name)
        return Code.NONE if allowed else Code.GROUP_AUTHORIZATION_FAILED
    if type_ == ResourceType.BROKER_LOGGER and operation is AclOperation.ALTER_CONFIGS:
        operation = AclOperation.CLUSTER_ACTION
    # Also for types that the handler refuses: without a right, a client learns nothing.
    allowed = caller.cluster(operation)
    return Code.NONE if allowed else Code.CLUSTER_AUTHORIZATION_FAILED


def _dead_letter_refusal(caller: Requester, configs: list[Any]) -> Code:
    """The brokers write the dead letters of a share group: its administrator must have the right
    to write to that topic."""
    for config in configs:
        topic = (config.value or "").strip() if config.name == DEAD_LETTER_TOPIC else ""
        if topic and not caller.topic(AclOperation.WRITE, topic):
            return DENIED
    return Code.NONE


def _sorted_out(
    caller: Requester,
    operation: AclOperation,
    request: Any,
    refusal: Callable[..., Any],
    **more: Any,
) -> tuple[list[Any], list[Any]]:
    """The resources that the caller may use, and the answers about the others."""
    allowed, refusals = [], []
    for resource in request.resources:
        type_, name = resource.resource_type, resource.resource_name
        code = _config_refusal(caller, operation, type_, name)
        if not code and type_ == ResourceType.GROUP and operation is AclOperation.ALTER_CONFIGS:
            code = _dead_letter_refusal(caller, resource.configs)
        if not code:
            allowed.append(resource)
            continue
        refusals.append(
            refusal(
                error_code=code,
                error_message=code.text,
                resource_type=type_,
                resource_name=name,
                **more,
            )
        )
    return allowed, refusals


def describe_configs_check(
    handle: Handle,
    broker: "Broker",
    request: describe_configs.DescribeConfigsRequest,
    call: Call,
    caller: Requester,
) -> Any:
    refusal = describe_configs.DescribeConfigsResult
    operation = AclOperation.DESCRIBE_CONFIGS
    allowed, refusals = _sorted_out(caller, operation, request, refusal, configs=[])
    if not refusals:
        return handle(broker, request, call)
    return after(
        handle(broker, changed(request, resources=allowed), call),
        lambda response: changed(response, results=response.results + refusals),
    )


def alter_configs_check(
    handle: Handle,
    broker: "Broker",
    request: alter_configs.AlterConfigsRequest
    | incremental_alter_configs.IncrementalAlterConfigsRequest,
    call: Call,
    caller: Requester,
) -> Any:
    messages = alter_configs if request.api_key == _ALTER_CONFIGS else incremental_alter_configs
    refusal = messages.AlterConfigsResourceResponse
    allowed, refusals = _sorted_out(caller, AclOperation.ALTER_CONFIGS, request, refusal)
    if not refusals:
        return handle(broker, request, call)
    if not allowed:
        return APIS[request.api_key].response(responses=refusals)  # type: ignore[call-arg]
    return after(
        handle(broker, changed(request, resources=allowed), call),
        lambda response: changed(response, responses=response.responses + refusals),
    )


_ALTER_CONFIGS = 33

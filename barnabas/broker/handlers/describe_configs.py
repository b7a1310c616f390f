"""DescribeConfigs: every option of a topic or broker, with its value and where that is set."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from barnabas.broker.dispatch import Call
from barnabas.broker.resources import Kind, existing_topic, not_configurable, which_broker
from barnabas.config.describe import Described, describe_broker, describe_topic
from barnabas.config.resolve import Layers, Source
from barnabas.model.errors import KafkaError
from barnabas.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker


def handle(
    broker: "Broker", request: DescribeConfigsRequest, call: Call
) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[_result(broker, asked, request) for asked in request.resources]
    )


def _result(
    broker: "Broker", asked: DescribeConfigsResource, request: DescribeConfigsRequest
) -> DescribeConfigsResult:
    try:
        options = _options(broker, asked)
    except KafkaError as error:
        return DescribeConfigsResult(
            error_code=error.code,
            error_message=error.detail,
            resource_type=asked.resource_type,
            resource_name=asked.resource_name,
            configs=[],
        )
    keys = set(asked.configuration_keys or ())  # none named: all
    return DescribeConfigsResult(
        error_code=0,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
        configs=[_config(option, request) for option in options if not keys or option.name in keys],
    )


def _options(broker: "Broker", asked: DescribeConfigsResource) -> Iterable[Described]:
    if asked.resource_type == Kind.TOPIC:
        topic = existing_topic(broker, asked.resource_name)
        return describe_topic(topic.overrides, broker.layers)
    if asked.resource_type != Kind.BROKER:
        raise not_configurable(asked.resource_type)
    if which_broker(broker, asked.resource_name) is None:
        return _defaults_of_all(broker)
    return describe_broker(broker.layers)


def _defaults_of_all(broker: "Broker") -> Iterator[Described]:
    """What was set for all brokers by request, and nothing else."""
    settings = broker.catalog.dynamic.get(None, {})
    for option in describe_broker(Layers(dynamic_default=settings)):
        if option.name in settings:
            own = [s for s in option.synonyms if s.source is Source.DYNAMIC_DEFAULT_BROKER]
            yield option._replace(synonyms=own)


def _config(option: Described, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=option.name,
        value=None if option.sensitive else option.text,
        read_only=option.read_only,
        config_source=option.source,
        is_sensitive=option.sensitive,
        synonyms=[
            DescribeConfigsSynonym(
                name=setting.name,
                value=None if option.sensitive else setting.text,
                source=setting.source,
            )
            for setting in option.synonyms
        ]
        if request.include_synonyms
        else [],
        config_type=option.type,
        documentation=option.doc if request.include_documentation else None,
    )

"""DescribeConfigs: every option of a topic, broker or group, its value and where that is set."""

import asyncio
from collections.abc import Coroutine, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from barnabas.broker.net.dispatch import Call
from barnabas.broker.requests.config_resources import (
    ENTITIES,
    ResourceType,
    entity_settings,
    existing_topic,
    not_configurable,
    values_in_force,
    which_broker,
)
from barnabas.config.describe import (
    Described,
    describe_broker,
    describe_client_metrics,
    describe_group,
    describe_topic,
)
from barnabas.config.resolve import ConfigSource, Layers
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
    from barnabas.broker.catalog_interface import AnyCatalog

AT_ONCE = 20


def handle(
    broker: "Broker", request: DescribeConfigsRequest, call: Call
) -> DescribeConfigsResponse | Coroutine[Any, Any, DescribeConfigsResponse]:
    # Each once: a small request that repeats a resource would cause a very large response.
    asked = list(
        {(each.resource_type, each.resource_name): each for each in request.resources}.values()
    )
    if len(asked) > AT_ONCE:
        return _describe_many(broker, request, asked)
    return DescribeConfigsResponse(results=[_result(broker, each, request) for each in asked])


async def _describe_many(
    broker: "Broker", request: DescribeConfigsRequest, asked: list[DescribeConfigsResource]
) -> DescribeConfigsResponse:
    """Hundreds of topics with dozens of options each take a while: let other tasks run."""
    results = []
    for start in range(0, len(asked), AT_ONCE):
        results += [_result(broker, each, request) for each in asked[start : start + AT_ONCE]]
        await asyncio.sleep(0)
    return DescribeConfigsResponse(results=results)


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
    if asked.resource_type == ResourceType.TOPIC:
        topic = existing_topic(broker.topics, asked.resource_name)
        return describe_topic(topic.overrides, broker.layers)
    if asked.resource_type in ENTITIES:
        settings = entity_settings(broker.catalog, asked.resource_type, asked.resource_name)
        if asked.resource_type == ResourceType.GROUP:
            return describe_group(settings, broker.layers)
        return describe_client_metrics(settings)
    if asked.resource_type != ResourceType.BROKER:
        raise not_configurable(asked.resource_type)
    if which_broker(broker.id, asked.resource_name) is None:
        return _defaults_of_all(broker.catalog)
    return describe_broker(broker.layers, values_in_force(broker))


def _defaults_of_all(catalog: "AnyCatalog") -> Iterator[Described]:
    """The options that were set for all brokers by requests, and nothing else."""
    settings = catalog.dynamic.get(None, {})
    for option in describe_broker(Layers(dynamic_default=settings)):
        if option.name in settings:
            own = [s for s in option.synonyms if s.source is ConfigSource.DYNAMIC_DEFAULT_BROKER]
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

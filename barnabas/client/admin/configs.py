"""Configuration of topics, groups and brokers: describe and change options.

Always: errors raise, and name the topic, group or broker they are about.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from barnabas.client.cluster import ClusterClient
from barnabas.client.errors import check, error_of
from barnabas.model.errors import KafkaError
from barnabas.wire.messages import describe_configs, incremental_alter_configs

_TOPIC_RESOURCE = 2
_BROKER_RESOURCE = 4
_GROUP_RESOURCE = 32
_KINDS = {_TOPIC_RESOURCE: "topic", _BROKER_RESOURCE: "broker", _GROUP_RESOURCE: "group"}
_SET, _DELETE = 0, 1
_TOPICS_PER_REQUEST = 500


class DescribedOption(NamedTuple):
    """An option of a topic or broker, as the broker describes it."""

    name: str
    value: str | None
    source: int
    read_only: bool
    sensitive: bool
    documentation: str | None


class OptionsAdmin:
    """Describes and changes options."""

    _cluster: ClusterClient

    async def topic_options(
        self, name: str, *, documentation: bool = False
    ) -> list[DescribedOption]:
        return await self._describe(_TOPIC_RESOURCE, name, documentation=documentation)

    async def topics_options(
        self, names: Sequence[str], options: Sequence[str]
    ) -> dict[str, dict[str, str] | KafkaError]:
        """The values of some options of many topics; for a topic that cannot be described, the
        error.
        """
        found: dict[str, dict[str, str] | KafkaError] = {}
        for begin in range(0, len(names), _TOPICS_PER_REQUEST):
            request = describe_configs.DescribeConfigsRequest(
                resources=[
                    describe_configs.DescribeConfigsResource(
                        resource_type=_TOPIC_RESOURCE,
                        resource_name=name,
                        configuration_keys=list(options),
                    )
                    for name in names[begin : begin + _TOPICS_PER_REQUEST]
                ],
            )
            for result in (await self._described(request)).results:
                name = result.resource_name
                if result.error_code:
                    about = f"topic {name!r}"
                    found[name] = error_of(result.error_code, result.error_message, about=about)
                else:
                    found[name] = {each.name: each.value or "" for each in result.configs}
        return found

    async def _described(
        self, request: describe_configs.DescribeConfigsRequest
    ) -> describe_configs.DescribeConfigsResponse:
        async def attempt() -> describe_configs.DescribeConfigsResponse:
            connection = await self._cluster.anyone()
            return await connection.call(
                request,
                describe_configs.DescribeConfigsResponse,
                timeout_ms=self._cluster.timeout_ms,
            )

        return await self._cluster.retrying(attempt)

    async def broker_options(self, broker: int) -> list[DescribedOption]:
        return await self._describe(_BROKER_RESOURCE, str(broker))

    async def group_options(self, group: str) -> list[DescribedOption]:
        """Of a group that the coordinator manages: a share group, or group.protocol=consumer."""
        return await self._describe(_GROUP_RESOURCE, group)

    async def _describe(
        self, resource_type: int, name: str, *, documentation: bool = False
    ) -> list[DescribedOption]:
        request = describe_configs.DescribeConfigsRequest(
            resources=[
                describe_configs.DescribeConfigsResource(
                    resource_type=resource_type, resource_name=name, configuration_keys=None
                )
            ],
            include_documentation=documentation,
        )

        async def attempt() -> list[DescribedOption]:
            if resource_type == _BROKER_RESOURCE:
                connection = await self._cluster.broker(int(name))
            else:
                connection = await self._cluster.anyone()
            response = await connection.call(
                request,
                describe_configs.DescribeConfigsResponse,
                timeout_ms=self._cluster.timeout_ms,
            )
            found = []
            for result in response.results:
                check(result.error_code, result.error_message, about=repr(name))
                found += [
                    DescribedOption(
                        option.name,
                        option.value,
                        option.config_source,
                        option.read_only,
                        option.is_sensitive,
                        option.documentation,
                    )
                    for option in result.configs
                ]
            return sorted(found)

        return await self._cluster.retrying(attempt)

    async def alter_topic(
        self, name: str, *, put: Mapping[str, str] | None = None, reset: Iterable[str] = ()
    ) -> None:
        """Set options of a topic, and reset others to their defaults."""
        await self._alter(_TOPIC_RESOURCE, name, put, reset)

    async def alter_group(
        self, group: str, *, put: Mapping[str, str] | None = None, reset: Iterable[str] = ()
    ) -> None:
        """Set options of a group, which may not exist yet, and reset others to their defaults."""
        await self._alter(_GROUP_RESOURCE, group, put, reset)

    async def alter_broker(
        self,
        broker: int | None,
        *,
        put: Mapping[str, str] | None = None,
        reset: Iterable[str] = (),
    ) -> None:
        """Set and reset options of a broker; None: of all brokers."""
        name = "" if broker is None else str(broker)
        await self._alter(_BROKER_RESOURCE, name, put, reset)

    async def _alter(
        self,
        resource_type: int,
        name: str,
        put: Mapping[str, str] | None,
        reset: Iterable[str],
    ) -> None:
        changes = [(option, _SET, value) for option, value in (put or {}).items()]
        reset_changes = [(option, _DELETE, None) for option in reset]
        request = incremental_alter_configs.IncrementalAlterConfigsRequest(
            resources=[
                incremental_alter_configs.AlterConfigsResource(
                    resource_type=resource_type,
                    resource_name=name,
                    configs=[
                        incremental_alter_configs.AlterableConfig(
                            name=option, config_operation=operation, value=value
                        )
                        for option, operation, value in [*changes, *reset_changes]
                    ],
                )
            ],
            validate_only=False,
        )

        async def attempt() -> None:
            # Only the broker itself knows its own options.
            own = resource_type == _BROKER_RESOURCE and name
            if own:
                connection = await self._cluster.broker(int(name))
            else:
                connection = await self._cluster.controller()
            response = await connection.call(
                request,
                incremental_alter_configs.IncrementalAlterConfigsResponse,
                timeout_ms=self._cluster.timeout_ms,
            )
            for result in response.responses:
                about = f"{_KINDS[resource_type]} {result.resource_name!r}"
                check(result.error_code, result.error_message, about=about)

        await self._cluster.retrying(attempt)

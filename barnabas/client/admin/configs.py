"""Options of topics and brokers, as the brokers describe and change them.

Always: errors raise, and name the topic or broker they are about.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from barnabas.client.cluster import ClusterClient
from barnabas.client.errors import check
from barnabas.wire.messages import describe_configs, incremental_alter_configs

_TOPIC_RESOURCE = 2
_BROKER_RESOURCE = 4
_SET, _DELETE = 0, 1


class DescribedOption(NamedTuple):
    """An option of a topic or broker, as the broker describes it."""

    name: str
    value: str | None
    source: int
    read_only: bool
    sensitive: bool
    documentation: str | None


class OptionsAdmin:
    """Looks at options, and sets them."""

    _cluster: ClusterClient

    async def topic_options(self, name: str) -> list[DescribedOption]:
        return await self._describe(_TOPIC_RESOURCE, name)

    async def broker_options(self, broker: int) -> list[DescribedOption]:
        return await self._describe(_BROKER_RESOURCE, str(broker))

    async def _describe(self, resource_type: int, name: str) -> list[DescribedOption]:
        request = describe_configs.DescribeConfigsRequest(
            resources=[
                describe_configs.DescribeConfigsResource(
                    resource_type=resource_type, resource_name=name, configuration_keys=None
                )
            ],
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
        """Set some options of a topic, and take others back to their defaults."""
        await self._alter(_TOPIC_RESOURCE, name, put, reset)

    async def alter_broker(
        self,
        broker: int | None,
        *,
        put: Mapping[str, str] | None = None,
        reset: Iterable[str] = (),
    ) -> None:
        """The same of a broker's options; None: of all brokers."""
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
            # A broker's own options are its own affair.
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
                kind = "topic" if resource_type == _TOPIC_RESOURCE else "broker"
                about = f"{kind} {result.resource_name!r}"
                check(result.error_code, result.error_message, about=about)

        await self._cluster.retrying(attempt)

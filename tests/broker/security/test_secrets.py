"""Secrets of a broker are in no answer, no log line and no error."""

from pathlib import Path

import pytest

from barnabas.config.alter import check_static
from barnabas.model.errors import KafkaError
from barnabas.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from barnabas.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.broker.running import running_broker
from tests.broker.security.logging_in import PASSWORD, SETTINGS, log_in

BROKER = 4


async def test_describe_configs_hides_secrets(tmp_path: Path) -> None:
    async with running_broker(tmp_path, SETTINGS) as run:
        await log_in(run, run.wire, "PLAIN")
        answer = await run.ask(
            DescribeConfigsRequest(
                resources=[
                    DescribeConfigsResource(
                        resource_type=BROKER, resource_name="1", configuration_keys=None
                    )
                ],
                include_synonyms=True,
                include_documentation=True,
            ),
            DescribeConfigsResponse,
        )
        (result,) = answer.results
        assert result.error_code == 0
        found = {each.name: each for each in result.configs}
        jaas = found["listener.name.sasl_plaintext.plain.sasl.jaas.config"]
        assert jaas.value is None
        assert jaas.is_sensitive
        assert PASSWORD not in str(answer)


@pytest.mark.parametrize(
    "name",
    ["sasl.enabled.mechanisms", "sasl.jaas.config", "sasl.oauthbearer.jwks.endpoint.url",
     "connections.max.reauth.ms", "listener.name.sasl_plaintext.plain.sasl.jaas.config"],
)  # fmt: skip
async def test_options_about_logins_cannot_be_changed_by_a_request(
    tmp_path: Path, name: str
) -> None:
    async with running_broker(tmp_path, SETTINGS) as run:
        await log_in(run, run.wire, "PLAIN")
        answer = await run.ask(
            IncrementalAlterConfigsRequest(
                resources=[
                    AlterConfigsResource(
                        resource_type=BROKER,
                        resource_name="1",
                        configs=[
                            AlterableConfig(name=name, config_operation=0, value="canary-value")
                        ],
                    )
                ],
                validate_only=False,
            ),
            IncrementalAlterConfigsResponse,
        )
        assert answer.responses[0].error_code
        assert "canary-value" not in run.log.getvalue()


def test_an_error_about_a_secret_option_does_not_repeat_it() -> None:
    with pytest.raises(KafkaError, match="hidden") as problem:
        check_static({"listener.name.plaintext.plain.sasl.jaas.config": "canary" * 10_000})
    assert "canary" not in str(problem.value)

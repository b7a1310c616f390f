"""Administration, awaited and blocking."""

import pytest

import barnabas
import barnabas.sync
from barnabas.model.errors import Code, InvalidRequest
from tests.client_suite.conftest import Served


async def test_a_topic_is_created_described_and_deleted(served: Served, topic: str) -> None:
    async with barnabas.Admin(bootstrap_servers=served.bootstrap_servers) as admin:
        await admin.create_topic(topic, partitions=3, configs={"retention.ms": "12345"})
        found = await admin.topic(topic)
        assert [partition.number for partition in found.partitions] == [0, 1, 2]
        options = {option.name: option.value for option in await admin.topic_options(topic)}
        assert options["retention.ms"] == "12345"
        await admin.delete_topic(topic)
        with pytest.raises(InvalidRequest) as refused:
            await admin.topic(topic)
    assert refused.value.code is Code.UNKNOWN_TOPIC_OR_PARTITION


def test_the_blocking_mirror_does_the_same(served: Served, topic: str) -> None:
    with barnabas.sync.Admin({"bootstrap.servers": served.bootstrap_servers}) as admin:
        admin.create_topic(topic, partitions=1)
        admin.create_partitions(topic, 2)
        assert len(admin.topic(topic).partitions) == 2
        with pytest.raises(InvalidRequest) as refused:
            admin.create_topic(topic)
    assert refused.value.code is Code.TOPIC_ALREADY_EXISTS

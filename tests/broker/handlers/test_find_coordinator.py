"""FindCoordinator: where groups and transactional ids have their coordinator."""

from typing import Any

import pytest

from barnabas.broker.topic import TRANSACTIONS_TOPIC
from barnabas.model.errors import Code
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tests.broker.running import Running


@pytest.mark.parametrize("version", [1, 2, 4, 6])
async def test_the_first_search_creates_the_topic_of_transactions(
    running: Running, version: int
) -> None:
    request = FindCoordinatorRequest(key_type=1, key="tx")
    if version >= 4:
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=["tx"])
    assert running.broker.topics.get(TRANSACTIONS_TOPIC) is None
    answer: Any = await running.ask(request, FindCoordinatorResponse, version)
    if version >= 4:
        (answer,) = answer.coordinators
    assert (answer.error_code, answer.node_id) == (0, running.broker.id)
    assert len(running.broker.topics.existing(TRANSACTIONS_TOPIC).partitions) == 50


async def test_there_are_no_coordinators_of_other_types(running: Running) -> None:
    """The repeats are not logged one by one."""
    for _ in range(5):
        request = FindCoordinatorRequest(key_type=3, coordinator_keys=["share"])
        (answer,) = (await running.ask(request, FindCoordinatorResponse)).coordinators
        assert answer.error_code == Code.INVALID_REQUEST
        assert "coordinator type 3 is not supported" in (answer.error_message or "")
    assert running.log.getvalue().count("coordinator not found") == 1


async def test_the_coordinator_of_a_share_partition_has_a_key_of_its_own_form(
    running: Running,
) -> None:
    keys = ["queue:AQIDBAUGBwgREhMUFRYXGA:0", "queue"]
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=keys)
    found, other = (await running.ask(request, FindCoordinatorResponse)).coordinators
    assert (found.error_code, found.node_id) == (0, running.broker.id)
    assert other.error_code == Code.INVALID_REQUEST

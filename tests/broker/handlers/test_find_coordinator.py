"""FindCoordinator: what has no coordinator here."""

from typing import Any

import pytest

from barnabas.model.errors import Code
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tests.broker.running import Running


@pytest.mark.parametrize("version", [1, 2, 4, 6])
async def test_a_search_for_a_transaction_coordinator_is_stopped(
    running: Running, version: int
) -> None:
    """librdkafka asks for ever after any other code. The repeats are not logged one by one."""
    for _ in range(5):
        request = FindCoordinatorRequest(key_type=1, key="tx")
        if version >= 4:
            request = FindCoordinatorRequest(key_type=1, coordinator_keys=["tx"])
        answer: Any = await running.ask(request, FindCoordinatorResponse, version)
        if version >= 4:
            (answer,) = answer.coordinators
        assert answer.error_code == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert "transactions are not supported yet" in answer.error_message
    assert running.log.getvalue().count("coordinator not found") == 1

"""A broker for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.broker.running import Running, running_broker


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_broker(tmp_path) as running:
        yield running
        assert running.broker.counts.failures == 0, running.log.getvalue()

"""One log on a disk in memory."""

import pytest

from barnabas.log.log import Log
from tests.log.batches import new_log
from tests.simulator.disk import SimulatedDisk


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def log(disk: SimulatedDisk) -> Log:
    return new_log(disk)[1]

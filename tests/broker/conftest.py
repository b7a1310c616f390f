"""What tests of brokers share."""

from pathlib import Path

import pytest

from tests.broker.sick_disks import NAMES


@pytest.fixture
def directories(tmp_path: Path) -> list[Path]:
    """Where a broker may keep its logs: there are none yet."""
    return [tmp_path / name for name in NAMES]

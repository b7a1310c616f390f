"""Lives of groups of our memberships: a share here, as many as wanted by the environment."""

import os

import pytest

from tests.client.histories import KINDS, History
from tests.share import IN_FULL

COUNT = int(os.environ.get("BARNABAS_HISTORIES", "30" if IN_FULL else "10"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(COUNT))
def test_a_group_never_has_two_owners_and_always_settles(seed: int, kind: str) -> None:
    History(seed, kind).run()

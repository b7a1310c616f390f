"""Records that are written while offsets are asked for do not look like a transaction."""

from collections.abc import Mapping
from typing import Any, cast

import pytest

from barnabas.client.admin.admin import Admin, OffsetAt
from barnabas.client.transactions.report import UnstablePartition
from barnabas.client.transactions.reporting import TransactionReports
from barnabas.model.ids import TopicPartition

AT = TopicPartition("orders", 0)
FIRST_LOOK = UnstablePartition(AT, stable=10, end=12, leader=1)


class LookedAt:
    """A partition at the second look: no producer has a transaction open in it."""

    def __init__(self, stable: int, end: int) -> None:
        self._stable, self._end = stable, end

    async def offsets(
        self, wanted: Mapping[TopicPartition, int], *, committed_only: bool = False
    ) -> dict[TopicPartition, OffsetAt]:
        offset = self._stable if committed_only else self._end
        return {at: OffsetAt(offset, -1) for at in wanted}

    async def describe_producers(self, wanted: object) -> dict[TopicPartition, Any]:
        return {}


@pytest.mark.parametrize(
    ("stable", "end", "held"),
    [
        (12, 12, False),
        (12, 20, False),  # all of the first look is visible: the rest has been written since
        (15, 20, False),
        (10, 12, True),
        (11, 20, True),
    ],
)
async def test_only_records_that_stay_hidden_are_held_back(
    stable: int, end: int, held: bool
) -> None:
    reports = TransactionReports(cast(Admin, LookedAt(stable, end)), cast(Any, None))
    assert bool(await reports._still_held([FIRST_LOOK])) == held

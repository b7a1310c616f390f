"""How a benchmark lets two brokers take turns."""

from collections.abc import Iterator

from bench.figures import RECORDS_PER_S, Samples
from bench.sides import BARNABAS, KAFKA, Side
from bench.suite import Pace, Workload, drive, rows_of

SIDES = [Side(BARNABAS, "127.0.0.1:1", 0), Side(KAFKA, "127.0.0.1:2", 0)]
PACE = Pace(rounds=2, warm_up_passes=0, scale=1.0, places=("ram",))


def test_sides_take_turns_after_each_part_and_each_begins_half_of_the_rounds() -> None:
    turns = []

    def run(side: Side, _scale: float) -> Iterator[Samples]:
        for what in ("produce", "consume"):
            turns.append(f"{side.name} {what}")
            yield {what: {RECORDS_PER_S: 1.0}}

    compared = drive(SIDES, [Workload("both", ("produce", "consume"), run)], PACE, PACE.rounds)
    assert turns == [
        *("barnabas produce", "kafka produce", "barnabas consume", "kafka consume"),
        *("kafka produce", "barnabas produce", "kafka consume", "barnabas consume"),
    ]
    assert [set(one) for one in compared] == [{BARNABAS, KAFKA}] * 4


def test_a_ratio_is_the_median_of_the_parts_own_not_that_of_the_medians() -> None:
    rates = {BARNABAS: iter([1.0, 6.0, 4.0]), KAFKA: iter([1.0, 2.0, 4.0])}

    def run(side: Side, _scale: float) -> Iterator[Samples]:
        for rate in rates[side.name]:
            yield {"consume": {RECORDS_PER_S: rate}}

    workload = Workload("consume", ("consume",), run)
    (row,) = rows_of([workload], drive(SIDES, [workload], PACE, 1), {})
    assert (row.ours, row.theirs, row.ratio) == (4.0, 2.0, 1.0)

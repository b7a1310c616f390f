"""What a benchmark says at its end."""

from bench.figures import P50, Goal, Row, Table
from bench.report import summary

REACHED = Row("produce", P50, 1.0, 1.0, 1.0, Goal(most=1.5))
MISSED = Row("consume", P50, 2.0, 1.0, 2.0, Goal(most=1.5))
MISSED_PLAIN = Row("start", "ms", 900.0, None, None, Goal(most=300), plain=True)
NOT_JUDGED = Row("memory", "MB", 1.0, 2.0, 0.5)


def test_goals_that_were_missed_are_named_at_the_end() -> None:
    tables = [Table("on disk", [REACHED, MISSED]), Table("alone", [MISSED_PLAIN, NOT_JUDGED])]
    assert summary(tables).splitlines() == [
        "goals: 1 of 3 reached, 2 missed:",
        "  MISS  on disk: consume, p50 ms: 2x, goal <= 1.5x",
        "  MISS  alone: start, ms: 900, goal <= 300",
    ]


def test_a_run_without_a_miss_says_so_in_one_line() -> None:
    assert summary([Table("on disk", [REACHED, NOT_JUDGED])]) == "goals: 1 of 1 reached"
    assert summary([Table("on disk", [NOT_JUDGED])]) == "goals: none was checked"

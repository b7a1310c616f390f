"""Times as a person would say them."""

import pytest

from barnabas.model.words import duration


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1 s"),
        (4_250, "4.2 s"),
        (59_940, "59.9 s"),
        (60_000, "1 min"),
        (200_000, "3 min 20 s"),
        (3_600_000, "1 h"),
        (7_500_000, "2 h 5 min"),
        (90_000_000, "1 d 1 h"),
        (30 * 86_400_000, "30 d"),
    ],
)
def test_a_duration_is_said_as_shortly_as_it_can_be(ms: int, text: str) -> None:
    assert duration(ms) == text

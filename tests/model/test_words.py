"""Times and names as a person would say them."""

import pytest

from barnabas.model.words import duration, short_member


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


@pytest.mark.parametrize(
    ("member", "client", "text"),
    [
        ("worker-9f240110-13e2-4abe-93bd-31de7269a880", "worker", "worker-9f240110"),
        ("i-9f240110-13e2-4abe-93bd-31de7269a880", "worker", "worker-i-9f2401"),
        ("H1bSiJIYQCG2U4mNd95gNQ", "worker", "worker-H1bSiJIY"),
        ("H1bSiJIYQCG2U4mNd95gNQ", "", "H1bSiJIYQCG2U4mNd95gNQ"),
    ],
)
def test_a_member_is_known_by_its_client_and_a_little_of_its_id(
    member: str, client: str, text: str
) -> None:
    assert short_member(member, client) == text

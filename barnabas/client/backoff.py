"""How long to wait before trying again: doubling, bounded, and not in step with others."""

from collections.abc import Iterator

FIRST_MS = 50
MAX_MS = 1_000


def waits_ms(
    chance: Iterator[float], first_ms: int = FIRST_MS, max_ms: int = MAX_MS
) -> Iterator[int]:
    """Each between half and all of a bound that doubles. `chance` gives numbers from 0 to 1."""
    bound = first_ms
    for number in chance:
        yield int(bound * (0.5 + number / 2))
        bound = min(bound * 2, max_ms)

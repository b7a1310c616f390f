"""Formats numbers and names for people."""

from collections.abc import Iterable, Sequence

NAMES_SHOWN_MAX = 4


def count(number: int, what: str) -> str:
    """1 record, 1,204 records."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def listed(names: Iterable[object], shown: int = NAMES_SHOWN_MAX) -> str:
    """a, b and 3 more."""
    all_: Sequence[str] = [str(name) for name in names]
    if len(all_) > shown:
        return f"{', '.join(all_[:shown])} and {len(all_) - shown} more"
    return " and ".join(filter(None, [", ".join(all_[:-1]), all_[-1]])) if all_ else "none"


def per_second(records: int, ms: int) -> str:
    """12/s, 0.4/s."""
    rate = records * 1_000 / max(1, ms)
    return f"{rate:,.0f}/s" if rate >= 10 or rate == 0 else f"{rate:.1f}/s"

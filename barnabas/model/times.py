"""Times as people write and read them."""

from datetime import UTC, datetime

_LONG_MAX = 2**63 - 1
_DIGITS_MAX = 20


def parse_time(text: str) -> int:
    """Milliseconds since 1970, or ISO 8601; without a zone it is local time."""
    if text.isascii() and text.isdigit():
        return in_64_bits(text)
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise ValueError(
            f"{text!r}: expected milliseconds, or a time as 2026-01-31T12:00:00"
        ) from None


def in_64_bits(text: str) -> int:
    if len(text) > _DIGITS_MAX or not -_LONG_MAX <= int(text) <= _LONG_MAX:
        raise ValueError(f"{text[:100]!r}: expected at most {_LONG_MAX}")
    return int(text)


def iso_time(timestamp_ms: int) -> str:
    """In UTC, with milliseconds; past the year 9999, the bare number."""
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

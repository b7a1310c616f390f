"""Formats durations and names for people."""

import re

_UUID = re.compile(r"-([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")
_SHORT = 8


def duration(ms: int) -> str:
    """A short duration: 350 ms, 4.2 s, 3 min 20 s, 2 h 5 min, 3 d 4 h."""
    if ms < 1_000:
        return f"{ms} ms"
    if ms < 60_000:
        return f"{ms / 1_000:.1f}".removesuffix(".0") + " s"
    seconds = ms // 1_000
    for large, name, small, under in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min")):
        if seconds >= large:
            whole, rest = divmod(seconds, large)
            return f"{whole} {name}" + (f" {rest // small} {under}" if rest >= small else "")
    whole, rest = divmod(seconds, 60)
    return f"{whole} min" + (f" {rest} s" if rest else "")


def short_member(member: str, client: str) -> str:
    """The client id of a member with the first characters of its member id: worker-9f240110."""
    shortened = _UUID.sub(r"-\1", member)
    if not client or shortened.startswith(f"{client}-"):
        return shortened
    return f"{client}-{member[:_SHORT]}"


def printable(text: str) -> str:
    """Text on one line, without control characters: names are not trusted."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)

"""Bounds the memory that the members of all groups use.

In: what members bring, group by group. Out: whether there is memory for more.
Always: metadata and names of members are counted before they are in the log; what is in the log
is bounded by the log.
Not here: the limits of one group (limits.py).

A classic member sends metadata of any content, and every client that asks gets a member id. Without
a bound, a client could fill the broker's memory by joining under many names.
"""

MEMBER_BYTES = 2_000  # a member, or a member id given out, without its metadata
NAMES_BYTES = 500  # the part of it that is for names


def names_bytes(*names: str | None) -> int:
    """The memory for names beyond the part that MEMBER_BYTES has for them."""
    return max(0, sum(len(name or "") for name in names) - NAMES_BYTES)


class MemberMemory:
    """One for all groups of a broker."""

    __slots__ = ("bytes_max", "used")

    def __init__(self, bytes_max: int = 256 * 1024 * 1024) -> None:
        self.bytes_max = bytes_max
        self.used = 0

    def lacks(self, size: int) -> bool:
        """Is there too little memory for one more member with metadata of this size?"""
        return self.used + size + MEMBER_BYTES > self.bytes_max
